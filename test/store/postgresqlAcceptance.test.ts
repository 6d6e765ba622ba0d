/** What the owner of the database writes, and the daemon that seals with the acceptance key refuses. */
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { newJobId } from '../../src/job/id.ts';
import type { Job, ReceivedJob } from '../../src/job/job.ts';
import { takeOverOnce } from '../../src/main/takeOver.ts';
import { epochObject } from '../../src/manifest/sealedForm.ts';
import { EpochSeal } from '../../src/prove/epochs/epochSeal.ts';
import { openSealer } from '../../src/seal/openSealer.ts';
import { RefusedJobs } from '../../src/seal/refusedJobs.ts';
import type { Sealer } from '../../src/seal/sealer.ts';
import { actOfProcess } from '../../src/store/acts.ts';
import { encodeContent, encodeJob } from '../../src/store/jobCodec.ts';
import { createInPostgresql, openInPostgresql } from '../../src/store/postgresql/postgresqlOpen.ts';
import { encodeRecord } from '../../src/store/records.ts';
import type { Store } from '../../src/store/store.ts';
import { makeSite, NEVER } from '../support/partitions.ts';
import { startPostgres } from '../support/postgres.ts';
import { firstEpoch, makeJob } from '../support/sealing.ts';
import { randomBytes } from '../support/seed.ts';
import { sampleContent } from './samples.ts';

const postgres = await startPostgres(t);
const [KEY, OTHER] = [randomBytes(32), randomBytes(32)];
const LOGGER = pino({ level: 'silent' });
const URL = 'https://example.com/a.pdf';

const newJob = (fields: Partial<Job> = {}) =>
  makeJob(newJobId(), { acceptedAt: Date.now(), since: 1, ...fields }) as ReceivedJob;
const newUrlJob = (): Job => {
  const { content, ...job } = newJob({ source: 'url' });
  return { ...job, checksumSha256: content.document.sha256 };
};
const hex = (bytes: Uint8Array) => `'\\x${Buffer.from(bytes).toString('hex')}'`;
const uuid = ({ id }: Job) => `'${id.slice(4)}'`;

/** The database of a log, and daemons that open it one after the other. */
async function makeLog(t: Test) {
  const site = await makeSite(t, 'ed25519');
  const database = await postgres.createDatabase();
  const location = { urls: [postgres.url(database)] };
  const identity = { environment: 'test', logOrigin: 'seal.example.com/test/2026', createdAt: Date.now() };
  const epoch = firstEpoch(site.keys);
  const act = actOfProcess('command', 'log.create', epochObject(identity.logOrigin, epoch));
  await createInPostgresql({ location, identity, epoch, act });
  const open = async (...acceptanceKeys: Uint8Array[]): Promise<Store> => {
    const store = await openInPostgresql({
      location,
      sequencing: { onWait: t.fail, onLost: t.fail },
      ...(acceptanceKeys.length > 0 && { acceptanceKeys }),
    });
    t.teardown(() => store.close());
    return store;
  };
  const sql = (text: string) => postgres.query(`SET search_path = pdfseal; ${text}`, database);
  /** As a start does it. */
  const seal = async (store: Store): Promise<{ sealer: Sealer; refused: RefusedJobs }> => {
    const refused = new RefusedJobs(LOGGER);
    const sealer = await openSealer(
      {
        store,
        signing: await site.openSigning(store),
        requireRecord: async () => undefined,
        queueJobsMax: 1000,
        batchJobsMax: 100,
        giveUpAfterMs: 3_600_000,
        clock: Date.now,
        logger: LOGGER,
        onFatal: (error) => t.fail(String(error)),
      },
      refused,
    );
    t.teardown(() => sealer.close());
    return { sealer, refused };
  };
  const takeOver = (store: Store, isTakenOver = false) => takeOverOnce(store, isTakenOver, LOGGER);
  return { location, open, sql, seal, takeOver };
}

/** A job as the owner of the database writes it. */
const forge = (job: Job, mac = 'NULL') =>
  `INSERT INTO jobs (id, client_id, organization, visibility, document_sha256, record)
     VALUES (${uuid(job)}, '${job.clientId}', '${job.organization}', 'private', '', ${hex(encodeJob(job))});
   INSERT INTO waiting VALUES (${uuid(job)}, ${mac})`;

const macOf = (job: Job, table = 'waiting') => `(SELECT mac FROM ${table} WHERE job_id = ${uuid(job)})`;

t.test('what the owner of the database writes fails, and what nodes accepted is sealed', async (t) => {
  const { location, open, sql, seal, takeOver } = await makeLog(t);
  const first = await open(KEY);
  await takeOver(first);
  const honest = newJob();
  const fetched = newUrlJob();
  const ended = newJob();
  const victim = newJob();
  const redirected = newUrlJob();
  const invented = newUrlJob();
  for (const job of [honest, ended, victim]) await first.jobs.accept(job);
  for (const job of [fetched, redirected, invented]) await first.jobs.accept(job, { sourceUrl: URL });
  await first.jobs.receive(fetched.id, sampleContent());
  const [{ mac } = {}] = await sql(`SELECT mac FROM waiting WHERE job_id = ${uuid(ended)}`);
  const [{ mac: ofHonest } = {}] = await sql(`SELECT mac FROM waiting WHERE job_id = ${uuid(honest)}`);
  await first.jobs.fail(ended.id, { code: 'internal_error', message: 'no', failedAt: 1 });
  await first.close();

  const dated = newJob({ acceptedAt: Date.UTC(2001, 0) });
  const scanned = newJob();
  scanned.content.scan = { verdict: 'clean', engine: 'ClamAV 1.4.1' };
  const canary = newJob({ source: 'canary' });
  await sql(
    [
      forge(dated),
      forge(scanned, macOf(honest)),
      forge(canary, hex(randomBytes(40))),
      // A record that was accepted, with another client in it.
      `UPDATE jobs SET record = ${hex(encodeJob({ ...victim, clientId: 'other' }))} WHERE id = ${uuid(victim)}`,
      `UPDATE sources SET record = ${hex(encodeRecord('https://example.com/b.pdf'))} WHERE job_id = ${uuid(redirected)}`,
      // A document that was never fetched.
      `DELETE FROM sources WHERE job_id = ${uuid(invented)}`,
      `INSERT INTO contents VALUES (${uuid(invented)}, ${hex(encodeContent(sampleContent()))})`,
      // A job that has its outcome already.
      `INSERT INTO waiting VALUES (${uuid(ended)}, ${hex(mac as Buffer)})`,
    ].join(';'),
  );

  const second = await open(KEY);
  const { sealer, refused } = await seal(second);
  const forged = [dated, scanned, canary, victim, redirected, invented];
  t.equal(refused.count, forged.length);
  for (const { id } of forged)
    t.match(await second.jobs.get(id), { outcome: { kind: 'failed', failure: { code: 'internal_error' } } });
  t.notOk(sealer.knows(ended.id), 'a job is sealed or fails once');
  for (const { id } of [honest, fetched]) t.match(await sealer.settled(id, NEVER), { kind: 'sealed' });
  await sql(`INSERT INTO waiting VALUES (${uuid(honest)}, ${hex(ofHonest as Buffer)})`);
  t.strictSame(
    (await second.jobs.waiting(100)).filter(({ source }) => source !== 'audit'),
    [],
    'nor is a sealed job sealed again, with the MAC that it had',
  );

  const { arrivals } = second;
  const front = await openInPostgresql({ location, front: true, acceptanceKeys: [KEY] });
  t.teardown(() => front.close());
  const arrived = newJob();
  const altered = newUrlJob();
  await front.jobs.accept(arrived);
  await front.jobs.accept(altered, { sourceUrl: URL });
  const keyless = await openInPostgresql({ location, front: true });
  t.teardown(() => keyless.close());
  const unmarked = newJob();
  await keyless.jobs.accept(unmarked);
  await sql(
    `INSERT INTO arrivals (job_id, mac) VALUES (${uuid(honest)}, ${macOf(arrived, 'arrivals')});
     UPDATE sources SET record = ${hex(encodeRecord(`${URL}?`))} WHERE job_id = ${uuid(altered)}`,
  );
  const found = (await arrivals?.look(() => false, 100)) ?? [];
  t.strictSame(
    found.map(({ jobId, fault }) => [jobId, fault?.slice(0, 17)]).toSorted(),
    [
      [arrived.id, undefined],
      [altered.id, 'its MAC is of ano'],
      [unmarked.id, 'it has no MAC: no'],
    ].toSorted(),
    'what was sealed is not taken again',
  );
});

t.test('what is altered while it waits for its document is not fetched, nor received', async (t) => {
  const { open, sql, takeOver } = await makeLog(t);
  const store = await open(KEY);
  await takeOver(store);
  const job = newUrlJob();
  await store.jobs.accept(job, { sourceUrl: URL });
  t.equal(await store.jobs.sourceUrl(job.id), URL);
  await sql(`UPDATE sources SET record = ${hex(encodeRecord('https://example.com/b.pdf'))}`);
  await t.rejects(store.jobs.sourceUrl(job.id), { name: 'AlteredJob', message: /MAC is of another job/ });
  await t.rejects(store.jobs.receive(job.id, sampleContent()), { name: 'BrokenInvariant' });
  await sql(`UPDATE sources SET record = ${hex(encodeRecord(URL))}`);
  await store.jobs.receive(job.id, sampleContent());
  t.match(await store.acceptances?.faults(await store.jobs.waiting(10)), new Map());
  t.equal((await store.jobs.waiting(10)).filter(({ source }) => source === 'url').length, 1);
});

t.test('an announced batch with a job that no node accepted stops the start', async (t) => {
  const { open, sql, seal, takeOver } = await makeLog(t);
  const first = await open(KEY);
  await takeOver(first);
  await first.close();
  const forged = newJob();
  const batch = { firstLeaf: 0, treeSize: 1, checkpoint: 'no', epochsRevision: 0, jobIds: [forged.id] };
  await sql(`${forge(forged)}; INSERT INTO notes VALUES ('announced', ${hex(encodeRecord(batch))})`);
  await t.rejects(seal(await open(KEY)), {
    name: 'OperatorError',
    message: new RegExp(`has the job ${forged.id}, which no node accepted: it has no MAC`),
  });
});

t.test('what waited before the first key is taken over once, on record', async (t) => {
  const { location, open, sql, seal, takeOver } = await makeLog(t);
  const before = await open();
  const [own, ofFront] = [newJob(), newJob()];
  const url = newUrlJob();
  await before.jobs.accept(own);
  await before.jobs.accept(url, { sourceUrl: URL });
  const front = await openInPostgresql({ location, front: true });
  t.teardown(() => front.close());
  await front.jobs.accept(ofFront);
  t.equal(before.acceptances, undefined);
  await before.arrivals?.tell({ scans: false });
  t.match(await front.sealing?.node(), { lacksAcceptanceKey: false });
  t.notOk((await new EpochSeal(before).read()).isTakenOver);
  await takeOver(before);
  await t.rejects(
    takeOver(before, true),
    { name: 'OperatorError', remedy: /acceptance_key_credential/ },
    'a daemon without a key does not start where others have one',
  );
  await before.close();

  const store = await open(KEY);
  await takeOver(store);
  const [entry] = (await store.trail.entries(1, 10)).map(({ text }) => JSON.parse(text));
  t.match(entry, { act: 'jobs.take_over', actor: { via: 'daemon' }, object: { jobs: 3 }, outcome: 'done' });
  t.strictSame(entry.object.keys, store.acceptances?.names);
  t.ok((await new EpochSeal(store).read()).isTakenOver);
  t.match(await front.sealing?.node(), { lacksAcceptanceKey: true }, 'a front without the key is told');
  t.equal((await store.arrivals?.look(() => false, 10))?.[0]?.fault, undefined);
  const forged = newJob();
  await sql(forge(forged));
  await takeOver(store, true);
  t.equal((await store.trail.entries(1, 10)).length, 1, 'not again');
  const { sealer, refused } = await seal(store);
  t.equal(refused.count, 1);
  t.ok(sealer.knows(own.id) || (await store.jobs.get(own.id))?.outcome?.kind === 'sealed');
  t.strictSame(
    sealer.unreceived.map(({ id }) => id),
    [url.id],
  );
});

t.test('while the key is changed, jobs by the old one are sealed, and later they fail', async (t) => {
  const { location, open, seal, takeOver } = await makeLog(t);
  const first = await open(OTHER);
  await takeOver(first);
  const jobs = [newJob(), newJob()];
  for (const job of jobs) await first.jobs.accept(job);
  await first.close();
  const both = await open(KEY, OTHER);
  t.equal((await both.acceptances?.faults(jobs))?.size, 0);
  await both.arrivals?.tell({ scans: false });
  for (const [keys, lacks] of [
    [[KEY], false],
    [[OTHER], false],
    [[randomBytes(32), KEY], true],
  ] as const) {
    const front = await openInPostgresql({ location, front: true, acceptanceKeys: keys });
    t.match(await front.sealing?.node(), { lacksAcceptanceKey: lacks });
    await front.close();
  }
  await both.close();
  const { refused } = await seal(await open(KEY));
  t.equal(refused.count, 2);
});
