/** Client certificates, over real TLS: who they stand for, and who must not get in with them. */
import { createPrivateKey, sign, X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import {
  appendFileSync,
  chmodSync,
  copyFileSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { Agent, type RequestOptions, request } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect, type TLSSocket } from 'node:tls';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { bitString, parseDer, sequence } from '../../src/asn1/der.ts';
import { encodePem } from '../../src/asn1/pem.ts';
import { sha256Of } from '../../src/asn1/x509Names.ts';
import { presentCertificates } from '../../src/health/sections/certificatesSection.ts';
import { requireKey } from '../../src/http/authentication.ts';
import { callerOf, type RequestContext } from '../../src/http/requestContext.ts';
import { listen } from '../../src/http/server.ts';
import { hashApiKey, hashCertificateName } from '../../src/job/apikey.ts';
import { parseAuditRecord } from '../../src/manifest/auditRecord.ts';
import { TlsCertificates, type TlsFiles } from '../../src/web/tls.ts';
import { putCredentials } from '../store/samples.ts';
import { ENVIRONMENT, openTestApp, pdfOf, type TestApp } from '../support/app.ts';
import {
  type ClientSubject,
  issueCertificate,
  issueClient,
  type KeyPair,
  makeAuthority,
  openssl,
  revoke,
} from '../support/certificates.ts';
import { until } from '../support/until.ts';

interface LogLine {
  event?: string;
  msg: string;
  reason?: string;
  [field: string]: unknown;
}

interface Secured {
  dir: string;
  authority: KeyPair;
  tls: TlsCertificates;
  /** What the certificates have logged. */
  log: LogLine[];
  files: TlsFiles;
}

interface House extends Secured {
  app: TestApp;
  port: number;
  /** How far the date that the server believes is ahead. */
  clock: { aheadMs: number };
  /** A client certificate of the house's authority. */
  client(name: string, subject?: ClientSubject): KeyPair;
  /** Lets a certificate with this name stand for the client. */
  map(certificateName: string, clientId: string): Promise<void>;
}

function presentTls({ tls }: Secured) {
  return presentCertificates({ certificatesDir: '', keys: [], remotes: {} }, [tls], Date.now());
}

type SecuredOptions = Partial<TlsFiles> & { below?: string };

/** The files of a server, and no server. */
function secure(t: Test, { below, ...options }: SecuredOptions = {}): Secured {
  const dir = mkdtempSync(join(tmpdir(), 'pdfseal-certificates-'));
  t.teardown(() => rmSync(dir, { recursive: true, force: true }));
  const root = below === undefined ? undefined : makeAuthority(dir, below);
  const authority = makeAuthority(dir, 'clients', root);
  const server = issueCertificate(dir, 'server', makeAuthority(dir, 'servers'));
  const crl = join(dir, 'clients.crl');
  revoke(dir, crl, authority, []);
  if (root !== undefined) {
    appendFileSync(authority.certificateFile, readFileSync(root.certificateFile));
    const own = join(dir, 'root.crl');
    revoke(dir, own, root, []);
    appendFileSync(crl, readFileSync(own));
  }
  const files = {
    ...server,
    clientCaFile: authority.certificateFile,
    clientCrlFile: crl,
    clientCertificateRequired: false,
    ...options,
  };
  const log: LogLine[] = [];
  const logger = pino({}, { write: (line: string) => void log.push(JSON.parse(line)) });
  const tls = new TlsCertificates('http.tls', files, logger, 50);
  t.teardown(() => tls.close());
  return { dir, authority, tls, log, files };
}

async function openHouse(t: Test, options: SecuredOptions = {}): Promise<House> {
  const made = secure(t, options);
  const { dir, authority, tls } = made;
  const clock = { aheadMs: 0 };
  const view = {
    peerOf: (socket: Parameters<typeof tls.peerOf>[0]) => tls.peerOf(socket, Date.now() + clock.aheadMs),
  };
  const app = await openTestApp(t, { app: { tls: view } });
  // Beside the server of the test app, which has no TLS.
  const secured = await listen(app.app, {
    listen: [{ host: '127.0.0.1', port: 0 }],
    tls,
    clearTextBeyondLoopback: false,
    headerTimeoutMs: 60_000,
    silenceMsMax: 60_000,
    logger: pino({ level: 'silent' }),
  });
  t.teardown(() => secured.drain(0));
  return {
    ...made,
    app,
    port: secured.port,
    clock,
    client: (name, subject) => issueClient(dir, name, authority, subject),
    map: async (certificateName, clientId) =>
      putCredentials(app.store, [
        {
          keyHash: hashCertificateName(certificateName),
          id: `key_${clientId}`,
          clientId,
          organization: 'acme',
          scopes: ['jobs:create', 'jobs:read', 'webhooks:manage'],
          createdAt: Date.now(),
          since: app.store.serviceTime.now(),
          certificateName,
        },
      ]),
  };
}

interface Answer {
  status: number;
  headers: IncomingMessage['headers'];
  code?: string;
  message: string;
  text: string;
}

const secretsOf = (pair?: KeyPair) =>
  pair === undefined
    ? {}
    : { cert: readFileSync(pair.certificateFile, 'utf8'), key: readFileSync(pair.keyFile, 'utf8') };

/** Asks for the list of jobs, on a connection of its own unless there is an agent. */
async function ask(
  port: number,
  pair?: KeyPair,
  { headers = {}, ...options }: RequestOptions = {},
): Promise<Answer> {
  const sent = request({
    host: '127.0.0.1',
    port,
    path: '/v1/jobs?limit=1',
    rejectUnauthorized: false,
    agent: false,
    headers,
    ...secretsOf(pair),
    ...options,
  });
  sent.end();
  const [answer] = (await once(sent, 'response')) as [IncomingMessage];
  const text = Buffer.concat(await answer.toArray()).toString();
  const { error } = JSON.parse(text) as { error?: { code: string; message: string } };
  return {
    status: answer.statusCode ?? 0,
    headers: answer.headers,
    text,
    message: error?.message ?? '',
    ...(error && { code: error.code }),
  };
}

/** For tests that name their clients as no other does, and leave its files as they are. */
const shared = await openHouse(t);

const bearer = (apiKey: string) => ({ headers: { Authorization: `Bearer ${apiKey}` } });

t.test('a certificate authenticates a client as its key does', async (t) => {
  const house = await openHouse(t);
  const pair = house.client('invoices', { subject: '/O=Acme/CN=invoices' });
  t.match(await ask(house.port, pair), {
    status: 401,
    code: 'authentication_required',
    message: /stands for no client here. Its names are: "CN=invoices,O=Acme"/,
  });
  await house.map('CN=invoices,O=Acme', 'acme-web');
  const { id } = (await house.app.client.seal(pdfOf('a'), { visibility: 'private' })).json<{ id: string }>();
  const own = await ask(house.port, pair);
  t.equal(own.status, 200);
  t.match(own.text, id, 'it is the same client as its keys');
  t.match(await ask(house.port), { status: 401, code: 'authentication_required' }, 'without a certificate');
  t.equal((await ask(house.port, undefined, bearer(await house.app.issue()))).status, 200, 'a key as before');

  const other = await house.app.issue({ clientId: 'other', organization: 'beta' });
  t.notMatch((await ask(house.port, pair, bearer(other))).text, id, 'a key counts before the certificate');
  t.equal((await ask(house.port, pair, bearer(`${other}x`))).status, 401, 'and a wrong key is wrong');

  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  t.teardown(() => agent.destroy());
  t.equal((await ask(house.port, pair, { agent })).status, 200);
  const credential = await house.app.store.credentials.get(hashCertificateName('CN=invoices,O=Acme'));
  if (!credential) throw new Error('no credential');
  await putCredentials(house.app.store, [{ ...credential, revokedAt: Date.now() }]);
  t.equal(
    (await ask(house.port, pair, { agent })).status,
    401,
    'revoked: at once, on an open connection too',
  );
  await house.map('DNS:invoices', 'other');
  const both = house.client('both', {
    subject: '/O=Acme/CN=invoices',
    extensions: 'subjectAltName=DNS:invoices',
  });
  t.match(
    await ask(house.port, both),
    { status: 401, message: /stands for no client/ },
    'it does not become another',
  );
});

t.test('the audit trail and the request log name the certificate that was used', async (t) => {
  const house = await openHouse(t);
  const { app, port } = house;
  await house.map('CN=invoices', 'acme-web');
  const pair = house.client('invoices');
  const sha256 = sha256Of(new X509Certificate(readFileSync(pair.certificateFile)));
  const own = app.client.as(await app.issue({ scopes: ['webhooks:manage'] }));
  const earlier = await app.store.trail.newest();
  const { id } = (
    await own.request('POST', '/v1/webhook-endpoints', {
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ url: 'https://hooks.example.com' }),
    })
  ).json<{ id: string }>();
  t.equal(
    (await ask(port, pair, { method: 'POST', path: `/v1/webhook-endpoints/${id}/disable` })).status,
    200,
  );
  const records = (await app.store.trail.entries(earlier, 10)).map(({ text }) => parseAuditRecord(text));
  t.match(records, [
    { act: 'webhook.add', actor: { via: 'api', client: 'acme-web' } },
    { act: 'webhook.disable', actor: { key: 'key_acme-web', certificate_sha256: sha256 } },
  ]);
  t.notOk(records[0]?.actor.certificate_sha256, 'a key was sent');
  const lines = app.log().filter(({ key_id }) => key_id !== undefined);
  t.strictSame(
    lines.map(({ certificate_sha256 }) => certificate_sha256),
    [undefined, sha256],
  );
});

t.test('a request ends as the client as which it began', async (t) => {
  await shared.map('DNS:begun', 'other');
  const certificate = { names: ['CN=begun', 'DNS:begun'], sha256: '' };
  const pass = requireKey({
    store: shared.app.store,
    environment: ENVIRONMENT,
    organizations: () => ({}),
    clock: Date.now,
    peerOf: () => ({ isRequired: false, certificate }),
  });
  const ctx = { req: { headers: {}, socket: {} }, state: {}, set: () => {} } as unknown as RequestContext;
  await pass(ctx, async () => {
    t.equal(callerOf(ctx).viewer.clientId, 'other');
    await callerOf(ctx).confirm();
    await shared.map('CN=begun', 'acme-web');
    await t.rejects(callerOf(ctx).confirm(), { code: 'authentication_required', message: /has changed/ });
  });
});

t.test('a certificate is matched by its alternative names, exactly', async (t) => {
  await shared.map('URI:spiffe://acme/invoices', 'uri');
  await shared.map('DNS:invoices.acme.example', 'dns');
  const pairs: [string, string, number][] = [
    ['uri', 'subjectAltName=URI:spiffe://acme/invoices', 200],
    ['dns', 'subjectAltName=DNS:invoices.acme.example', 200],
    ['case', 'subjectAltName=DNS:Invoices.acme.example', 401],
    ['below', 'subjectAltName=DNS:x.invoices.acme.example', 401],
    ['wild', 'subjectAltName=DNS:*.acme.example', 401],
    ['mail', 'subjectAltName=email:invoices@acme.example', 401],
    ['forged', 'subjectAltName=@n\n[n]\nURI.1=http://a/\\, URI:spiffe://acme/invoices\\, DNS:b', 401],
    ['dirname', 'subjectAltName=dirName:d\n[d]\nCN=a\\, DNS:invoices.acme.example\\, b', 401],
  ];
  for (const [name, extensions, status] of pairs)
    t.equal((await ask(shared.port, shared.client(name, { extensions }))).status, status, name);
});

/** Puts a NUL in the place of the question mark of a subject, and has the certificate signed again. */
function withOtherName(pair: KeyPair, authority: KeyPair): KeyPair {
  const { raw } = new X509Certificate(readFileSync(pair.certificateFile));
  const [tbs, algorithm] = parseDer(raw).elements ?? [];
  if (tbs === undefined || algorithm === undefined) throw new Error('no certificate');
  const changed = Buffer.from(tbs.der);
  changed[changed.indexOf('invoices?x') + 'invoices'.length] = 0;
  const signature = sign('sha256', changed, createPrivateKey(readFileSync(authority.keyFile)));
  writeFileSync(
    pair.certificateFile,
    encodePem('CERTIFICATE', sequence(changed, algorithm.der, bitString(signature))),
  );
  return pair;
}

t.test('a subject that only looks alike does not match', async (t) => {
  await shared.map('CN=invoices,O=Acme', 'acme-web');
  const alike = [
    '/O=Acme/CN=Invoices',
    '/O=Acme/CN=invoices ',
    '/O=Acme/CN= invoices',
    '/O=Acme /CN=invoices',
    '/CN=invoices/O=Acme',
    '/O=Acme/CN=invoices/CN=invoices',
    '/O=Acme/CN=other/CN=invoices',
    '/C=DE/O=Acme/CN=invoices',
    '/CN=invoices',
    '/CN=invoices,O=Acme',
    '/O=Acme/CN=invoices\\,O=Acme',
    '/O=Acme\nCN=invoices/CN=x',
    '/O=Acme/CN=invoices\u200b',
    '/O=Acme/CN=invo\u0131ces',
    '/O=Acme/OU=CN=invoices',
    '/O=Acme+CN=invoices',
  ];
  for (const [n, subject] of alike.entries()) {
    const answer = await ask(shared.port, shared.client(`alike-${n}`, { subject }));
    t.match(answer, { status: 401, message: /stands for no client/ }, JSON.stringify(subject));
  }
  const cut = withOtherName(shared.client('cut', { subject: '/O=Acme/CN=invoices?x' }), shared.authority);
  t.match(
    await ask(shared.port, cut),
    { status: 401, message: /CN=invoices\\+00x,O=Acme/ },
    'a NUL ends no name',
  );
  for (const mask of ['utf8only', 'default'] as const) {
    const pair = shared.client(`type-${mask}`, { subject: '/O=Acme/CN=invoices', mask });
    t.equal(
      (await ask(shared.port, pair)).status,
      200,
      `the same characters in another string type: ${mask}`,
    );
  }
});

t.test('a subject is matched as openssl writes it', async (t) => {
  for (const [n, options] of ['RFC2253', 'RFC2253,-esc_msb', 'RFC2253,utf8,-esc_msb'].entries()) {
    const pair = shared.client(`written-${n}`, { subject: `/O=Größe, ${n}/CN=a+UID=b+OU=ü` });
    const shown = ['-noout', '-subject', '-nameopt', options];
    const { output } = openssl('x509', '-in', pair.certificateFile, ...shown);
    t.match(await ask(shared.port, pair), { status: 401, message: /stands for no client/ });
    await shared.map(output.trim().replace('subject=', ''), 'acme-web');
    t.equal((await ask(shared.port, pair)).status, 200, output);
  }
  await shared.map('CN=a+OU=ü+UID=b,O=Größe\\, 4', 'acme-web');
  const other = shared.client('written-4', { subject: '/O=Größe, 4/CN=a+UID=c+OU=ü' });
  t.equal((await ask(shared.port, other)).status, 401, 'another value');
});

t.test('a certificate that is not accepted counts as absent', async (t) => {
  await shared.map('CN=accepted', 'acme-web');
  const stranger = makeAuthority(shared.dir, 'strangers');
  const foreign = issueClient(shared.dir, 'foreign', stranger, { subject: '/CN=accepted' });
  t.match(await ask(shared.port, foreign), {
    status: 401,
    message: /client certificate is not accepted/,
    headers: { connection: 'close' },
  });
  t.equal((await ask(shared.port, foreign, bearer(await shared.app.issue()))).status, 200, 'a key goes on');
  const server = issueClient(shared.dir, 'server-only', shared.authority, { subject: '/CN=accepted' });
  t.equal((await ask(shared.port, server)).status, 200);
  const own = makeAuthority(shared.dir, 'self');
  t.equal((await ask(shared.port, own)).status, 401, 'signed by itself');

  const pem = readFileSync(server.certificateFile, 'utf8');
  const claims: Record<string, string> = {
    'X-Client-Cert': encodeURIComponent(pem),
    'X-SSL-Client-Cert': encodeURIComponent(pem),
    'X-SSL-Client-S-DN': 'CN=accepted',
    'X-Forwarded-Client-Cert': `Hash=${sha256Of(new X509Certificate(pem))};Subject="CN=accepted"`,
    'Client-Cert': `:${new X509Certificate(pem).raw.toString('base64')}:`,
  };
  for (const [name, value] of Object.entries(claims)) {
    const answer = await ask(shared.port, undefined, { headers: { [name]: value } });
    t.equal(answer.status, 401, `${name} is never believed`);
  }
});

t.test('revoked and expired certificates are refused, also on open connections', async (t) => {
  const house = await openHouse(t);
  await house.map('CN=invoices', 'acme-web');
  await house.map('CN=other', 'other');
  const pair = house.client('invoices');
  const other = house.client('other');
  const [agent, agentOfOther] = [pair, other].map(() => new Agent({ keepAlive: true, maxSockets: 1 }));
  t.teardown(() => [agent, agentOfOther].map((one) => one?.destroy()));
  t.equal((await ask(house.port, pair, { agent })).status, 200);
  t.equal((await ask(house.port, other, { agent: agentOfOther })).status, 200);

  revoke(house.dir, house.files.clientCrlFile ?? '', house.authority, [pair]);
  let refused: Answer | undefined;
  await until('the revocation counts', async () => {
    refused = await ask(house.port, pair, { agent });
    return refused.status === 401;
  });
  t.match(refused, { message: /was revoked by its authority/, headers: { connection: 'close' } });
  t.match(await ask(house.port, pair), { status: 401, message: /CERT_REVOKED/ }, 'on a new connection');
  t.equal((await ask(house.port, other, { agent: agentOfOther })).status, 200, 'not that of others');
  t.equal((await ask(house.port, other)).status, 200);

  house.clock.aheadMs = 31 * 86_400_000;
  t.match(await ask(house.port, other, { agent: agentOfOther }), {
    status: 401,
    message: /has expired/,
  });
  house.clock.aheadMs = 0;
  t.equal((await ask(house.port, other, { agent: agentOfOther })).status, 200);

  const next = makeAuthority(house.dir, 'next');
  copyFileSync(next.certificateFile, house.files.clientCaFile ?? '');
  house.tls.reload();
  t.match(
    await ask(house.port, other, { agent: agentOfOther }),
    { status: 401, message: /no longer trusts/ },
    'an authority that is gone',
  );
});

t.test('a revocation list that is too old refuses certificates', async (t) => {
  await shared.map('CN=aged', 'acme-web');
  const pair = shared.client('aged', { days: 90 });
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  t.teardown(() => agent.destroy());
  t.equal((await ask(shared.port, pair, { agent })).status, 200);
  shared.clock.aheadMs = 40 * 86_400_000;
  t.match(await ask(shared.port, pair, { agent }), { status: 401, message: /expired/ });
  shared.clock.aheadMs = 0;
});

t.test('an intermediate authority needs a revocation list of its own', async (t) => {
  const house = await openHouse(t, { below: 'root' });
  await house.map('CN=invoices', 'acme-web');
  const pair = house.client('invoices');
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  t.teardown(() => agent.destroy());
  t.equal((await ask(house.port, pair)).status, 200);
  t.equal((await ask(house.port, pair, { agent })).status, 200);
  t.match(
    house.log.find(({ msg }) => msg.startsWith('client authorities')),
    { authorities: ['CN=clients', 'CN=root'], lists: [{ issuer: 'CN=clients' }, { issuer: 'CN=root' }] },
  );
  const crl = house.files.clientCrlFile ?? '';
  copyFileSync(join(house.dir, 'root.crl'), crl);
  house.tls.reload();
  const lacksList = { status: 401, message: /no revocation list of its issuer/ };
  t.match(await ask(house.port, pair, { agent }), lacksList, 'on an open connection as on a new one');
  t.match(await ask(house.port, pair), { status: 401, message: /UNABLE_TO_GET_CRL/ });
});

t.test(
  'a certificate of an intermediate authority that only the client knows is refused with that reason',
  async (t) => {
    const house = await openHouse(t, { below: 'root' });
    await house.map('CN=invoices', 'acme-web');
    const pair = house.client('invoices');
    const [intermediate = '', root = ''] = readFileSync(house.authority.certificateFile, 'utf8').split(
      /(?<=END CERTIFICATE-----\n)/,
    );
    writeFileSync(house.files.clientCaFile ?? '', root);
    house.tls.reload();
    t.match(await ask(house.port, pair), { status: 401, message: /UNABLE_TO_VERIFY_LEAF_SIGNATURE/ });
    appendFileSync(pair.certificateFile, intermediate);
    t.match(await ask(house.port, pair), {
      status: 401,
      message: /was issued by CN=clients.*client_ca_file must have intermediate authorities too/,
    });
    writeFileSync(house.files.clientCaFile ?? '', intermediate + root);
    house.tls.reload();
    t.equal((await ask(house.port, pair)).status, 200, 'the remedy helps');
  },
);

t.test('a fault in one of the TLS files does not block changes to the others', async (t) => {
  const house = await openHouse(t);
  await house.map('CN=invoices', 'acme-web');
  const pair = house.client('invoices');
  const crl = house.files.clientCrlFile ?? '';
  chmodSync(house.files.keyFile, 0o604);
  revoke(house.dir, crl, house.authority, [pair]);
  house.tls.reload();
  t.match(await ask(house.port, pair), { status: 401, message: /CERT_REVOKED/ });
  const refused = () => house.log.filter(({ event }) => event === 'tls_certificate_refused').at(-1);
  t.match(refused(), { msg: /new TLS certificate cannot be used/, reason: /others than owner/ });

  writeFileSync(crl, 'no list');
  const renewed = issueCertificate(house.dir, 'renewed', house.authority);
  copyFileSync(renewed.certificateFile, house.files.certificateFile);
  copyFileSync(renewed.keyFile, house.files.keyFile);
  chmodSync(house.files.keyFile, 0o600);
  house.tls.reload();
  t.match(refused(), { msg: /client authorities or lists cannot be used/, reason: /no revocation list/ });
  t.equal(house.tls.certificates[0]?.subject, 'CN=renewed');
  t.equal((await ask(house.port, pair)).status, 401, 'revoked as before');
});

t.test('with a revocation list that begins tomorrow, no certificate is accepted', async (t) => {
  const house = await openHouse(t);
  await house.map('CN=invoices', 'acme-web');
  const pair = house.client('invoices');
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  t.teardown(() => agent.destroy());
  const crl = house.files.clientCrlFile ?? '';
  revoke(house.dir, crl, house.authority, []);
  house.tls.reload();
  t.equal((await ask(house.port, pair, { agent })).status, 200);
  revoke(house.dir, crl, house.authority, [], { issuedDaysAgo: -1 });
  house.tls.reload();
  t.match(house.log.at(-1), { level: 50, event: 'tls_certificate_ends', msg: /not valid yet/ });
  t.match(presentTls(house).at(-1), { role: 'client-crl', state: 'not_yet_valid', urgency: 'urgent' });
  const early = { status: 401, message: /list of this server is not valid yet/ };
  t.match(await ask(house.port, pair, { agent }), early, 'on an open connection as on a new one');
  t.match(await ask(house.port, pair), { status: 401, message: /CRL_NOT_YET_VALID/ });
});

t.test('a revocation list that ends before it begins is refused', async (t) => {
  const house = secure(t);
  revoke(house.dir, house.files.clientCrlFile ?? '', house.authority, [], { validDays: -1 });
  house.tls.reload();
  t.match(house.log.at(-1), { event: 'tls_certificate_refused', reason: /ends before it begins/ });
});

t.test('a revocation list that ends soon is reported when it is loaded', async (t) => {
  const house = secure(t);
  const ends = () => house.log.filter(({ event }) => event === 'tls_certificate_ends');
  const told = (issuedDaysAgo: number) => {
    const before = ends().length;
    revoke(house.dir, house.files.clientCrlFile ?? '', house.authority, [], { issuedDaysAgo });
    house.tls.reload();
    return ends().slice(before);
  };
  t.strictSame(told(19), []);
  t.match(told(21), [{ role: 'client-crl', subject: 'CN=clients', level: 40, urgency: 'soon' }]);
  t.match(told(28), [{ role: 'client-crl', subject: 'CN=clients', level: 50, urgency: 'urgent' }]);
  t.match(presentTls(house), [
    { role: 'server' },
    { role: 'client-ca' },
    { role: 'client-crl', subject: 'CN=clients', state: 'valid', days_left: 1, urgency: 'urgent' },
  ]);
});

t.test('no session is resumed, and no connection changes its certificate', async (t) => {
  const pair = shared.client('invoices');
  for (const maxVersion of ['TLSv1.2', 'TLSv1.3'] as const) {
    const open = async (session?: Buffer): Promise<TLSSocket> => {
      const socket = connect({
        port: shared.port,
        host: '127.0.0.1',
        rejectUnauthorized: false,
        maxVersion,
        ...secretsOf(pair),
        ...(session && { session }),
      });
      await once(socket, 'secureConnect');
      return socket;
    };
    const first = await open();
    let session = first.getSession();
    first.on('session', (fresh) => {
      session = fresh;
    });
    first.write('GET /v1/jobs HTTP/1.1\r\nHost: a\r\n\r\n');
    await once(first, 'data');
    if (maxVersion === 'TLSv1.2') {
      const renegotiated = await new Promise<Error | null>((resolve) => {
        first.once('error', resolve);
        first.renegotiate({}, resolve);
      });
      t.ok(renegotiated, 'renegotiation is refused');
    }
    first.destroy();
    const second = await open(session);
    t.equal(second.isSessionReused(), false, maxVersion);
    second.destroy();
  }
});

t.test('a key that is bound to a certificate works only with that certificate', async (t) => {
  const house = await openHouse(t);
  const pair = house.client('invoices');
  const renewed = house.client('renewed', { subject: '/CN=invoices' });
  await house.map('CN=invoices', 'acme-web');
  const boundTo = sha256Of(new X509Certificate(readFileSync(pair.certificateFile)));
  const key = await house.app.issue({ boundTo });
  t.equal((await ask(house.port, pair, bearer(key))).status, 200);
  const refusals: [string, KeyPair | undefined, RegExp][] = [
    ['without a certificate', undefined, /bound to a client certificate, and the connection presents none/],
    ['with another of the same subject', renewed, /presents another .*--bind-certificate/],
  ];
  for (const [what, other, message] of refusals)
    t.match(
      await ask(house.port, other, bearer(key)),
      { status: 401, code: 'invalid_api_key', message },
      what,
    );
  const clear = await house.app.client.as(key).get('/v1/jobs');
  t.equal(clear.status, 401, 'without TLS there is no certificate');
  revoke(house.dir, house.files.clientCrlFile ?? '', house.authority, [pair]);
  house.tls.reload();
  t.match(await ask(house.port, pair, bearer(key)), {
    status: 401,
    message: /presents one that is not accepted/,
  });
  t.ok(await house.app.store.credentials.get(hashApiKey(key)));
});

t.test('a certificate is required unless the site says otherwise', async (t) => {
  const house = await openHouse(t, { clientCertificateRequired: true });
  const pair = house.client('invoices');
  const key = await house.app.issue();
  await t.rejects(ask(house.port, undefined, bearer(key)));
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  t.teardown(() => agent.destroy());
  t.equal((await ask(house.port, pair, { agent, ...bearer(key) })).status, 200);
  revoke(house.dir, house.files.clientCrlFile ?? '', house.authority, [pair]);
  house.tls.reload();
  t.match(
    await ask(house.port, pair, { agent, ...bearer(key) }),
    { status: 401, message: /was revoked/ },
    'a revoked one ends the connection, whatever key is sent on it',
  );
  t.equal((await house.app.client.as(key).get('/v1/jobs')).status, 200, 'what is not TLS asks for none');
});
