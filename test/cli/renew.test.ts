/** Which time-stamps a renewal takes: of how many authorities, of whom not, and how early ones are asked for again. */
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { verifyEvidenceRecord } from '../../src/asn1/evidenceRecord.ts';
import { assert } from '../../src/base/assert.ts';
import { fromHex, fromUtf8 } from '../../src/base/bytes.ts';
import { gainFault } from '../../src/cli/store/renewalGain.ts';
import {
  commitNow,
  draftNow,
  judgeToken,
  queryToKeep,
  type Renewing,
  stampNow,
  surveyNow,
} from '../../src/cli/store/renewRun.ts';
import { commitRun, draftRun, nextRun } from '../../src/prove/renewal/renewalRun.ts';
import { EvidenceRecords, RenewalTrees } from '../../src/prove/renewal/renewals.ts';
import { actOfProcess } from '../../src/store/acts.ts';
import { BEGIN, DAY_MS } from '../support/authority.ts';
import { MemoryLog, renew, YearlyAuthority } from '../support/renewals.ts';

const [alpha, beta] = [await YearlyAuthority.make('alpha'), await YearlyAuthority.make('beta')] as const;
const SEALED_AT = Date.now() - 60_000;

/** A log with one checkpoint, and a daemon that stamps as these authorities do; `lateMs`: how long before now each time. */
async function setUp(
  t: Test,
  needed: number,
  stampers: Record<string, YearlyAuthority | undefined>,
  lateMs: number[] = [],
  policies: Record<string, { policy: string }> = {},
) {
  const memory = new MemoryLog();
  await memory.seal(1, SEALED_AT, alpha);
  const asked: string[] = [];
  const server = createServer(async (request, response) => {
    const { searchParams: query } = new URL(`http://localhost${request.url}`);
    const name = query.get('authority') ?? '';
    asked.push(name);
    const found = await stampers[name]?.stamp(
      'sha384',
      fromHex(query.get('digest') ?? ''),
      Date.now() - (lateMs.shift() ?? 0),
    );
    const error = { code: 'timestamp_unavailable', message: 'not now' };
    response
      .writeHead(found ? 200 : 503)
      .end(JSON.stringify(found ? { ...found, authority: name } : { error }));
  });
  // The path of a socket has at most 107 bytes.
  const dir = mkdtempSync(join(tmpdir(), 'pdfseal-renew-'));
  t.teardown(() => rmSync(dir, { recursive: true }));
  const path = join(dir, 'admin.sock');
  await new Promise<void>((resolve) => server.listen(path, resolve));
  t.teardown(() => server.close());
  const renewing = {
    store: memory.store,
    config: {
      admin: { socket: { path } },
      timestamp: { authorities: Object.keys(stampers), remotes: policies },
      renewal: { authorities: needed, sunsets: [] },
    },
    authorities: [alpha.trusted, beta.trusted],
    runs: [],
    trees: new RenewalTrees(memory.store, []),
  } as unknown as Renewing;
  return { renewing, drafted: await draftNow(renewing, 'sha384'), asked };
}

const anybody = { kept: [] };

t.test('one time-stamp is taken from the first authority that answers', async (t) => {
  const { renewing, drafted, asked } = await setUp(t, 1, { silent: undefined, alpha, beta });
  t.match(await stampNow(renewing, drafted, anybody), [{ token: { authority: 'alpha' } }]);
  t.strictSame(asked, ['silent', 'alpha']);
});

t.test('two independent authorities give time-stamps, or nothing is renewed', async (t) => {
  const two = await setUp(t, 2, { alpha, mirror: alpha, beta });
  const found = await stampNow(two.renewing, two.drafted, anybody);
  t.strictSame(
    found.map(({ token }) => token.authority),
    ['alpha', 'beta'],
    'not one authority under two names',
  );
  const one = await setUp(t, 2, { alpha, mirror: alpha });
  await t.rejects(stampNow(one.renewing, one.drafted, anybody), {
    message: /1 of 2 authorities gave a time-stamp: nothing is renewed yet/,
  });
});

t.test('a carried time-stamp counts if it is of this renewal', async (t) => {
  const { renewing, drafted, asked } = await setUp(t, 2, { alpha, beta });
  const kept = [await beta.stamp('sha384', drafted.root, Date.now())];
  t.match(await stampNow(renewing, drafted, { ...anybody, kept }), [
    { token: { authority: 'beta' } },
    { token: { authority: 'alpha' } },
  ]);
  t.strictSame(asked, ['alpha']);
  const other = [await beta.stamp('sha384', Buffer.alloc(48), Date.now())];
  t.match(await stampNow(renewing, drafted, { ...anybody, kept: other }), [
    { token: { authority: 'alpha' } },
    { token: { authority: 'beta' } },
  ]);
});

t.test('a time-stamp of a future time or of another policy is not used', async (t) => {
  const ahead = await setUp(t, 1, { alpha, beta }, [-3_600_000]);
  t.match(await stampNow(ahead.renewing, ahead.drafted, anybody), [{ token: { authority: 'beta' } }]);
  const other = await setUp(t, 1, { alpha, beta }, [], { alpha: { policy: '1.2.3.4' } });
  t.match(await stampNow(other.renewing, other.drafted, anybody), [{ token: { authority: 'beta' } }]);
});

t.test('an ended renewal makes the next one due, which does not build on it', async (t) => {
  const { renewing } = await setUp(t, 1, { alpha });
  const memory = new MemoryLog();
  // The certificates of one have ended; the other's last for decades.
  const [brief, lasting] = [
    await YearlyAuthority.make('brief', 2 / 365),
    await YearlyAuthority.make('lasting', 20),
  ];
  for (const by of [brief, lasting]) await memory.seal(1, BEGIN + DAY_MS, by);
  const trusted = [lasting.trusted, brief.trusted];
  await renew(memory.store, { digest: 'sha512', at: BEGIN + DAY_MS + 60_000, authorities: [brief], trusted });
  const runs = await memory.renewals.runs();
  const later: Renewing = {
    ...renewing,
    ...{ store: memory.store as Renewing['store'], authorities: trusted },
    ...{ runs, trees: new RenewalTrees(memory.store, runs) },
  };
  t.match(await surveyNow(later, undefined), { lost: 1, reason: 'a time-stamp has ended', digest: 'sha512' });
  t.match(await draftNow(later, 'sha512'), { scope: { number: 2, from: 0, to: 2, path: [-1] } });
});

t.test('without authorities, the error says that none is configured', async (t) => {
  const { renewing, drafted } = await setUp(t, 1, {});
  await t.rejects(stampNow(renewing, drafted, anybody), { message: /^timestamp\.authorities is empty/ });
});

t.test('an open query keeps its draft for 30 days, for the timer too', async (t) => {
  const { renewing } = await setUp(t, 1, {});
  const { renewals } = renewing.store;
  const draft = await renewals.draft();
  assert(draft, 'a draft is kept');
  const begun = { ...draft, at: draft.at - 29 * 86_400_000 };
  const query = { ...begun, nonce: 'ab' };
  await renewals.keepDraft(query, draft);
  t.match(await draftNow(renewing, 'sha512', { query }), { scope: { digest: 'sha384' } });
  await draftNow(renewing, 'sha384');
  t.match(await renewals.draft(), { at: begun.at, nonce: 'ab' });
  await renewals.keepDraft(begun, query);
  await draftNow(renewing, 'sha384');
  t.not((await renewals.draft())?.at, begun.at, 'without a query, a draft lives for a day');
});

t.test('a time-stamp of a distrusted root is not used', async (t) => {
  const { renewing } = await setUp(t, 1, { alpha, beta });
  const theft = { root: alpha.trusted.root, since: SEALED_AT - 1000 };
  const drafted = await draftNow(renewing, 'sha384', { theft });
  t.match(await stampNow(renewing, drafted, anybody), [{ token: { authority: 'beta' } }]);
  t.match(await draftNow(renewing, 'sha512'), { thefts: { length: 1 } }, 'it stays known in another draft');
});

t.test('a time-stamp that is not later than what it renews is asked for again', async (t) => {
  const { renewing, drafted, asked } = await setUp(t, 1, { alpha }, [120_000]);
  t.match(await stampNow(renewing, drafted, anybody), [{ token: { authority: 'alpha' } }]);
  t.strictSame(asked, ['alpha', 'alpha']);
});

t.test('a renewal must gain time unless --shorter is given', (t) => {
  const day = 86_400_000;
  const first = { at: 100 * day, renewAt: 0, reason: '' };
  const fault = (at: number, asked: boolean, shorter?: true, more = {}) =>
    gainFault({ due: { at, renewAt: 0, reason: '', ...more } }, { first, asked, shorter });
  t.equal(fault(130 * day, false), undefined);
  t.match(fault(129 * day, false), { fault: /hardly later/, remedy: /hsm certify.*--shorter/ });
  t.equal(fault(100 * day, true), undefined);
  t.match(fault(99 * day, true), { fault: /before what it renews/ });
  t.equal(fault(1, true, true), undefined);
  t.match(fault(1, true, undefined, { algorithm: 'rsa-2048' }), {
    fault: /before/,
    remedy: /^name an authority .* rsa-2048/,
  });
  t.match(fault(1, true, undefined, { algorithm: 'sha512', ofDigest: 'sha512' }), {
    fault: /before/,
    remedy: /^name another hash function: renewal\.hash/,
  });
  t.end();
});

t.test('the next authority is asked if the first one gains nothing', async (t) => {
  const brief = await YearlyAuthority.make('brief', 3);
  const long = await YearlyAuthority.make('long', 20);
  const { renewing, drafted, asked } = await setUp(t, 1, { brief, long });
  const known = { ...renewing, authorities: [...renewing.authorities, brief.trusted, long.trusted] };
  const end = Date.now() + 10 * 365 * DAY_MS;
  const gain = { first: { at: end, renewAt: 0, reason: '' }, asked: false, shorter: undefined };
  t.match(await stampNow(known, drafted, { kept: [], gain }), [{ token: { authority: 'long' } }]);
  t.strictSame(asked, ['brief', 'long']);
  const alone = await setUp(t, 1, { brief });
  await t.rejects(
    stampNow({ ...known, config: alone.renewing.config }, alone.drafted, { kept: [], gain }),
    { message: /before what it renews .*: nothing is renewed$/ },
    'where nobody gains anything, that is the reason',
  );
});

t.test('a query on an ended renewal stays open, and an answer dated before that end is taken', async (t) => {
  const { renewing } = await setUp(t, 1, {});
  const [own, brief, lasting] = [
    await YearlyAuthority.make('own', 15 / 365),
    await YearlyAuthority.make('brief', 20 / 365),
    await YearlyAuthority.make('lasting', 20),
  ];
  const authorities = [own.trusted, brief.trusted, lasting.trusted];
  for (const digest of ['sha512', 'sha384'] as const) {
    const memory = new MemoryLog();
    const batch = await memory.seal(1, BEGIN + DAY_MS, own);
    await renew(memory.store, { digest: 'sha512', at: BEGIN + 2 * DAY_MS, authorities: [brief] });
    const runs = await memory.renewals.runs();
    const trees = new RenewalTrees(memory.store, runs);
    const store = memory.store as Renewing['store'];
    const known: Renewing = { ...renewing, store, authorities, runs, trees };
    const query = { ...(await nextRun(store, runs, digest)), at: Date.now() - DAY_MS, nonce: 'ab' };
    const drafted = await draftRun(store, trees, query);
    const judged = async (at: number) =>
      judgeToken(known, drafted, await lasting.stamp(digest, drafted.root, at));
    t.match(await judged(BEGIN + 21 * DAY_MS), {
      fault: /^the token says 2026-01-22T.*, but by then a renewal that the query builds on had ended$/,
      remedy: /pdfseal renew request/,
    });
    await t.rejects(queryToKeep(known, {}), {
      message:
        /^a query that builds on .* is still open: nothing is renewed until its answer comes, or until 2/,
      remedy: /^if the authority answered before that end, .*\. Otherwise .* pdfseal renew request/,
    });
    t.match(await draftNow(known, digest, { query }), { scope: { path: [0] } }, 'the timer leaves it alone');
    t.strictSame(await store.renewals.draft(), query);
    const answer = await judged(BEGIN + 19 * DAY_MS);
    assert(!('fault' in answer), 'however late it is carried here');
    const act = actOfProcess('command', 'renewal.run', { run: 2 });
    t.ok(await commitRun(store, drafted, [answer.token], act));
    const record = await new EvidenceRecords(memory.store).of(batch);
    const [data, trustedRoots] = [fromUtf8(batch.checkpoint), authorities.map(({ root }) => root)];
    t.match(verifyEvidenceRecord({ record: record ?? data, data, trustedRoots, at: Date.now() }), {
      outcome: 'good',
    });
  }
});

t.test('a query is not kept if another one is requested or if it can no longer help', async (t) => {
  const { renewing } = await setUp(t, 1, {});
  const { renewals } = renewing.store;
  const draft = await renewals.draft();
  assert(draft, 'a draft is kept');
  t.equal(await queryToKeep(renewing, {}), undefined, 'no query is out');
  const query = { ...draft, nonce: 'ab' };
  await renewals.keepDraft(query, draft);
  t.strictSame(await queryToKeep(renewing, {}), query);
  t.strictSame(await queryToKeep(renewing, {}, 'sha384'), query);
  t.equal(await queryToKeep(renewing, {}, 'sha512'), undefined, 'another hash function');
  const first = { at: 0, renewAt: 0, reason: '', ofDigest: 'sha384' as const };
  t.equal(await queryToKeep(renewing, { first }), undefined, 'its hash function is what ends');
  await draftNow(renewing, 'sha512');
  t.match(await renewals.draft(), { digest: 'sha512', nonce: undefined }, 'another query is written');
  const old = { ...query, at: query.at - 31 * DAY_MS };
  await renewals.keepDraft(old, await renewals.draft());
  t.equal(await queryToKeep(renewing, {}), undefined, 'after 30 days');
});

t.test('a renewal is refused if another process has drafted or made a run meanwhile', async (t) => {
  const { renewing } = await setUp(t, 1, {});
  const memory = new MemoryLog();
  await memory.seal(1, SEALED_AT, alpha);
  const store = memory.store as Renewing['store'];
  const known: Renewing = { ...renewing, store, trees: new RenewalTrees(store, []) };
  const drafted = await draftNow(known, 'sha384');
  await memory.seal(1, SEALED_AT + 1000, alpha);
  const other = await draftRun(store, known.trees, {
    ...(await nextRun(store, [], 'sha512')),
    at: Date.now(),
  });
  const judged = await judgeToken(known, drafted, await alpha.stamp('sha384', drafted.root, Date.now()));
  assert(!('fault' in judged), 'the token is good');
  const elsewhere = { message: /^another process renews this log/, remedy: /run the command again/ };
  await t.rejects(commitNow(known, drafted, [judged]), elsewhere, 'which has a draft of its own');
  t.match(await store.renewals.draft(), other.scope, 'its draft stays');
  await renew(store, { digest: 'sha512', at: Date.now() - 1000, authorities: [alpha] });
  await t.rejects(draftNow(known, 'sha384'), elsewhere, 'which has made its run');
  t.match(await store.renewals.runs(), [{ digest: 'sha512', to: 2 }]);
});

t.test('a renewal is refused if another process has distrusted a root meanwhile', async (t) => {
  const { renewing, drafted } = await setUp(t, 1, {});
  const judged = await judgeToken(renewing, drafted, await alpha.stamp('sha384', drafted.root, Date.now()));
  assert(!('fault' in judged), 'the token is good');
  const theft = { root: alpha.trusted.root, since: SEALED_AT };
  t.strictSame(
    (await draftNow(renewing, 'sha384', { theft })).scope,
    drafted.scope,
    'it drafts the same run',
  );
  await t.rejects(commitNow(renewing, drafted, [judged]), { message: /^another process renews this log/ });
  t.strictSame(await renewing.store.renewals.runs(), []);
  const again = await draftNow(renewing, 'sha384');
  t.match(await judgeToken(renewing, again, judged.token), { fault: /^\S.* is distrusted from 2/ });
});
