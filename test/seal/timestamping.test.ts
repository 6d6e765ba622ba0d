import { mkdirSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { encodePem } from '../../src/asn1/pem.ts';
import { newJobId } from '../../src/job/id.ts';
import { initKey, useKey } from '../../src/kms/keyOperations.ts';
import { readReceipt } from '../../src/prove/trail/receipts.ts';
import { verifyReceipt } from '../../src/prove/verify/verify.ts';
import { openSealer } from '../../src/seal/openSealer.ts';
import { openTimestamping, type TimestampingOptions } from '../../src/seal/timestamping.ts';
import { createStore, openStore } from '../../src/store/lmdb/open.ts';
import { openAuthority } from '../../src/tsa/builtInAuthority.ts';
import { certificateFile } from '../../src/tsa/installed.ts';
import { issueRoot, issueTimestampingCertificate } from '../../src/tsa/pki.ts';
import { openTrustedClock } from '../../src/tsa/trustedClock.ts';
import { HttpClient } from '../../src/web/httpClient.ts';
import { DAY_MS, HeldClock, makePki, makeToken as makeTimestamp, POLICY } from '../support/authority.ts';
import { hostilityOf, openHostile } from '../support/hostile.ts';
import { makeSite, makeToken, NEVER } from '../support/partitions.ts';
import { firstEpoch, makeJob, oneEpoch } from '../support/sealing.ts';
import { takeToken } from '../support/tamper.ts';
import { until } from '../support/until.ts';

const ORIGIN = 'seal.example.com/test/2026';
/** One without an end. */
const TERM = { epoch: firstEpoch([]), end: Infinity, revision: 0 };
const LOGGER = pino({ level: 'silent' });

/** A log partition, and a time-stamping key with its certificates on another token. */
async function makeHouse(t: Test) {
  const site = await makeSite(t, 'ed25519');
  const dir = t.testdirName;
  const token = makeToken(dir, { label: 'time', region: 'eu', keyLabel: 'timestamp' });
  const key = await initKey(token, 'ecdsa-p256');
  const rootToken = { ...token, keyLabel: 'root' };
  await initKey(rootToken, 'ecdsa-p256');
  const validity = { notBefore: Date.now() - DAY_MS, notAfter: Date.now() + DAY_MS };
  const chain = await useKey(rootToken, async ({ spki }, sign) => {
    const rootKey = { key: { algorithm: 'ecdsa-p256', spki }, sign } as const;
    const root = await issueRoot({ subject: { commonName: 'Root' }, ...validity }, rootKey);
    const options = { subject: { commonName: 'Unit' }, key, issuer: root, ...validity };
    return [await issueTimestampingCertificate(options, rootKey), root] as const;
  });
  const certificatesDir = join(dir, 'certificates');
  mkdirSync(certificatesDir);
  const pem = chain.map(({ der }) => encodePem('CERTIFICATE', der)).join('');
  writeFileSync(certificateFile(certificatesDir, token), pem);

  const clock = await openTrustedClock({
    source: { trust: 'system' },
    accuracyMs: 1000,
    newest: 0,
    logger: LOGGER,
  });
  t.teardown(() => clock.close());
  const open = async (
    options: Partial<TimestampingOptions> = {},
    adopt: Parameters<typeof openTimestamping>[1] = (close) => t.teardown(close),
  ) =>
    openTimestamping(
      {
        authorities: ['built-in'],
        remotes: {},
        clientOf: () => new HttpClient({ idleConnectionsMax: 1 }),
        keys: [token],
        certificatesDir,
        policy: POLICY,
        clock,
        sessions: 2,
        signTimeoutMs: 60_000,
        logger: LOGGER,
        ...options,
      },
      adopt,
    );
  const path = join(dir, 'store');
  const identity = { environment: 'test', logOrigin: ORIGIN, createdAt: Date.now() };
  await createStore({ path, identity, epoch: firstEpoch(site.keys, { timestamps: 'required' }) });
  const store = await openStore({ path });
  const seal = async (options: Partial<TimestampingOptions> = {}) => {
    const sealer = await openSealer({
      store,
      signing: await site.openSigning(store),
      timestamping: await open(options),
      requireRecord: async () => undefined,
      queueJobsMax: 100,
      batchJobsMax: 100,
      giveUpAfterMs: 3_600_000,
      clock: Date.now,
      logger: LOGGER,
      onFatal: (error) => t.fail(String(error)),
    });
    t.teardown(() => sealer.close());
    return sealer;
  };
  const trust = {
    timestampAuthorities: [{ name: 'built-in', root: chain[1] }],
    logs: [oneEpoch({ origin: ORIGIN, environment: 'env_test', timestamps: 'required', keys: site.keys })],
  };
  return { dir, token, chain, clock, open, seal, store, trust };
}

t.test('a sealed job carries a time-stamp that verifies', async (t) => {
  const { seal, store, trust } = await makeHouse(t);
  const sealer = await seal();
  const job = makeJob(newJobId(), { acceptedAt: Date.now() });
  await sealer.accept(job);
  t.match(await sealer.settled(job.id, NEVER), { kind: 'sealed' });
  const receipt = await readReceipt(store, job, 0);
  t.equal(receipt.evidence.timestamps.length, 1);
  t.match(verifyReceipt({ document: job.content.document, receipt, trust }), { outcome: 'good' });
  const stranger = { ...trust, timestampAuthorities: [] };
  t.not(verifyReceipt({ document: job.content.document, receipt, trust: stranger }).outcome, 'good');
});

t.test('without a token no job is completed, and sealing resumes with the authority', async (t) => {
  const { seal, store, token, trust } = await makeHouse(t);
  const sealer = await seal();
  const giveBack = takeToken(token);
  const [dropped, waiting] = [
    makeJob(newJobId()),
    makeJob(newJobId(), { mode: 'async', acceptedAt: Date.now() }),
  ];
  await sealer.accept(waiting);
  sealer.submit(dropped);
  await t.rejects(sealer.settled(dropped.id, NEVER), { code: 'timestamp_unavailable' });
  t.equal(sealer.phase({ job: waiting }), 'sealing');
  t.equal(await store.log.head(), undefined, 'a signature without a stamp is not committed');
  giveBack();
  t.match(await sealer.settled(waiting.id, NEVER), { kind: 'sealed', leafIndex: 0 });
  const receipt = await readReceipt(store, waiting, 0);
  t.match(verifyReceipt({ document: waiting.content.document, receipt, trust }), { outcome: 'good' });
});

t.test('a token that is more than a minute older than its batch is not taken', async (t) => {
  const { open } = await makeHouse(t);
  const timestamping = await open();
  const stamp = (aheadMs: number) => timestamping.stamp('a note', Date.now() + aheadMs, TERM);
  t.ok(await stamp(30_000));
  const refusal = await stamp(300_000).catch((error: unknown) => error);
  t.match(refusal, { trouble: 'token_invalid' });
});

t.test('with a clock behind the log, nothing is stamped', async (t) => {
  const { seal, clock } = await makeHouse(t);
  clock.raiseFloor(Date.now() + DAY_MS);
  const sealer = await seal();
  t.throws(() => sealer.admit('blocking'), { code: 'timestamp_unavailable', retryAfterSeconds: Number });
  t.doesNotThrow(() => sealer.admit('async'));
});

t.test('with a clock behind the newest token of the log, nothing is stamped either', async (t) => {
  const { open } = await makeHouse(t);
  const timestamp = await (await open()).stamp('a note', Date.now(), TERM);
  const clock = await openTrustedClock({
    ...{ source: { trust: 'system' }, accuracyMs: 1000, newest: 0, logger: LOGGER },
    clock: () => Date.now() - DAY_MS,
  });
  t.teardown(() => clock.close());
  const timestamping = await open({ clock });
  timestamping.sealed({ sealedAt: Date.now() - DAY_MS });
  t.ok(timestamping.canStamp());
  timestamping.sealed({ sealedAt: Date.now() - DAY_MS, ...(timestamp && { timestamp }) });
  t.match(timestamping.status(), { clock: { trouble: 'clock_backwards', detail: /newest time in the log/ } });
});

t.test(
  'a clock behind that of another authority is trusted within that clock’s possible error',
  async (t) => {
    const { open } = await makeHouse(t);
    const clock = await openTrustedClock({
      source: { trust: 'system' },
      accuracyMs: 100,
      newest: 0,
      logger: LOGGER,
    });
    t.teardown(() => clock.close());
    const timestamping = await open({ clock });
    const { unit } = await makePki();
    const seal = async (aheadMs: number, accuracyMs: number, policy = '1.3.6.1.4.1.32473.1') => {
      const ahead = new HeldClock(Date.now() + aheadMs, accuracyMs);
      const token = await makeTimestamp(
        openAuthority({ units: [unit], policy, clock: ahead, logger: LOGGER }),
      );
      timestamping.sealed({
        sealedAt: Date.now(),
        timestamp: { token: token.toString('base64'), certificates: [] },
      });
    };
    await seal(60_000, 60_000);
    t.ok(timestamping.canStamp(), 'both clocks are right');
    await seal(60_000, 60_000, POLICY);
    t.notOk(timestamping.canStamp(), 'nothing is dated before a token of the built-in authority');
  },
);

t.test('the next authority stamps if the first cannot, and no others are asked', async (t) => {
  const { open, dir, chain } = await makeHouse(t);
  let asked = 0;
  const server = createServer((_req, res) => {
    asked++;
    res.writeHead(503).end();
  }).listen(0, '127.0.0.1');
  await until('it listens', () => server.listening);
  t.teardown(() => server.close());
  const rootsFile = join(dir, 'roots.pem');
  writeFileSync(rootsFile, encodePem('CERTIFICATE', chain[1].der));
  const { port } = server.address() as AddressInfo;
  const remotes = { acme: { url: `http://127.0.0.1:${port}/`, timeoutMs: 1000, rootsFile } };
  const both = await open({ authorities: ['acme', 'built-in'], remotes });
  t.match(await both.stamp('a note', Date.now(), TERM), { token: String });
  t.equal(asked, 1);
  const over = { ...TERM, end: Date.now() };
  t.equal(await both.stamp('a note', Date.now(), over), undefined, 'a token of after the epoch');
  const coming = { ...TERM, epoch: firstEpoch([], { from: Date.now() + DAY_MS }) };
  t.equal(await both.stamp('a note', Date.now(), coming), undefined, 'or of before it');
  const long = Date.now() - DAY_MS;
  await t.rejects(
    both.stamp('a note', long, TERM),
    { name: 'TimestampUnavailable' },
    'a token that proves another time',
  );
  const imprint = { algorithm: 'sha384', digest: Buffer.alloc(48, 7) } as const;
  const signal = AbortSignal.timeout(60_000);
  t.match(await both.renew(imprint, 'built-in', signal), { authority: 'built-in', notAfter: Number });
  await t.rejects(both.renew(imprint, 'acme', signal), { message: /status 503/ }, 'and no other');
  t.equal(both.canStamp(), true, 'one authority says nothing of the others');
  const alone = await open({ authorities: ['acme'], remotes });
  t.equal(alone.authority, undefined);
  await t.rejects(alone.stamp('a note', Date.now(), TERM), { name: 'TimestampUnavailable' });
  t.equal(alone.canStamp(), false, 'and it is left in peace for a moment');
});

t.test('a stop does not wait for an authority, and leaves no connection to one', async (t) => {
  const { seal, store, dir, chain } = await makeHouse(t);
  const silent = await openHostile(t, hostilityOf('says nothing'));
  const rootsFile = join(dir, 'roots.pem');
  writeFileSync(rootsFile, encodePem('CERTIFICATE', chain[1].der));
  const remotes = { acme: { url: `http://${silent.host}/`, timeoutMs: 60_000, rootsFile } };
  const sealer = await seal({ authorities: ['acme'], remotes });
  const job = makeJob(newJobId(), { acceptedAt: Date.now() });
  await sealer.accept(job);
  await until('it is asked', () => silent.connections() === 1);
  await sealer.close();
  await silent.left();
  t.equal(await store.jobs.waitingCount(), 1, 'the job waits for the next start');
  t.equal((await store.jobs.get(job.id))?.outcome, undefined);
});

t.test('after closing, no connection to an authority is kept', async (t) => {
  const { open, dir, chain } = await makeHouse(t);
  const closers: (() => void | Promise<void>)[] = [];
  const server = createServer((_req, res) => res.writeHead(503).end()).listen(0, '127.0.0.1');
  await until('it listens', () => server.listening);
  t.teardown(() => server.close());
  const rootsFile = join(dir, 'roots.pem');
  writeFileSync(rootsFile, encodePem('CERTIFICATE', chain[1].der));
  const { port } = server.address() as AddressInfo;
  const remotes = { acme: { url: `http://127.0.0.1:${port}/`, timeoutMs: 60_000, rootsFile } };
  const connections = () => promisify(server.getConnections.bind(server))();
  const timestamping = await open({ authorities: ['acme'], remotes }, (close) => void closers.push(close));
  await t.rejects(timestamping.stamp('a note', Date.now(), TERM), { message: /status 503/ });
  t.equal(await connections(), 1, 'it is kept for the next token');
  for (const close of closers.toReversed()) await close();
  await until('it is closed', async () => (await connections()) === 0);
});

t.test('a key without a certificate is refused with the remedy', async (t) => {
  const { open, dir } = await makeHouse(t);
  await t.rejects(open({ certificatesDir: dir }), {
    name: 'OperatorError',
    message: /eu\/timestamp has no certificate.*`pdfseal hsm install-certificate`/,
  });
});
