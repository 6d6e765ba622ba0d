import type { Test } from 'tap';
import { BrokenInvariant } from '../../src/base/assert.ts';
import type { Clock } from '../../src/base/clock.ts';
import {
  documentSha256,
  type Job,
  type JobRecord,
  type ReceivedJob,
  VISIBILITIES,
} from '../../src/job/job.ts';
import type { Act } from '../../src/manifest/auditRecord.ts';
import {
  type JobQuery,
  maySee,
  type NewJob,
  type SealedBatch,
  type SealedLeaf,
  type Store,
  type Viewer,
} from '../../src/store/store.ts';
import { fc, tries } from '../support/seed.ts';
import { quotas } from './quotaContract.ts';
import { renewals } from './renewalContract.ts';
import {
  billing,
  collected,
  epoch,
  identity,
  leafData,
  putCredentials,
  START_MS,
  sampleBatch,
  sampleContent,
  sampleCredential,
  sampleEndpoint,
  sampleEntry,
  sampleJob,
  sampleJobs,
  sampleUrlJob,
} from './samples.ts';
import { serviceTime } from './serviceTime.ts';
import { trail } from './trailContract.ts';
import { webhooks } from './webhooks.ts';
import { witnessing } from './witnessContract.ts';

const HOUR_MS = 3_600_000;
/** The refusal of a job whose idempotency key another job has. */
const KEY_TAKEN = { name: 'StoreError', code: 'key_taken' };

/** A fresh, empty store that keeps the given clock's time, and a way to close it, do something else and open what is on disk. */
export type MakeStore = (
  t: Test,
  clock?: Clock,
  options?: { backlogMax?: number },
) => Promise<{ store: Store; reopen: (meanwhile?: () => void) => Promise<Store> }>;

/** What every implementation of {@link Store} must pass. */
export function storeContract(t: Test, makeStore: MakeStore): void {
  for (const suite of [
    jobs,
    receiving,
    copies,
    listing,
    idempotency,
    references,
    mending,
    sealing,
    failing,
    quotas,
    epochs,
    credentials,
    trail,
    webhooks,
    serviceTime,
    witnessing,
    renewals,
  ]) {
    t.test(suite.name, async (t) => suite(t, makeStore));
  }
}

/** The store as it is, then as it is on disk. */
async function* thenReopened(store: Store, reopen: () => Promise<Store>): AsyncIterable<Store> {
  yield store;
  yield await reopen();
}

async function jobs(t: Test, makeStore: MakeStore): Promise<void> {
  t.test('an accepted job waits, and is still there after reopening', async (t) => {
    const { store, reopen } = await makeStore(t);
    const job = sampleJob({ purpose: 'invoice', customerReference: 'R-1', visibility: 'partner' });
    await store.jobs.accept(job);
    for await (const opened of thenReopened(store, reopen)) {
      t.same(await opened.jobs.get(job.id), { job });
      t.same(await opened.jobs.waiting(10), [job]);
      t.equal(await opened.jobs.waitingCount(), 1);
      t.match(opened.identity, identity);
    }
  });

  t.test('an id that was never issued is unknown', async (t) => {
    const { store } = await makeStore(t);
    const { id } = sampleJob();
    await store.jobs.accept(sampleJob());
    for (const unknown of [id, 'job_1', 'job_', '', 'job___proto__', `${id}0`, id.toUpperCase(), 'job_\0']) {
      t.equal(await store.jobs.get(unknown), undefined, JSON.stringify(unknown));
    }
  });

  t.test('a job is accepted once', async (t) => {
    const { store } = await makeStore(t);
    const job = sampleJob();
    const twice = await Promise.allSettled([
      store.jobs.accept(job),
      store.jobs.accept({ ...job, clientId: 'other' }),
    ]);
    t.same(
      twice.map(({ status }) => status),
      ['fulfilled', 'rejected'],
    );
    await t.rejects(store.jobs.accept(job), BrokenInvariant);
    t.same(await store.jobs.get(job.id), { job });
    t.same((await store.jobs.list({ viewer: { ...billing, clientId: 'other' }, limit: 10 })).records, []);
  });

  t.test('strings are returned code unit by code unit', async (t) => {
    const { store } = await makeStore(t);
    const anyString = fc
      .array(fc.integer({ min: 0, max: 0xffff }), { minLength: 1, maxLength: 40 })
      .map((units) => String.fromCharCode(...units));
    const strange = fc.oneof(
      anyString,
      fc.constantFrom('\0', '__proto__', 'é', 'e\u0301', '😀', '\ud83d', ' x '),
    );
    await fc.assert(
      fc.asyncProperty(strange, strange, async (customerReference, purpose) => {
        const job = sampleJob({ customerReference, purpose });
        await store.jobs.accept(job);
        t.same(await store.jobs.get(job.id), { job });
        const { records } = await store.jobs.list({ viewer: billing, limit: 100, customerReference });
        t.ok(records.every((record) => record.job.customerReference === customerReference));
        t.ok(records.some((record) => record.job.id === job.id));
      }),
      { numRuns: tries(100) },
    );
  });

  t.test('waiting jobs are listed by id, page by page', async (t) => {
    const { store } = await makeStore(t);
    const accepted = sampleJobs(25);
    await Promise.all(accepted.toReversed().map((job) => store.jobs.accept(job)));
    t.same(await store.jobs.waiting(10), accepted.slice(0, 10));
    t.same(await store.jobs.waiting(100, accepted[9]?.id), accepted.slice(10));
    t.same(await store.jobs.waiting(100, accepted[24]?.id), []);
  });

  t.test('jobs() returns every job once, by id', async (t) => {
    const { store } = await makeStore(t);
    const accepted = sampleJobs(1203);
    await Promise.all(accepted.toReversed().map((job) => store.jobs.accept(job)));
    await store.log.commit(sampleBatch(0, accepted.slice(0, 1)));
    const found: JobRecord[] = [];
    for await (const record of store.jobs.all()) found.push(record);
    t.same(
      found,
      accepted.map((job, n) => (n === 0 ? { job, outcome: { kind: 'sealed', leafIndex: 0 } } : { job })),
    );
  });
}

async function receiving(t: Test, makeStore: MakeStore): Promise<void> {
  const sourceUrl = 'https://files.example.com/a.pdf?signature=\u00e9';
  const failure = { code: 'internal_error', message: 'x', failedAt: START_MS } as const;

  t.test('the content of a job from a URL is added later, and its URL removed', async (t) => {
    const { store, reopen } = await makeStore(t);
    const job = sampleUrlJob({ customerReference: 'R-1' });
    const document = { ...sampleContent().document, sha256: job.checksumSha256 ?? '' };
    const content = { document, scan: { verdict: 'clean', engine: 'e' }, sealedDocument: document } as const;
    await store.jobs.accept(job, { sourceUrl });
    t.same(await store.jobs.get(job.id), { job });
    t.same(await store.jobs.waiting(10), [job]);
    t.equal(await store.jobs.sourceUrl(job.id), sourceUrl);
    await store.jobs.receive(job.id, content, { file: 'a-file', key: 'a2V5' });
    const received = { ...job, content };
    for await (const opened of thenReopened(store, reopen)) {
      t.same(await opened.jobs.get(job.id), { job: received });
      t.same(await opened.jobs.waiting(10), [received]);
      t.equal(await opened.jobs.sourceUrl(job.id), undefined);
      const query = { viewer: billing, limit: 10, documentSha256: document.sha256 };
      t.same((await opened.jobs.list(query)).records, [{ job: received }]);
    }
  });

  t.test('a job from a URL is found by its checksum before it is fetched', async (t) => {
    const { store, reopen } = await makeStore(t);
    const job = sampleUrlJob();
    await store.jobs.accept(job, { sourceUrl });
    for await (const opened of thenReopened(store, reopen)) {
      const query = { viewer: billing, limit: 10, documentSha256: job.checksumSha256 ?? '' };
      t.same((await opened.jobs.list(query)).records, [{ job }]);
      t.same((await opened.jobs.list({ ...query, documentSha256: 'aa'.repeat(32) })).records, []);
      t.equal(await opened.jobs.sourceUrl(job.id), sourceUrl);
    }
  });

  t.test('a job has either content or a source URL', async (t) => {
    const { store } = await makeStore(t);
    await t.rejects(store.jobs.accept(sampleJob(), { sourceUrl }), BrokenInvariant);
    await t.rejects(store.jobs.accept(sampleUrlJob()), BrokenInvariant);
    t.equal(await store.jobs.waitingCount(), 0);
  });

  t.test('content is received once, and only by a job that waits for it', async (t) => {
    const { store, reopen } = await makeStore(t);
    const [fetched, failed, upload] = [sampleUrlJob(), sampleUrlJob(), sampleJob()];
    await Promise.all([fetched, failed].map((job) => store.jobs.accept(job, { sourceUrl })));
    await store.jobs.accept(upload);
    const [content, other] = [sampleContent(), sampleContent()];
    const race = [
      store.jobs.receive(fetched.id, content),
      store.jobs.receive(fetched.id, other),
      store.jobs.fail(failed.id, failure),
      store.jobs.receive(failed.id, other),
      store.jobs.receive(upload.id, other),
      store.jobs.receive(sampleJob().id, other),
    ];
    const fates = (await Promise.allSettled(race)).map(({ status }) => status);
    t.same(fates, ['fulfilled', 'rejected', 'fulfilled', 'rejected', 'rejected', 'rejected']);
    for await (const opened of thenReopened(store, reopen)) {
      t.same(await opened.jobs.get(fetched.id), { job: { ...fetched, content } });
      t.same(await opened.jobs.get(failed.id), { job: failed, outcome: { kind: 'failed', failure } });
      t.same(await opened.jobs.get(upload.id), { job: upload });
      t.equal(await opened.jobs.sourceUrl(failed.id), undefined, 'a failed job needs its URL no more');
    }
  });

  t.test('a job is not sealed before its content is there', async (t) => {
    const { store } = await makeStore(t);
    const [job, upload] = [sampleUrlJob(), sampleJob()];
    await store.jobs.accept(job, { sourceUrl });
    await store.jobs.accept(upload);
    await t.rejects(store.log.commit(sampleBatch(0, [upload, job])), BrokenInvariant);
    t.equal(await store.log.head(), undefined);
    await store.jobs.receive(job.id, sampleContent());
    await store.log.commit(sampleBatch(0, [upload, job]));
    t.equal(await store.jobs.waitingCount(), 0);
  });
}

async function copies(t: Test, makeStore: MakeStore): Promise<void> {
  const digests = sampleContent().document;
  const copied = (fields: Partial<ReceivedJob> = {}) =>
    sampleJob({ content: { ...sampleContent(), sealedDocument: digests }, ...fields });
  const copy = { file: 'a-file', key: 'a2V5' };

  t.test('a copy is stored with its job, and stays until it is forgotten', async (t) => {
    const { store, reopen } = await makeStore(t);
    const [job, bare] = [copied(), sampleJob()];
    await store.jobs.accept(job, { copy });
    await store.jobs.accept(bare);
    for await (const opened of thenReopened(store, reopen)) {
      t.same(await opened.jobs.get(job.id), { job });
      t.same(await opened.copies.get(job.id), copy);
      t.equal(await opened.copies.get(bare.id), undefined);
      t.equal(await opened.copies.get('job_1'), undefined);
      t.same(await collected(opened.copies.all()), [{ jobId: job.id, copy }]);
      t.match(await collected(opened.jobs.references()), [{ kind: 'copy', jobId: job.id }]);
    }
  });

  t.test('a copy can be stored with the content of a job from a URL', async (t) => {
    const { store } = await makeStore(t);
    const job = sampleUrlJob();
    await store.jobs.accept(job, { sourceUrl: 'https://example.com/a.pdf' });
    const content = { ...sampleContent(), sealedDocument: digests };
    await t.rejects(store.jobs.receive(job.id, content), BrokenInvariant, 'not without it');
    await store.jobs.receive(job.id, content, copy);
    t.same(await store.copies.get(job.id), copy);
  });

  t.test('a copy is refused without its digests, as are digests without the copy', async (t) => {
    const { store } = await makeStore(t);
    await t.rejects(store.jobs.accept(copied()), BrokenInvariant);
    await t.rejects(store.jobs.accept(sampleJob(), { copy }), BrokenInvariant);
    t.equal(await store.jobs.waitingCount(), 0);
  });

  t.test('copies are listed in the order of ids until they are forgotten', async (t) => {
    const { store, reopen } = await makeStore(t);
    const jobs = [0, 1, 2, 3].map((n) => copied({ acceptedAt: START_MS + n }));
    for (const job of jobs.toReversed()) await store.jobs.accept(job, { copy });
    const kept = async (store: Store) => (await collected(store.copies.all())).map(({ jobId }) => jobId);
    const ids = jobs.map(({ id }) => id);
    t.same(await kept(store), ids);
    await store.copies.forget([...ids.slice(0, 2), sampleJob().id]);
    for await (const opened of thenReopened(store, reopen)) {
      t.same(await kept(opened), ids.slice(2));
      t.equal(await opened.copies.get(ids[0] ?? ''), undefined);
    }
  });
}

async function listing(t: Test, makeStore: MakeStore): Promise<void> {
  const digests = ['aa', 'bb'].map((byte) => byte.repeat(32));
  const anyJob = fc.record({
    clientId: fc.constantFrom('billing', 'claims', 'zeta'),
    visibility: fc.constantFrom(...VISIBILITIES),
    sha256: fc.constantFrom(...digests),
    customerReference: fc.option(fc.constantFrom('R', 'S'), { nil: undefined }),
    purpose: fc.option(fc.constantFrom('p', 'q"'), { nil: undefined }),
    outcome: fc.constantFrom('waiting', 'sealed', 'failed'),
    minute: fc.integer({ min: 0, max: 300 }),
  });
  const anyQuery = fc.record(
    {
      documentSha256: fc.constantFrom(...digests),
      customerReference: fc.constantFrom('R', 'S', 'T'),
      purpose: fc.constantFrom('p', 'q"', 'R'),
      visibility: fc.constantFrom(...VISIBILITIES),
      outcome: fc.constantFrom('waiting', 'sealed', 'failed'),
      createdFrom: fc.integer({ min: 0, max: 300 }).map((minute) => START_MS + minute * 60_000),
      createdTo: fc.integer({ min: 0, max: 300 }).map((minute) => START_MS + minute * 60_000),
    },
    { requiredKeys: [] },
  );
  const anyViewer = fc.constantFrom<Viewer>(
    billing,
    { clientId: 'claims', organization: 'acme', partnerOf: ['zeta'] },
    { clientId: 'zeta', organization: 'zeta', partnerOf: ['acme', 'acme'] },
    { clientId: 'stranger', organization: 'nowhere', partnerOf: [] },
  );

  t.test(
    'a listing equals a filter over all jobs, newest first, for any number of jobs in a page',
    async (t) => {
      const queries = fc.array(
        fc.record({ viewer: anyViewer, filter: anyQuery, limit: fc.integer({ min: 1, max: 9 }) }),
      );
      await fc.assert(
        fc.asyncProperty(fc.array(anyJob, { maxLength: 30 }), queries, async (drawn, queries) => {
          const { store } = await makeStore(t);
          const records = await populate(store, drawn);
          for (const { viewer, filter, limit } of queries) {
            const query = { viewer, limit, ...filter };
            t.same(
              await allPages(store, query),
              records.filter((record) => isWanted(query, record)),
            );
          }
        }),
        { numRuns: tries(25) },
      );
    },
  );

  t.test('one call is bounded, and returns where to continue', async (t) => {
    const { store } = await makeStore(t);
    const accepted = sampleJobs(2500);
    await Promise.all(accepted.map((job) => store.jobs.accept(job)));
    const [oldest] = accepted;
    await store.jobs.fail(oldest?.id ?? '', { code: 'internal_error', message: 'x', failedAt: START_MS });
    const query: JobQuery = { viewer: billing, limit: 10, outcome: 'failed' };
    const first = await store.jobs.list(query);
    t.same(first.records, []);
    t.type(first.next, 'string');
    t.equal((await allPages(store, query))[0]?.job.id, oldest?.id);
  });

  t.test('a listing before a malformed id is empty', async (t) => {
    const { store } = await makeStore(t);
    await store.jobs.accept(sampleJob());
    t.same(await store.jobs.list({ viewer: billing, limit: 10, before: 'job_zzz' }), { records: [] });
  });
}

type DrawnJob = Pick<Job, 'clientId' | 'visibility'> & {
  sha256: string;
  customerReference: string | undefined;
  purpose: string | undefined;
  outcome: string;
  minute: number;
};

/** Accepts and settles the jobs; their records, newest first. */
async function populate(store: Store, drawn: DrawnJob[]): Promise<JobRecord[]> {
  const jobs = drawn.map(({ clientId, visibility, sha256, customerReference, purpose, minute }) =>
    sampleJob({
      clientId,
      organization: clientId === 'zeta' ? 'zeta' : 'acme',
      visibility,
      content: {
        document: { sha256, sha512: sha256.repeat(2), bytes: 10 },
        scan: { verdict: 'not_configured' },
      },
      acceptedAt: START_MS + minute * 60_000,
      ...(customerReference !== undefined && { customerReference }),
      ...(purpose !== undefined && { purpose }),
    }),
  );
  await Promise.all(jobs.map((job) => store.jobs.accept(job)));
  const ending = (kind: string) => jobs.filter((_, n) => drawn[n]?.outcome === kind);
  if (ending('sealed').length > 0) await store.log.commit(sampleBatch(0, ending('sealed')));
  for (const { id } of ending('failed')) {
    await store.jobs.fail(id, { code: 'internal_error', message: 'x', failedAt: START_MS });
  }
  const records = await Promise.all(jobs.map(async ({ id }) => store.jobs.get(id)));
  return records.filter((record) => record !== undefined).sort((a, b) => (a.job.id < b.job.id ? 1 : -1));
}

async function allPages(store: Store, query: JobQuery): Promise<JobRecord[]> {
  const found: JobRecord[] = [];
  for (let before: string | undefined; ; ) {
    const { records, next } = await store.jobs.list({ ...query, ...(before && { before }) });
    found.push(...records);
    if (next === undefined) return found;
    before = next;
  }
}

function isWanted(query: JobQuery, { job, outcome }: JobRecord): boolean {
  const wants: [unknown, unknown][] = [
    [query.documentSha256, documentSha256(job)],
    [query.customerReference, job.customerReference],
    [query.purpose, job.purpose],
    [query.visibility, job.visibility],
    [query.outcome, outcome?.kind ?? 'waiting'],
  ];
  return (
    maySee(query.viewer, job) &&
    wants.every(([wanted, actual]) => wanted === undefined || wanted === actual) &&
    job.acceptedAt >= (query.createdFrom ?? 0) &&
    job.acceptedAt < (query.createdTo ?? Number.POSITIVE_INFINITY)
  );
}

async function idempotency(t: Test, makeStore: MakeStore): Promise<void> {
  t.test('an idempotency entry is found only by client, operation and key together', async (t) => {
    const { store, reopen } = await makeStore(t, () => START_MS);
    const job = sampleJob();
    const entry = sampleEntry(job, { key: 'abcdefgh', answer: '{"id":"\ud800\0 é"}' });
    await store.jobs.accept(job, { idempotency: entry });
    const { clientId, operation } = entry;
    for await (const opened of thenReopened(store, reopen)) {
      t.same(await opened.jobs.idempotency({ clientId, operation, key: 'abcdefgh' }), entry);
      t.equal(await opened.jobs.idempotency({ clientId: 'claims', operation, key: 'abcdefgh' }), undefined);
      t.equal(await opened.jobs.idempotency({ clientId, operation, key: 'abcdefgH' }), undefined);
    }
  });

  t.test('a key that is in use accepts no second job, even at the same moment', async (t) => {
    const { store } = await makeStore(t, () => START_MS);
    const [first, second, third] = [sampleJob(), sampleJob(), sampleJob()];
    const key = 'the-same-key';
    const both = await Promise.allSettled(
      [first, second].map((job) => store.jobs.accept(job, { idempotency: sampleEntry(job, { key }) })),
    );
    t.same(
      both.map(({ status }) => status),
      ['fulfilled', 'rejected'],
    );
    await t.rejects(store.jobs.accept(third, { idempotency: sampleEntry(third, { key }) }), KEY_TAKEN);
    t.equal(await store.jobs.get(second.id), undefined);
    t.equal(await store.jobs.get(third.id), undefined);
    t.equal(await store.jobs.waitingCount(), 1);
  });

  t.test(
    'an entry lives 48 hours; then its key is free, and sweeping leaves the new owner alone',
    async (t) => {
      let now = START_MS;
      const { store } = await makeStore(t, () => now);
      const old = sampleJob();
      const entry = sampleEntry(old, { key: 'the-same-key' });
      await store.jobs.accept(old, { idempotency: entry });
      now = START_MS + 48 * HOUR_MS - 1;
      t.same(await store.jobs.idempotency(entry), entry);
      now = START_MS + 48 * HOUR_MS;
      t.equal(await store.jobs.idempotency(entry), undefined);
      const young = sampleJob({ acceptedAt: now });
      const newEntry = sampleEntry(young, { key: 'the-same-key' });
      const [, swept] = await Promise.all([
        store.jobs.accept(young, { idempotency: newEntry }),
        store.jobs.sweepIdempotency(now, 10),
      ]);
      t.ok(swept <= 1, 'it was there, or was replaced');
      t.same(await store.jobs.idempotency(entry), newEntry);
      t.equal(await store.jobs.sweepIdempotency(now, 10), 0);
      t.ok(await store.jobs.get(old.id), 'the job outlives its key');
    },
  );

  t.test('sweeping removes the oldest entries first, a bounded number at a time', async (t) => {
    const { store } = await makeStore(t, () => START_MS + 10);
    const accepted = sampleJobs(10);
    const entries = accepted.map((job) => sampleEntry(job));
    await Promise.all(accepted.map((job) => store.jobs.accept(job, { idempotency: sampleEntry(job) })));
    t.equal(await store.jobs.sweepIdempotency(START_MS + 7, 5), 5);
    t.equal(await store.jobs.sweepIdempotency(START_MS + 7, 5), 2);
    t.equal(await store.jobs.sweepIdempotency(START_MS + 7, 5), 0);
    const left = await Promise.all(entries.map((entry) => store.jobs.idempotency(entry)));
    t.same(
      left.map((entry) => entry?.jobId),
      accepted.map(({ id }, n) => (n < 7 ? undefined : id)),
    );
  });
}

async function references(t: Test, makeStore: MakeStore): Promise<void> {
  t.test('every entry that is kept for a job leads back to its job', async (t) => {
    const { store, reopen } = await makeStore(t, () => START_MS);
    const accepted = sampleJobs(1203);
    await Promise.all(
      accepted.map((job, n) => store.jobs.accept(job, n < 600 ? { idempotency: sampleEntry(job) } : {})),
    );
    await store.log.commit(sampleBatch(0, accepted.slice(0, 1100)));
    const failure = { code: 'kms_partition_unavailable', message: 'gave up', failedAt: START_MS } as const;
    await store.jobs.fail(accepted[1100]?.id ?? '', failure);
    await store.jobs.sweepIdempotency(START_MS + 10, 10);
    const [fetched, queued] = [sampleUrlJob(), sampleUrlJob()];
    await Promise.all(
      [fetched, queued].map((job) => store.jobs.accept(job, { sourceUrl: 'https://a.example/' })),
    );
    await store.jobs.receive(fetched.id, sampleContent());
    const ids = accepted.map(({ id }) => id);
    for await (const opened of thenReopened(store, reopen)) {
      const found = { outcome: [], idempotency: [], content: [], source: [] } as Record<string, string[]>;
      for await (const { kind, jobId } of opened.jobs.references()) found[kind]?.push(jobId);
      t.same(found.outcome, [ids[1100]]);
      t.same(found.idempotency?.sort(), ids.slice(10, 600));
      t.same([found.content, found.source], [[fetched.id], [queued.id]]);
    }
  });
}

async function mending(t: Test, makeStore: MakeStore): Promise<void> {
  t.test('a store without damage has no flaw, and a repair changes nothing in it', async (t) => {
    const { store, reopen } = await makeStore(t, () => START_MS);
    const endpoint = sampleEndpoint();
    await store.webhooks.endpoints.add(endpoint, 5, null);
    const quota = { name: 'default', startsAt: START_MS - 5, endsAt: START_MS + HOUR_MS };
    const accepted = sampleJobs(700).map((job) => ({ ...job, quota, customerReference: 'R' }));
    await Promise.all(accepted.map((job) => store.jobs.accept(job, { idempotency: sampleEntry(job) })));
    const failure = { code: 'kms_partition_unavailable', message: 'gave up', failedAt: START_MS } as const;
    const [first, second] = accepted.map(({ id }) => id) as [string, string];
    await store.jobs.fail(first, failure);
    await store.jobs.fail(second, failure);
    const again = sampleJob({ quota });
    const { key } = sampleEntry(accepted[1] as Job);
    await store.jobs.accept(again, { idempotency: sampleEntry(again, { key }) });
    const url = sampleUrlJob();
    await store.jobs.accept(url, { sourceUrl: 'https://a.example/' });
    await store.jobs.receive(url.id, sampleContent());
    await store.webhooks.endpoints.remove(endpoint.id, null);
    await store.jobs.sweepIdempotency(START_MS + 10, 5);
    for await (const opened of thenReopened(store, reopen))
      t.same(await collected(opened.indexes.check()), []);

    const opened = await reopen();
    t.equal(await opened.indexes.repair({ onMended: t.fail, isGood: async () => true }), true);
    t.match(await opened.jobs.quotaCounts(), [{ jobs: 701 }]);
    t.equal(await opened.jobs.waitingCount(), 700);
    t.match(await (await reopen()).jobs.get(first), { outcome: { failure } });
  });
}

async function sealing(t: Test, makeStore: MakeStore): Promise<void> {
  t.test('an empty log has no head', async (t) => {
    const { store } = await makeStore(t);
    t.equal(await store.log.head(), undefined);
    t.equal(await store.log.batchOf(0), undefined);
    t.same(await store.log.leaves(0, 10), []);
    t.equal(await store.log.tile(0, 0), undefined);
  });

  t.test('batches follow one another, and are found by leaf and by tree size', async (t) => {
    const { store, reopen } = await makeStore(t);
    const accepted = sampleJobs(9);
    await Promise.all(accepted.map((job) => store.jobs.accept(job)));
    const timestamp = { token: 'AA==', certificates: ['AQ==', 'Ag=='] };
    const batches = [
      sampleBatch(0, accepted.slice(0, 3)),
      { ...sampleBatch(3, accepted.slice(3, 8)), timestamp },
    ];
    for (const batch of batches) await store.log.commit(batch);
    const [first, second] = batches.map(({ leaves: _, tiles: __, epochsRevision: ___, ...batch }) => batch);
    for await (const opened of thenReopened(store, reopen)) {
      t.same(await opened.log.head(), second);
      t.same(
        [await opened.log.batchAt(3), await opened.log.batchAt(8), await opened.log.batchAt(4)],
        [first, second, undefined],
      );
      const owners = await Promise.all([0, 2, 3, 7, 8].map((leaf) => opened.log.batchOf(leaf)));
      t.same(owners, [first, first, second, second, undefined]);
      const times = await Promise.all([0, 2, 3, 7, 8].map((leaf) => opened.log.sealedAt(leaf)));
      t.same(
        times,
        owners.map((batch) => batch?.sealedAt),
      );
      const backwards = await Promise.all([8, 7, 3, 2, 0].map((leaf) => opened.log.sealedAt(leaf)));
      t.same(backwards, times.toReversed(), 'whichever was asked about before');
      const leaves = await opened.log.leaves(2, 100);
      t.same(
        leaves.map(({ jobId }) => jobId),
        accepted.slice(2, 8).map(({ id }) => id),
      );
      t.ok(leaves.every(({ jobId, data }) => Buffer.compare(data, leafData(jobId)) === 0));
      t.equal(Buffer.compare((await opened.log.tile(0, 0)) ?? Buffer.of(), Buffer.alloc(8 * 32, 8)), 0);
      t.same((await opened.jobs.get(accepted[4]?.id ?? ''))?.outcome, { kind: 'sealed', leafIndex: 4 });
      t.same(await opened.jobs.waiting(10), accepted.slice(8));
      t.equal(await opened.jobs.waitingCount(), 1);
    }
  });

  t.test(
    'an announced batch is the next one, even after reopening and after changes of the epochs',
    async (t) => {
      const { store, reopen } = await makeStore(t);
      const accepted = sampleJobs(4);
      await Promise.all(accepted.map((job) => store.jobs.accept(job)));
      const announcing = ({ leaves, tiles: _, ...batch }: SealedBatch) => ({
        ...batch,
        jobIds: leaves.map(({ jobId }) => jobId),
      });
      const [shown, other] = [sampleBatch(0, accepted.slice(0, 2)), sampleBatch(0, accepted.slice(2, 3))];
      t.equal(await store.log.announced(), undefined);
      await t.rejects(store.log.announce(announcing(sampleBatch(1, accepted.slice(0, 1)))), BrokenInvariant);
      t.equal(await store.log.announce(announcing(shown)), true);
      await t.rejects(store.log.announce(announcing(other)), BrokenInvariant, 'there is one');
      for await (const opened of thenReopened(store, reopen)) {
        t.same(await opened.log.announced(), announcing(shown));
        t.equal(await opened.log.head(), undefined, 'it is no part of the log');
        t.same(await opened.jobs.waitingCount(), 4, 'and its jobs wait');
        await t.rejects(opened.log.commit(other), BrokenInvariant, 'no other may come before it');
      }
      const opened = await reopen();
      await opened.epochs.change([epoch, { ...epoch, from: START_MS * 2 }], 0, null);
      t.equal(await opened.log.commit(shown), true);
      t.equal(await opened.log.announced(), undefined);
      t.equal((await opened.log.head())?.treeSize, 2);
      const late = { ...announcing(sampleBatch(2, accepted.slice(2, 3))), epochsRevision: 0 };
      t.equal(await opened.log.announce(late), false, 'drafted before the epochs were changed');
      t.equal(await opened.log.announced(), undefined);
      t.equal(await opened.log.announce({ ...late, epochsRevision: 1 }), true);
    },
  );

  const refusals: [string, (jobs: Job[]) => ReturnType<typeof sampleBatch>][] = [
    ['a batch that leaves a gap', (jobs) => sampleBatch(3, jobs.slice(2, 4))],
    ['a batch that overlaps', (jobs) => sampleBatch(1, jobs.slice(2, 4))],
    ['a batch from the beginning', (jobs) => sampleBatch(0, jobs.slice(2, 4))],
    ['a job that is sealed already', (jobs) => sampleBatch(2, jobs.slice(1, 4))],
    ['a job that failed', (jobs) => sampleBatch(2, jobs.slice(4, 6))],
    ['an unknown job', (jobs) => sampleBatch(2, [...jobs.slice(2, 4), sampleJob()])],
    ['a job twice', (jobs) => sampleBatch(2, [...jobs.slice(2, 4), ...jobs.slice(2, 3)])],
    ['a wrong tree size', (jobs) => ({ ...sampleBatch(2, jobs.slice(2, 4)), treeSize: 5 })],
    ['an empty batch', () => sampleBatch(2, [])],
  ];
  t.test('a batch that does not fit is refused whole', async (t) => {
    const { store } = await makeStore(t);
    const accepted = sampleJobs(6);
    await Promise.all(accepted.map((job) => store.jobs.accept(job)));
    await store.log.commit(sampleBatch(0, accepted.slice(0, 2)));
    await store.jobs.fail(accepted[5]?.id ?? '', {
      code: 'internal_error',
      message: 'x',
      failedAt: START_MS,
    });
    for (const [name, make] of refusals) {
      await t.rejects(store.log.commit(make(accepted)), BrokenInvariant, name);
      t.equal((await store.log.head())?.treeSize, 2, name);
      t.equal((await store.log.leaves(0, 100)).length, 2, name);
      t.same(await store.jobs.waiting(10), accepted.slice(2, 5), name);
      t.equal(Buffer.compare((await store.log.tile(0, 0)) ?? Buffer.of(), Buffer.alloc(64, 2)), 0, name);
    }
    await store.log.commit(sampleBatch(2, accepted.slice(2, 5)));
    t.equal(await store.jobs.waitingCount(), 0);
  });

  t.test('a new job becomes durable with its leaf, and with all that its acceptance writes', async (t) => {
    const { store, reopen } = await makeStore(t, () => START_MS);
    const endpoint = sampleEndpoint();
    await store.webhooks.endpoints.add(endpoint, 5, null);
    const quota = { name: 'default', startsAt: START_MS - 5, endsAt: START_MS + HOUR_MS };
    const [stored, added] = [sampleJob({ quota }), sampleJob({ quota, customerReference: 'of the new one' })];
    await store.jobs.accept(stored);
    const newJob = { job: added, acceptance: { idempotency: sampleEntry(added) } };
    const batch = sampleBatch(0, [stored, added]);
    const committed = store.log.commit({ ...batch, leaves: withNewJob(batch.leaves, newJob) });
    // Another connection of a database can see it before this one hears that it is committed.
    const seen = await store.jobs.get(added.id);
    t.ok(seen === undefined || seen.outcome?.kind === 'sealed', 'never without its leaf');
    t.equal(await committed, true);
    for await (const opened of thenReopened(store, reopen)) {
      t.same(await opened.jobs.get(added.id), { job: added, outcome: { kind: 'sealed', leafIndex: 1 } });
      t.same(await opened.jobs.idempotency(sampleEntry(added)), sampleEntry(added));
      t.match(await opened.jobs.quotaCounts(), [{ jobs: 2 }]);
      t.equal(await opened.jobs.waitingCount(), 0);
      const { clientId, organization } = added;
      const viewer = { clientId, organization, partnerOf: [] };
      const found = await opened.jobs.list({ viewer, limit: 5, customerReference: 'of the new one' });
      t.same(
        found.records.map(({ job }) => job.id),
        [added.id],
      );
      t.equal((await opened.webhooks.outbox.pending(endpoint.id, { limit: 5 })).length, 2);
      const flaws = await collected(opened.indexes.check());
      t.same(
        flaws.filter(({ index }) => index !== 'tiles'),
        [],
        'a sample has no tree',
      );
    }
  });

  t.test('a new job that is stored already or whose key is in use makes its batch fail', async (t) => {
    const { store } = await makeStore(t, () => START_MS);
    const quota = { name: 'default', startsAt: START_MS - 5, endsAt: START_MS + HOUR_MS };
    const [stored, other] = [sampleJob(), sampleJob({ quota })];
    await store.jobs.accept(stored, { idempotency: sampleEntry(stored) });
    const { key } = sampleEntry(stored);
    const commit = (newJob: NewJob) => {
      const batch = sampleBatch(0, [newJob.job]);
      return store.log.commit({ ...batch, leaves: withNewJob(batch.leaves, newJob) });
    };
    await t.rejects(commit({ job: stored, acceptance: {} }), BrokenInvariant);
    const conflicts = await commit({
      job: other,
      acceptance: { idempotency: sampleEntry(other, { key }) },
    });
    t.match(conflicts, new Map([[other.id, KEY_TAKEN]]), 'the others can be sealed without it');
    const [one, same] = [sampleJob(), sampleJob()];
    const pair = sampleBatch(0, [one, same]);
    const both = pair.leaves.map((leaf, n) => {
      const job = n === 0 ? one : same;
      return { ...leaf, newJob: { job, acceptance: { idempotency: sampleEntry(job, { key: 'of both' }) } } };
    });
    const twice = await store.log.commit({ ...pair, leaves: both });
    t.match(twice, new Map([[same.id, KEY_TAKEN]]), 'of two new jobs with one key, the second is refused');
    const batch = sampleBatch(0, [other]);
    const leaves = withNewJob(batch.leaves, { job: other, acceptance: {} });
    await store.epochs.change([epoch, { ...epoch, from: START_MS + HOUR_MS }], 0, null);
    t.equal(await store.log.commit({ ...batch, leaves }), false, 'the epochs changed');
    t.equal(await store.jobs.get(other.id), undefined);
    t.equal(await store.log.commit({ ...batch, leaves, epochsRevision: 1 }), true);
    t.match(await store.jobs.get(other.id), { outcome: { kind: 'sealed' } });
    t.match(await store.jobs.quotaCounts(), [{ jobs: 1 }], 'counted once');
  });

  t.test('of two batches with the same first leaf, one is committed', async (t) => {
    const { store } = await makeStore(t);
    const accepted = sampleJobs(4);
    await Promise.all(accepted.map((job) => store.jobs.accept(job)));
    const both = [sampleBatch(0, accepted.slice(0, 2)), sampleBatch(0, accepted.slice(2))];
    const results = await Promise.allSettled(both.map((batch) => store.log.commit(batch)));
    t.same(
      results.map(({ status }) => status),
      ['fulfilled', 'rejected'],
    );
    t.equal(await store.jobs.waitingCount(), 2);
    t.equal((await store.log.head())?.treeSize, 2);
  });
}

function withNewJob(leaves: readonly SealedLeaf[], newJob: NewJob): SealedLeaf[] {
  return leaves.map((leaf) => (leaf.jobId === newJob.job.id ? { ...leaf, newJob } : leaf));
}

async function failing(t: Test, makeStore: MakeStore): Promise<void> {
  const failure = { code: 'kms_partition_unavailable', message: 'gave up', failedAt: START_MS + 1 } as const;

  t.test('a failed job keeps its key until another job takes it', async (t) => {
    const { store, reopen } = await makeStore(t, () => START_MS);
    const [first, second, third] = [sampleJob(), sampleJob(), sampleJob()];
    const entryOf = (job: Job) =>
      sampleEntry(job, { key: 'the-same-key', acceptedAt: START_MS + (job === second ? 1000 : 0) });
    await store.jobs.accept(first, { idempotency: entryOf(first) });
    await store.jobs.fail(first.id, failure);
    for await (const opened of thenReopened(store, reopen)) {
      t.same(await opened.jobs.get(first.id), { job: first, outcome: { kind: 'failed', failure } });
      t.same(await opened.jobs.idempotency(entryOf(first)), entryOf(first));
      t.equal(await opened.jobs.waitingCount(), 0);
    }
    const opened = await reopen();
    await opened.jobs.accept(second, { idempotency: entryOf(second) });
    t.same(await opened.jobs.idempotency(entryOf(second)), entryOf(second));
    t.same(await collected(opened.indexes.check()), []);
    await t.rejects(opened.jobs.accept(third, { idempotency: entryOf(third) }), KEY_TAKEN);
  });

  t.test('a job gets only one outcome', async (t) => {
    const { store } = await makeStore(t);
    const [sealed, failed] = [sampleJob(), sampleJob()];
    await Promise.all([sealed, failed].map((job) => store.jobs.accept(job)));
    const race = [
      store.log.commit(sampleBatch(0, [sealed])),
      store.jobs.fail(sealed.id, failure),
      store.jobs.fail(failed.id, failure),
    ];
    const results = await Promise.allSettled(race);
    t.same(
      results.map(({ status }) => status),
      ['fulfilled', 'rejected', 'fulfilled'],
    );
    await t.rejects(store.jobs.fail(failed.id, failure), BrokenInvariant);
    await t.rejects(store.jobs.fail(sampleJob().id, failure), BrokenInvariant);
    t.same((await store.jobs.get(sealed.id))?.outcome, { kind: 'sealed', leafIndex: 0 });
  });
}

async function epochs(t: Test, makeStore: MakeStore): Promise<void> {
  const planned = { ...epoch, from: START_MS + HOUR_MS };

  t.test('epochs begin as the store was made, and change as one list', async (t) => {
    const { store, reopen } = await makeStore(t);
    t.same(await store.epochs.newest(), { revision: 0, list: [epoch] });
    t.equal(await store.epochs.change([epoch, planned], 0, null), true);
    for await (const opened of thenReopened(store, reopen)) {
      t.same(await opened.epochs.newest(), { revision: 1, list: [epoch, planned] });
    }
  });

  t.test('of two concurrent changes of the epochs, the first wins', async (t) => {
    const { store } = await makeStore(t);
    const later = { ...planned, from: planned.from + 1 };
    const results = await Promise.all([
      store.epochs.change([epoch, planned], 0, null),
      store.epochs.change([epoch, later], 0, null),
    ]);
    t.same(results, [true, false]);
    t.same(await store.epochs.newest(), { revision: 1, list: [epoch, planned] });
    t.equal(await store.epochs.change([epoch], 1, null), true);
    t.same(await store.epochs.newest(), { revision: 2, list: [epoch] });
  });

  t.test('a batch that was drafted under former epochs is refused', async (t) => {
    const { store } = await makeStore(t);
    const [job] = sampleJobs(1) as [ReceivedJob];
    await store.jobs.accept(job);
    const batch = sampleBatch(0, [job]);
    t.equal(await store.epochs.change([epoch, planned], 0, null), true);
    t.equal(await store.log.commit(batch), false);
    t.equal(await store.log.head(), undefined);
    t.equal(await store.jobs.waitingCount(), 1);
    t.equal(await store.log.commit({ ...batch, epochsRevision: 1 }), true);
    t.match(await store.log.head(), { treeSize: 1 });
    t.notOk(Object.hasOwn((await store.log.head()) ?? {}, 'epochsRevision'), 'which is no evidence');
  });
}

async function credentials(t: Test, makeStore: MakeStore): Promise<void> {
  t.test('a change of credentials sees every record before it', async (t) => {
    const { store } = await makeStore(t);
    const act: Act = { act: 'key.issue', actor: { via: 'command' }, object: {}, outcome: 'done' };
    const one = sampleCredential({ keyHash: 'a'.repeat(64), id: 'key_0' });
    await putCredentials(store, [one]);
    const count = async () =>
      store.credentials.change((all) => {
        const [found] = all;
        if (!found) return undefined;
        return { credentials: [{ ...found, createdAt: found.createdAt + 1 }], act };
      });
    await Promise.all(Array.from({ length: 10 }, count));
    t.equal((await store.credentials.get(one.keyHash))?.createdAt, one.createdAt + 10, 'none is lost');
    t.equal(await store.trail.newest(), 1 + 10);
    t.equal(await store.credentials.change(() => undefined), undefined, 'no decision, no act');
    t.equal(await store.trail.newest(), 1 + 10);
  });

  t.test('credentials are stored by hash, and replaced', async (t) => {
    const { store, reopen } = await makeStore(t);
    const [old, other] = [sampleCredential(), sampleCredential({ id: 'key_2' })];
    await putCredentials(store, [old]);
    await putCredentials(store, [other]);
    const next = sampleCredential({ id: 'key_3' });
    const replaced = { ...old, expiresAt: START_MS + 1, replacedBy: 'key_3' };
    await putCredentials(store, [replaced, next]);
    for await (const opened of thenReopened(store, reopen)) {
      t.same(await opened.credentials.get(old.keyHash), replaced);
      t.same(await opened.credentials.get(next.keyHash), next);
      t.same(
        new Set((await opened.credentials.all()).map(({ id }) => id)),
        new Set(['key_1', 'key_2', 'key_3']),
      );
    }
  });

  t.test('a salt is erased when its key ends, or is written again', async (t) => {
    const { store, reopen } = await makeStore(t);
    const act: Act = { act: 'key.rotate', actor: { via: 'command' }, object: {}, outcome: 'done' };
    const ids = ['key_1', 'key_2', 'key_3', 'key_4', 'key_5'];
    const all = ids.map((id) => sampleCredential({ id }));
    await putCredentials(store, all);
    const salts = all.map(({ keyHash, id }, n) => ({ keyHash, salt: id, endsAt: START_MS + n }));
    await store.credentials.change(() => ({ credentials: all, salts, act }));
    const kept = async (store: Store) =>
      (await Promise.all(all.map(({ keyHash }) => store.credentials.saltOf(keyHash)))).filter(Boolean);
    for await (const opened of thenReopened(store, reopen)) t.same(await kept(opened), ids);
    const { credentials } = await reopen();
    t.equal(await credentials.saltOf('ab'), undefined);
    const [, , third, fourth] = all;
    if (!third || !fourth) throw new Error('no credentials');
    t.equal(await credentials.sweepSalts(START_MS - 1, 10), 0, 'none has ended');
    t.equal(await credentials.sweepSalts(START_MS + 1, 1), 1, 'step by step');
    t.equal(await credentials.sweepSalts(START_MS + 1, 10), 1);
    await credentials.change(() => ({ credentials: [{ ...third, revokedAt: START_MS }], act }));
    await credentials.change(() => ({ credentials: [], forgotten: [fourth], act }));
    t.same(await kept(await reopen()), ['key_5']);
  });

  t.test('a key that is not a hash finds no credential', async (t) => {
    const { store } = await makeStore(t);
    for (const keyHash of ['', 'ab', 'AB'.repeat(32), '\0'.repeat(64)]) {
      t.equal(await store.credentials.get(keyHash), undefined);
      await t.rejects(putCredentials(store, [sampleCredential({ keyHash })]), BrokenInvariant);
    }
    t.same(await store.credentials.all(), []);
  });
}
