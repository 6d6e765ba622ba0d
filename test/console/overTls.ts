/** A console over TLS, with an authority of its own for people. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { Agent, request } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect, createServer as createTlsServer } from 'node:tls';
import { pino } from 'pino';
import type { Test } from 'tap';
import type { ConsoleOptions } from '../../src/console/console.ts';
import type { CertifiedPerson } from '../../src/console/doors.ts';
import { TlsCertificates } from '../../src/web/tls.ts';
import {
  issueCertificate,
  issueClient,
  type KeyPair,
  makeAuthority,
  revoke,
} from '../support/certificates.ts';
import { freePort } from '../support/freePort.ts';
import { type ConsoleAnswer, openTestConsole, type TestConsole } from './testConsole.ts';

const FORM = { 'content-type': 'application/x-www-form-urlencoded' };

interface Asked {
  /** Undefined: the client shows none. */
  as?: KeyPair | undefined;
  cookie?: string;
  host?: string;
  site?: string;
}

export function askOverTls(
  port: number,
  method: 'GET' | 'POST',
  path: string,
  { as, cookie, host = `localhost:${port}`, site = method === 'GET' ? 'none' : 'same-origin' }: Asked,
  fields: Record<string, string> = {},
): Promise<ConsoleAnswer> {
  const headers = {
    ...{ host, 'sec-fetch-site': site },
    ...(cookie !== undefined && { cookie }),
    ...(method === 'POST' && FORM),
  };
  const pair = as && { cert: readFileSync(as.certificateFile), key: readFileSync(as.keyFile) };
  const agent = new Agent({ rejectUnauthorized: false, ...pair });
  return new Promise((resolve, reject) => {
    request({ host: '127.0.0.1', port, method, path, headers, agent }, async (response) => {
      const chunks: Buffer[] = [];
      for await (const chunk of response) chunks.push(chunk);
      agent.destroy();
      const { statusCode: status = 0, headers } = response;
      resolve({ status, headers, text: Buffer.concat(chunks).toString() });
    })
      .once('error', reject)
      .end(method === 'POST' ? String(new URLSearchParams(fields)) : '');
  });
}

interface SignedIn {
  cookie: string;
  token: string;
  answer: ConsoleAnswer;
}

/** Presses the button of the sign-in page. Returns what the browser keeps, and the token of the forms. */
export async function signInOverTls(port: number, as: KeyPair): Promise<SignedIn> {
  const answer = await askOverTls(port, 'POST', '/login', { as }, { link: '' });
  const [cookie = ''] = String(answer.headers['set-cookie']).split(';');
  const { text } = await askOverTls(port, 'GET', '/', { as, cookie });
  return { cookie, token: /name="token" value="([^"]+)"/.exec(text)?.[1] ?? '', answer };
}

type Parts = Pick<TlsConsole, 'test' | 'dir' | 'port' | 'tls' | 'authority' | 'server' | 'crl' | 'people'>;

export class TlsConsole {
  readonly test: TestConsole;
  readonly dir: string;
  readonly port: number;
  readonly tls: TlsCertificates;
  readonly authority: KeyPair;
  readonly server: KeyPair;
  readonly crl: string;
  /** As the configuration has them. */
  people: CertifiedPerson[];
  /** How far the date that the console believes is ahead. */
  aheadMs = 0;

  constructor({ test, dir, port, tls, authority, server, crl, people }: Parts) {
    this.test = test;
    this.dir = dir;
    this.port = port;
    this.tls = tls;
    this.authority = authority;
    this.server = server;
    this.crl = crl;
    this.people = people;
  }

  client(name: string): KeyPair {
    return issueClient(this.dir, name, this.authority);
  }

  get(path: string, asked: Asked = {}): Promise<ConsoleAnswer> {
    return askOverTls(this.port, 'GET', path, asked);
  }

  post(path: string, fields: Record<string, string>, asked: Asked = {}): Promise<ConsoleAnswer> {
    return askOverTls(this.port, 'POST', path, asked, fields);
  }

  signIn(as: KeyPair): Promise<SignedIn> {
    return signInOverTls(this.port, as);
  }

  /**
   * A port at which a browser reaches the console with that certificate: headless Chromium asks nobody which certificate to show. It
   * speaks TLS to the browser too, with the certificate of the console.
   */
  async portFor(t: Test, as: KeyPair): Promise<number> {
    const port = await freePort();
    const own = { cert: readFileSync(this.server.certificateFile), key: readFileSync(this.server.keyFile) };
    const pair = { cert: readFileSync(as.certificateFile), key: readFileSync(as.keyFile) };
    const server = createTlsServer(own, (browser) => {
      const console = connect({ host: '127.0.0.1', port: this.port, rejectUnauthorized: false, ...pair });
      for (const [from, to] of [
        [browser, console],
        [console, browser],
      ] as const)
        from
          .on('error', () => to.destroy())
          .on('close', () => to.destroy())
          .pipe(to);
    });
    server.on('tlsClientError', () => {});
    await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
    t.teardown(() => server.close());
    return port;
  }
}

/** Anna is an administrator, and Bert an auditor, by certificates of the names `anna` and `bert`. */
export async function openTlsConsole(t: Test, options: Partial<ConsoleOptions> = {}): Promise<TlsConsole> {
  const dir = mkdtempSync(join(tmpdir(), 'console-tls-'));
  t.teardown(() => rmSync(dir, { recursive: true, force: true }));
  const authority = makeAuthority(dir, 'people');
  const server = issueCertificate(
    dir,
    'console',
    makeAuthority(dir, 'servers'),
    30,
    'ecdsa',
    'DNS:localhost,DNS:*.example.com',
  );
  const crl = join(dir, 'people.crl');
  revoke(dir, crl, authority, []);
  const files = {
    ...server,
    clientCaFile: authority.certificateFile,
    clientCrlFile: crl,
    clientCertificateRequired: false,
  };
  const tls = new TlsCertificates('console.tls', files, pino({ level: 'silent' }), 50);
  t.teardown(() => tls.close());
  const port = await freePort();
  const people: CertifiedPerson[] = [
    { certificateName: 'CN=anna', name: 'Anna', role: 'administrator' },
    { certificateName: 'CN=bert', name: 'Bert', role: 'auditor' },
  ];
  const opened: { it?: TlsConsole } = {};
  const test = await openTestConsole(t, {
    ...options,
    tls: {
      listen: { host: '127.0.0.1', port },
      certificates: tls,
      people: () => opened.it?.people ?? [],
      date: () => Date.now() + (opened.it?.aheadMs ?? 0),
    },
  });
  opened.it = new TlsConsole({ test, dir, port, tls, authority, server, crl, people });
  return opened.it;
}
