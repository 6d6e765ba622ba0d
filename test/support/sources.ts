import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import type { Test } from 'tap';
import { openssl } from './certificates.ts';

export function sha256Of(document: Uint8Array): string {
  return createHash('sha256').update(document).digest('hex');
}

/** `Repr-Digest` of a document. */
export function reprDigest(document: Uint8Array): string {
  return `sha-256=:${createHash('sha256').update(document).digest('base64')}:`;
}

/** What a source says to one request; unlike a file server's, it may be anything. */
export type SourceHandler = (req: IncomingMessage, res: ServerResponse) => unknown;

/** A server that keeps documents, on a loopback address. */
export interface SourceServer {
  /** Without a slash at its end. */
  origin: string;
  port: number;
  /** `GET /path` and so on, in the order they came. */
  requests: string[];
  headers: IncomingMessage['headers'][];
}

export interface SourceServerOptions {
  host?: string;
  /** Speaks TLS with this certificate. */
  tls?: { key: string; cert: string };
  port?: number;
}

/** Closed with the test. Rejects where there is no such address to listen on. */
export async function openSource(
  t: Pick<Test, 'teardown'>,
  handle: SourceHandler,
  { host = '127.0.0.1', tls, port = 0 }: SourceServerOptions = {},
): Promise<SourceServer> {
  const requests: string[] = [];
  const headers: IncomingMessage['headers'][] = [];
  const listener: RequestListener = (req, res) => {
    requests.push(`${req.method} ${req.url}`);
    headers.push(req.headers);
    handle(req, res);
  };
  const server = tls ? createTlsServer(tls, listener) : createServer(listener);
  await new Promise<void>((resolve, reject) =>
    server.once('error', reject).listen(port, host, () => resolve()),
  );
  t.teardown(() => {
    server.closeAllConnections();
    return new Promise((resolve) => server.close(resolve));
  });
  const bound = (server.address() as AddressInfo).port;
  const name = host.includes(':') ? `[${host}]` : host;
  return { origin: `http${tls ? 's' : ''}://${name}:${bound}`, port: bound, requests, headers };
}

/** Answers HEAD and GET with the document as a good server does. */
export function serving(document: Uint8Array, more: Record<string, string> = {}): SourceHandler {
  return (req, res) => {
    res.writeHead(200, {
      'Content-Type': 'application/pdf',
      'Content-Length': document.length,
      'Repr-Digest': reprDigest(document),
      ...more,
    });
    res.end(req.method === 'HEAD' ? undefined : document);
  };
}

/** HEAD by the first, GET by the second. */
export function either(head: SourceHandler, get: SourceHandler): SourceHandler {
  return (req, res) => (req.method === 'HEAD' ? head : get)(req, res);
}

export function status(code: number, headers: Record<string, string> = {}): SourceHandler {
  return (_, res) => res.writeHead(code, headers).end();
}

/** A certificate for the loopback addresses, its own authority. */
export function makeTls(t: Test): { key: string; cert: string } {
  const dir = t.testdir();
  const [key, cert] = [join(dir, 'key.pem'), join(dir, 'cert.pem')];
  const names = 'subjectAltName=DNS:localhost,IP:127.0.0.1,IP:::1';
  const { status: exit, output } = openssl(
    ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '2'],
    ...['-subj', '/CN=a source', '-addext', names, '-keyout', key, '-out', cert],
  );
  if (exit !== 0) throw new Error(output);
  return { key: readFileSync(key, 'utf8'), cert: readFileSync(cert, 'utf8') };
}
