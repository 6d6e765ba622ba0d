/** Where the daemon listens, and with what it proves itself: real TLS, real Unix sockets. */
import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import {
  copyFileSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { request } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect, type DetailedPeerCertificate } from 'node:tls';
import t, { type Test } from 'tap';
import { type ApiAnswer, ApiClient, type Reach } from '../../src/cli/client/apiClient.ts';
import { askAdmin, parseMetrics, sampleOf } from '../support/admin.ts';
import { issueCertificate, issueClient, type KeyPair, makeAuthority } from '../support/certificates.ts';
import { makePdf } from '../support/pdf.ts';
import { openSandbox, type Sandbox } from '../support/sandbox.ts';
import { until } from '../support/until.ts';
import { ServiceManager } from './serviceManager.ts';

const read = (file: string) => readFileSync(file, 'utf8');
const NEVER = new AbortController().signal;
/** As under PrivateNetwork=: the sockets that the service manager holds are of another namespace. */
const WITHOUT_NETWORK = [
  'unshare',
  ...(process.getuid?.() === 0 ? [] : ['--user', '--map-current-user']),
  '--net',
];

/** Puts a key pair where the daemon reads it, as renewal does: one file after the other, each at once. */
function install(pair: KeyPair, at: KeyPair): void {
  for (const name of ['certificateFile', 'keyFile'] as const) {
    copyFileSync(pair[name], `${at[name]}.new`);
    renameSync(`${at[name]}.new`, at[name]);
  }
}

function edit(sandbox: Sandbox, from: string | RegExp, to: string): void {
  writeFileSync(sandbox.configFile, read(sandbox.configFile).replace(from, to));
}

/** The serial number of the certificate a new connection is shown. */
function serialShown(port: number, ca: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port, host: '127.0.0.1', ca }, () => {
      resolve((socket.getPeerCertificate() as DetailedPeerCertificate).serialNumber);
      socket.destroy();
    });
    socket.once('error', reject);
  });
}

async function openHouse(t: Test, options: { clientCa?: boolean } = {}) {
  const sandbox = await openSandbox({ code: 'dist' });
  t.teardown(() => sandbox.close());
  const { dir } = sandbox;
  const authority = makeAuthority(dir, 'authority');
  const files = { certificateFile: join(dir, 'server.pem'), keyFile: join(dir, 'server.key') };
  const first = issueCertificate(dir, 'first', authority);
  install(first, files);
  const clients = options.clientCa ? 'client_ca_file = "clients.pem"\n' : '';
  edit(
    sandbox,
    '[log]',
    `[http.tls]\ncertificate_file = "server.pem"\nkey_file = "server.key"\n${clients}[log]`,
  );
  const apiKey = await sandbox.issueKey();
  const url = `https://127.0.0.1:${sandbox.port}`;
  const ca = read(authority.certificateFile);
  const clientOf = (reach: Reach) => new ApiClient(new URL(url), apiKey, { ca, ...reach });
  return { sandbox, authority, files, url, ca, clientOf, apiKey };
}

/** Asks over a connection of its own. */
const ask = (client: ApiClient): Promise<ApiAnswer> =>
  client.send({ method: 'GET', path: '/jobs?limit=1', headers: { Connection: 'close' } }, NEVER);

t.test('certificates are renewed under load without a failed request', async (t) => {
  const { sandbox, authority, files, url, ca, clientOf, apiKey } = await openHouse(t);
  const daemon = await sandbox.start();
  t.match(
    daemon.log.find(({ msg }) => msg === 'TLS certificate in use'),
    { subject: 'CN=first', not_after: /Z$/, fingerprint_sha256: /^[0-9A-F:]{95}$/ },
  );
  const document = join(sandbox.dir, 'a.pdf');
  writeFileSync(document, await makePdf('a'));
  const submitted = await sandbox.pdfseal(
    ['submit', document, '--url', url, '--visibility', 'private', '--tls-ca', authority.certificateFile],
    { env: { PDFSEAL_API_KEY: apiKey } },
  );
  t.equal(submitted.status, 0, submitted.stderr);
  const { servers } = JSON.parse(
    (await clientOf({}).send({ method: 'GET', path: '/openapi.json' }, NEVER)).text,
  ) as { servers: { url: string }[] };
  t.strictSame(servers, [{ url: `${url}/v1` }], 'it knows that it is https');
  await t.rejects(ask(new ApiClient(new URL(url), apiKey)), /certificate/, 'of an unknown authority');
  await t.rejects(ask(new ApiClient(new URL(url.replace('https', 'http')), apiKey)), {
    name: 'Unreachable',
    message: /uses TLS/,
  });

  let loading = true;
  const statuses = new Set<number>();
  let answers = 0;
  const load = async () => {
    while (loading) {
      statuses.add((await ask(clientOf({}))).status);
      answers += 1;
    }
  };
  const loads = [load(), load()];
  const second = issueCertificate(sandbox.dir, 'second', authority);
  const before = await serialShown(sandbox.port, ca);
  install(second, files);
  await until('the new certificate is shown', async () => (await serialShown(sandbox.port, ca)) !== before);
  await until('it is told', () =>
    daemon.log.some(({ msg, subject }) => msg === 'new TLS certificate in use' && subject === 'CN=second'),
  );

  const third = issueCertificate(sandbox.dir, 'third', authority, 1);
  const shown = await serialShown(sandbox.port, ca);
  copyFileSync(third.certificateFile, files.certificateFile);
  const isRefused = () =>
    daemon.log.some(
      ({ msg }) => msg === 'the new TLS certificate cannot be used: the previous one stays in use',
    );
  await until('a pair that does not fit is refused', isRefused);
  t.equal(await serialShown(sandbox.port, ca), shown);
  copyFileSync(third.keyFile, files.keyFile);
  daemon.child.kill('SIGHUP');
  await until('SIGHUP takes it', async () => (await serialShown(sandbox.port, ca)) !== shown);
  await until('its end is announced', () =>
    daemon.log.some(
      ({ msg, days_left }) => msg === 'a TLS certificate expires soon: renew it' && days_left === 0,
    ),
  );
  const metrics = parseMetrics((await askAdmin(sandbox, '/metrics')).text);
  const end = sampleOf(metrics, 'pdfseal_certificate_not_after_timestamp_seconds', {
    authority: 'http.tls',
    role: 'server',
    subject: 'CN=third',
  });
  t.match(end, Date.parse(new X509Certificate(read(third.certificateFile)).validTo) / 1000, 'and measured');
  const enough = answers + 20;
  await until('there was load', () => answers >= enough);
  loading = false;
  await Promise.all(loads);
  t.strictSame([...statuses], [200]);
  t.equal(await daemon.stop(), 0);
});

t.test('only a client certificate of the configured authority is accepted', async (t) => {
  const { sandbox, authority, url, clientOf, apiKey } = await openHouse(t, { clientCa: true });
  const own = makeAuthority(sandbox.dir, 'clients');
  const daemon = await sandbox.start();
  const reachOf = ({ certificateFile, keyFile }: KeyPair): Reach => ({
    cert: read(certificateFile),
    key: read(keyFile),
  });
  const good = issueCertificate(sandbox.dir, 'good', own);
  t.equal((await ask(clientOf(reachOf(good)))).status, 200);
  // A reset may overtake the reason.
  const refused = { name: /^(Unreachable|ConnectionFailure)$/ };
  await t.rejects(ask(clientOf({})), refused, 'without one');
  const foreign = issueCertificate(sandbox.dir, 'foreign', authority);
  await t.rejects(ask(clientOf(reachOf(foreign))), refused, 'of another authority');
  t.equal(
    (await ask(new ApiClient(new URL(url), 'x', { ca: read(authority.certificateFile), ...reachOf(good) })))
      .status,
    401,
    'it is no API key',
  );

  const document = join(sandbox.dir, 'a.pdf');
  writeFileSync(document, await makePdf('a'));
  const { status, stderr } = await sandbox.pdfseal(
    [
      ...['submit', document, '--url', url, '--visibility', 'private', '--tls-ca', authority.certificateFile],
      ...['--tls-certificate', good.certificateFile, '--tls-key', good.keyFile],
    ],
    { env: { PDFSEAL_API_KEY: apiKey } },
  );
  t.equal(status, 0, stderr);
  t.match(stderr, /with the API key of PDFSEAL_API_KEY/, 'which of the two counts is said');

  const others = makeAuthority(sandbox.dir, 'others');
  copyFileSync(others.certificateFile, own.certificateFile);
  daemon.child.kill('SIGHUP');
  const replaced = issueCertificate(sandbox.dir, 'replaced', others);
  await until('the new authority counts', async () => {
    return (await ask(clientOf(reachOf(replaced))).catch(() => undefined))?.status === 200;
  });
  await t.rejects(ask(clientOf(reachOf(good))), refused, 'and the one before no more');
});

t.test('a certificate replaces an API key, and a bound key needs its certificate', async (t) => {
  const { sandbox, authority, url, ca, apiKey } = await openHouse(t, { clientCa: true });
  edit(sandbox, 'client_ca_file', 'client_certificate_required = false\nclient_ca_file');
  const own = makeAuthority(sandbox.dir, 'clients');
  const pair = issueClient(sandbox.dir, 'invoices', own, { subject: '/O=Acme/CN=invoices' });
  const renewed = issueClient(sandbox.dir, 'renewed', own, { subject: '/O=Acme/CN=invoices' });
  const keys = (...args: string[]) =>
    sandbox.pdfseal(['keys', ...args, '--json', '--config', sandbox.configFile]);
  const statusOf = async (secrets: Reach, headers: Record<string, string> = {}) => {
    const sent = request(`${url}/v1/jobs`, { ca, agent: false, headers, ...secrets });
    sent.end();
    const [answer] = (await once(sent, 'response')) as [IncomingMessage];
    answer.resume();
    return answer.statusCode;
  };
  const [invoices, next] = [pair, renewed].map(({ certificateFile, keyFile }) => ({
    cert: read(certificateFile),
    key: read(keyFile),
  }));
  if (invoices === undefined || next === undefined) throw new Error('no certificate');
  const daemon = await sandbox.start();
  const name = ['--certificate-name', 'CN=invoices,O=Acme', '--client', 'invoices', '--organization', 'acme'];
  t.equal(await statusOf(invoices), 401);
  const { id, api_key, certificate_name } = JSON.parse((await keys('issue', ...name)).stdout);
  t.strictSame([api_key, certificate_name], [undefined, 'CN=invoices,O=Acme'], 'there is no key');
  t.equal(await statusOf(invoices), 200);
  t.equal(await statusOf({}), 401);
  const document = join(sandbox.dir, 'a.pdf');
  writeFileSync(document, await makePdf('a'));
  const submitted = await sandbox.pdfseal([
    ...['submit', document, '--url', url, '--visibility', 'private', '--tls-ca', authority.certificateFile],
    ...['--tls-certificate', pair.certificateFile, '--tls-key', pair.keyFile],
  ]);
  t.equal(submitted.status, 0, submitted.stderr);
  t.equal(await statusOf({}, { Authorization: `Bearer ${apiKey}` }), 200, 'a key as before');
  t.match(await keys('issue', ...name), { status: 1, stderr: /stands for the client already/ });
  const other = name.map((word) => (word === 'invoices' ? 'other' : word));
  t.match(await keys('issue', ...other), { status: 1, stderr: /stood for client invoices/ });
  t.match(await keys('rotate', id), { status: 1, stderr: /renew the certificate at its authority/ });
  for (const loose of ['CN=invoices, O=Acme', 'CN = invoices', 'invoices', 'DNS:a b', 'URI:"x"']) {
    const args = ['--certificate-name', loose, '--client', 'x', '--organization', 'acme'];
    t.match(await keys('issue', ...args), { status: 64, stderr: /openssl x509/ }, loose);
  }
  t.match(await keys('revoke', id), { status: 0 });
  t.equal(await statusOf(invoices), 401, 'revoked');
  t.match(await keys('issue', ...name), { status: 0 }, 'and issued again');
  t.equal(await statusOf(invoices), 200);

  const bound = JSON.parse(
    (
      await keys(
        ...['issue', '--client', 'bound', '--organization', 'acme', '--for', '1h'],
        ...['--bind-certificate', pair.certificateFile],
      )
    ).stdout,
  );
  const bearer = (key: string) => ({ Authorization: `Bearer ${key}` });
  t.equal(await statusOf(invoices, bearer(bound.api_key)), 200);
  t.equal(await statusOf(next, bearer(bound.api_key)), 401);
  t.equal(await statusOf({}, bearer(bound.api_key)), 401);
  const rotated = JSON.parse(
    (await keys('rotate', bound.id, '--bind-certificate', renewed.certificateFile)).stdout,
  );
  t.equal(await statusOf(next, bearer(rotated.api_key)), 200, 'bound to the renewed certificate');
  const revoked = await sandbox.pdfseal(['keys', 'revoke', bound.id, '--config', sandbox.configFile]);
  t.match(revoked.stderr, `${rotated.id}, which replaced it, stays valid`);
  t.match((await sandbox.pdfseal(['check', '--config', sandbox.configFile])).status, 0);
  t.equal(await daemon.stop(), 0);
});

t.test('a Unix socket serves next to a port', async (t) => {
  const sandbox = await openSandbox({ code: 'dist' });
  t.teardown(() => sandbox.close());
  const dir = mkdtempSync(join(tmpdir(), 'pdfseal-'));
  t.teardown(() => rmSync(dir, { recursive: true, force: true }));
  const socketPath = join(dir, 'seal.sock');
  edit(sandbox, /listen = (".*")/, `listen = [$1, "unix:${socketPath}"]`);
  const apiKey = await sandbox.issueKey();
  const byPort = new ApiClient(new URL(sandbox.url), apiKey);
  const bySocket = new ApiClient(new URL('http://localhost'), apiKey, { socketPath });
  const daemon = await sandbox.start();
  t.match(
    daemon.log.find(({ msg }) => msg === 'listening'),
    { addresses: [`127.0.0.1:${sandbox.port}`, `unix:${socketPath}`] },
  );
  t.equal(statSync(socketPath).mode & 0o777, 0o660, 'for its owner and group');
  for (const client of [byPort, bySocket]) t.equal((await ask(client)).status, 200);
  const document = join(sandbox.dir, 'a.pdf');
  writeFileSync(document, await makePdf('a'));
  const { status, stderr } = await sandbox.pdfseal(
    ['submit', document, '--url', 'http://localhost', '--unix-socket', socketPath, '--visibility', 'private'],
    { env: { PDFSEAL_API_KEY: apiKey } },
  );
  t.equal(status, 0, stderr);

  await daemon.kill();
  t.ok(existsSync(socketPath), 'a killed daemon leaves its socket');
  const second = await sandbox.start();
  t.equal((await ask(bySocket)).status, 200, 'and the next one replaces it');
  t.equal(await second.stop(), 0);
  t.notOk(existsSync(socketPath));

  edit(sandbox, 'listen = ["127.0.0.1:', 'clear_text_beyond_loopback = true\nlisten = ["0.0.0.0:');
  edit(sandbox, '[http]', `[http]\npublic_url = "${sandbox.url}"`);
  const open = await sandbox.start();
  t.ok(
    open.log.some(
      ({ msg, address }) => /travel in clear text/.test(String(msg)) && address === `0.0.0.0:${sandbox.port}`,
    ),
  );
});

t.test(
  'an inherited Unix socket never speaks TLS, and an inherited network socket always needs it',
  async (t) => {
    const { sandbox, apiKey } = await openHouse(t);
    const dir = mkdtempSync(join(tmpdir(), 'pdfseal-'));
    t.teardown(() => rmSync(dir, { recursive: true, force: true }));
    const socketPath = join(dir, 'inherited.sock');
    const unix = new ServiceManager(sandbox, { watchdogMs: 60_000, at: socketPath, by: WITHOUT_NETWORK });
    t.teardown(() => unix.close());
    const pid = await unix.start();
    await until('it is ready', () => unix.heard.some((said) => said.startsWith('READY=1')));
    t.equal((await ask(new ApiClient(new URL('http://localhost'), apiKey, { socketPath }))).status, 200);
    process.kill(pid, 'SIGTERM');
    t.strictSame(await unix.ended(1), [0]);
    unix.close();
    rmSync(join(sandbox.dir, 'notify'));

    edit(sandbox, /\[http\.tls\]\n.*\n.*\n/, '');
    const network = new ServiceManager(sandbox, { watchdogMs: 60_000, at: '0.0.0.0' });
    t.teardown(() => network.close());
    await network.start();
    t.strictSame(await network.ended(1), [1], 'what systemd listens on is looked at too');
  },
);

t.test('an address that others could eavesdrop on is refused without TLS', async (t) => {
  const sandbox = await openSandbox({ code: 'dist' });
  t.teardown(() => sandbox.close());
  const before = read(sandbox.configFile);
  const refused = async (http: string, expected: RegExp) => {
    writeFileSync(sandbox.configFile, before.replace(/listen = ".*"/, http));
    const { status, stderr } = await sandbox.pdfseald();
    t.equal(status, 1);
    t.match(stderr, expected, http);
  };
  await refused(
    'listen = "0.0.0.0:0"\npublic_url = "http://a"',
    /http\.listen: found "0\.0\.0\.0:0"; expected an address of this machine alone/,
  );
  await refused('listen = ["127.0.0.1:0", "[::]:0"]', /http\.listen: found "\[::\]:0"/);
  await refused('listen = "unix:a.sock"', /http\.public_url: missing; expected the URL clients use/);
});
