/** What keeps `pdfseal submit` from the service for good is told at once, and what may pass is waited for. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer as createHttpServer } from 'node:http';
import { createServer as createTlsServer, type ServerOptions } from 'node:https';
import type { AddressInfo, Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import t, { type Test } from 'tap';
import { ApiClient, ConnectionFailure, type Reach } from '../../src/cli/client/apiClient.ts';
import { Unreachable } from '../../src/cli/client/lastingFault.ts';
import { askAdministration } from '../../src/cli/daemon/adminClient.ts';
import { issueCertificate, type KeyPair, makeAuthority } from '../support/certificates.ts';
import { HOSTILITIES, hostilityOf, openHostile, TLS_HOSTILITIES } from '../support/hostile.ts';
import { NEVER } from '../support/partitions.ts';
import { programFile } from '../support/programs.ts';

const CLI = await programFile('cli', 'src');
const GET = { method: 'GET', path: '/openapi.json' } as const;

const dir = mkdtempSync(join(t.testdir(), 'tls-'));
const authority = makeAuthority(dir, 'authority');
const own = issueCertificate(dir, 'own', authority);
const foreign = issueCertificate(dir, 'foreign', makeAuthority(dir, 'another'));
const ended = issueCertificate(dir, 'ended', authority, -1);
const ca = readFileSync(authority.certificateFile, 'utf8');

function read({ certificateFile, keyFile }: KeyPair) {
  return { cert: readFileSync(certificateFile, 'utf8'), key: readFileSync(keyFile, 'utf8') };
}

async function listen(t: Test, server: Server, host = '127.0.0.1'): Promise<string> {
  server.listen(0, host);
  await once(server, 'listening');
  t.teardown(() => server.close());
  return `${host}:${(server.address() as AddressInfo).port}`;
}

function openTls(t: Test, options: ServerOptions, host?: string): Promise<string> {
  const server = createTlsServer(options, (_, res) => res.end('{}'));
  server.on('tlsClientError', () => {});
  t.teardown(() => server.closeAllConnections());
  return listen(t, server, host);
}

function ask(url: string, reach: Reach = {}, signal = NEVER): Promise<unknown> {
  return new ApiClient(new URL(url), 'seal_test', reach).send(GET, signal);
}

t.test('a connection that cannot work fails with a code and a remedy', async (t) => {
  const host = await openTls(t, read(own));
  const plain = await listen(
    t,
    createHttpServer((_, res) => res.end('{}')),
  );
  const picky = await openTls(t, { ...read(own), ca, requestCert: true, rejectUnauthorized: true });
  const old = await openTls(t, { ...read(own), maxVersion: 'TLSv1.1', minVersion: 'TLSv1' });
  const elsewhere = await openTls(t, read(own), '127.0.0.2');
  const cases: [what: string, url: string, reach: Reach, code: string, message: RegExp, remedy: RegExp][] = [
    [
      'an unknown authority',
      `https://${host}`,
      {},
      'server_untrusted',
      /an authority that is not trusted/,
      /--tls-ca$/,
    ],
    [
      'another authority',
      `https://${await openTls(t, read(foreign))}`,
      { ca },
      'server_untrusted',
      /an authority that is not trusted/,
      /--tls-ca; the file you named is of another/,
    ],
    [
      'another name',
      `https://${elsewhere}`,
      { ca },
      'server_untrusted',
      /not for 127\.0\.0\.2, but for: DNS:localhost, IP Address:127\.0\.0\.1/,
      /--url/,
    ],
    [
      'an expired certificate',
      `https://${await openTls(t, read(ended))}`,
      { ca },
      'server_untrusted',
      /has expired/,
      /renewed/,
    ],
    ['https to http', `https://${plain}`, {}, 'server_unreachable', /does not use TLS/, /--url/],
    ['http to https', `http://${host}`, {}, 'server_unreachable', /uses TLS, but --url says http/, /https/],
    [
      'http to https that asks for a certificate',
      `http://${picky}`,
      {},
      'server_unreachable',
      /uses TLS/,
      /https/,
    ],
    ['an old TLS', `https://${old}`, { ca }, 'server_unreachable', /refuses TLS/, /version/],
    [
      'no such host',
      'http://no-such-name.invalid',
      {},
      'server_unreachable',
      /host no-such-name\.invalid does not exist/,
      /--url/,
    ],
  ];
  for (const [what, url, reach, code, message, remedy] of cases) {
    const error = await ask(url, reach).catch((caught: unknown) => caught);
    t.match(error, { name: 'Unreachable', code, message, remedy }, what);
  }
  // A reset may overtake the reason; then it is tried again.
  const refused = await ask(`https://${picky}`, { ca }).catch((caught: unknown) => caught);
  if (refused instanceof Unreachable) t.match(refused.remedy, /--tls-certificate/);
  else t.type(refused, ConnectionFailure);
  t.match(await ask(`https://${picky}`, { ca, ...read(own) }), { status: 200 });
});

t.test('every hostile answer ends the request, for good or for a retry', async (t) => {
  for (const [scheme, hostilities] of [
    ['http', HOSTILITIES],
    ['https', TLS_HOSTILITIES],
  ] as const) {
    for (const hostility of hostilities.filter(({ name }) => !/body for ever|chunks for ever/.test(name))) {
      const { name, stage, reason } = hostility;
      const server = await openHostile(t, hostility);
      const signal = reason === 'timeout' ? AbortSignal.timeout(50) : NEVER;
      const error = await ask(`${scheme}://${server.host}`, {}, signal).catch((caught: unknown) => caught);
      const lasts = stage !== 'body' && (reason === 'invalid_answer' || reason === 'tls_failed');
      t.type(error, lasts ? Unreachable : ConnectionFailure, name);
      await server.left();
    }
  }
});

t.test('a hostile answer in the place of the administration is not waited for', async (t) => {
  for (const name of ['closes', 'switches protocols', 'switches to nothing', 'closes within the body']) {
    const folder = mkdtempSync(join(tmpdir(), 'pdfseal-admin-')); // its path has to be short
    t.teardown(() => rmSync(folder, { recursive: true }));
    const path = join(folder, 'socket');
    const server = await openHostile(t, hostilityOf(name), { path });
    await t.rejects(askAdministration({ path }, 'GET', '/status'), { code: 'daemon_silent' }, name);
    await server.left();
  }
});

t.test('an unreachable server is reported once, however many documents there are', async (t) => {
  const host = await openTls(t, read(own));
  const folder = t.testdir({ 'a.pdf': '%PDF-1.7 a', 'b.pdf': '%PDF-1.7 b', 'c.pdf': '%PDF-1.7 c' });
  const key = join(folder, 'key');
  writeFileSync(key, 'seal_test');
  const submit = async (...more: string[]) => {
    const target = ['--url', `https://${host}`, '--visibility', 'private', '--key-file', key];
    const child = spawn(process.execPath, [CLI, 'submit', folder, ...target, ...more]);
    const [stderr, [status]] = await Promise.all([text(child.stderr), once(child, 'exit')]);
    return { stderr, status: status as number };
  };
  for (const more of [[], ['--digest-only']]) {
    const { stderr, status } = await submit(...more);
    t.equal(status, 1);
    t.equal(stderr.split('an authority that is not trusted').length, 2, stderr);
    t.match(stderr, /→ name the PEM file of its authority with --tls-ca/);
  }
  const json = await submit('--json');
  t.match(JSON.parse(json.stderr), { error: { code: 'server_untrusted', remedy: /--tls-ca/ } });
  const garbled = await submit('--tls-ca', key);
  t.match(garbled, { status: 1, stderr: /TLS cannot use .*key \(.*name PEM files/s });
  const half = await submit('--tls-certificate', own.certificateFile);
  t.match(half, { status: 64, stderr: /--tls-certificate and --tls-key need each other/ });
});
