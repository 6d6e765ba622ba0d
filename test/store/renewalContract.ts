import type { Test } from 'tap';
import { BrokenInvariant } from '../../src/base/assert.ts';
import { parseAuditRecord } from '../../src/manifest/auditRecord.ts';
import { actOfProcess } from '../../src/store/acts.ts';
import {
  type RenewalDraft,
  type RenewalRun,
  type RenewalScope,
  type RenewalSurvey,
  type RenewalTile,
  SKIPPED,
} from '../../src/store/renewalStore.ts';
import type { Store } from '../../src/store/store.ts';
import type { MakeStore } from './contract.ts';
import { START_MS, sampleBatch, sampleJobs } from './samples.ts';

/** The part of the contract that `src/store/renewalStore.ts` states. */
export async function renewals(t: Test, makeStore: MakeStore): Promise<void> {
  const act = (run: number) => actOfProcess('command', 'renewal.run', { run });
  const first: RenewalScope = { number: 1, digest: 'sha512', from: 0, to: 3, path: [] };
  const tile = (leaf: number): RenewalTile => ({
    first: leaf,
    root: Buffer.alloc(64, leaf).toString('base64'),
  });
  const runOf = (scope: RenewalScope, rows: RenewalTile[]): RenewalRun => ({
    ...scope,
    rows,
    tokens: [{ authority: 'built-in', token: `token-${scope.number}`, certificates: ['ca'] }],
  });
  const withLog = async (store: Store) => {
    for (const [firstLeaf, leaves] of [
      [0, 1],
      [1, 2],
      [3, 2],
    ] as const) {
      const jobs = sampleJobs(leaves);
      for (const job of jobs) await store.jobs.accept(job);
      await store.log.commit(sampleBatch(firstLeaf, jobs));
    }
  };
  /** As a process does that has read the draft. */
  const keepDraft = async (store: Store, draft: RenewalDraft) =>
    store.renewals.keepDraft(draft, await store.renewals.draft());
  const commit = async (store: Store, scope: RenewalScope, tiles = [tile(scope.from)]) => {
    await keepDraft(store, { ...scope, at: START_MS });
    await store.renewals.addRow(scope, 0, tiles);
    return store.renewals.commit(runOf(scope, [tile(scope.from)]), act(scope.number));
  };

  t.test('a new store has no renewals, draft or survey', async (t) => {
    const { store } = await makeStore(t);
    t.strictSame(await store.renewals.runs(), []);
    t.strictSame(
      [await store.renewals.draft(), await store.renewals.survey(), await store.renewals.row(1, 0)],
      [undefined, undefined, undefined],
    );
  });

  t.test('a draft keeps its rows until another run is drafted', async (t) => {
    const { store, reopen } = await makeStore(t);
    await withLog(store);
    const draft: RenewalDraft = { ...first, at: START_MS, nonce: '0102' };
    t.equal(await store.renewals.addRow(first, 0, [tile(0)]), false, 'no draft');
    t.equal(await keepDraft(store, { ...first, at: START_MS }), true);
    await t.rejects(store.renewals.addRow(first, 1, [tile(1)]), BrokenInvariant, 'rows have no gaps');
    for (const _ of [1, 2]) t.equal(await store.renewals.addRow(first, 0, [tile(0), tile(1)]), true);
    await t.rejects(store.renewals.addRow(first, 0, [tile(0)]), BrokenInvariant, 'a row is written once');
    const older = [{ to: 1, path: [] }];
    for (const other of [{ number: 2 }, { to: 2 }, { path: [0] }, { older }])
      t.equal(await store.renewals.addRow({ ...first, ...other }, 1, [tile(0)]), false, 'of another run');
    t.equal(await store.renewals.row(1, 1), undefined);
    await keepDraft(store, draft);
    const opened = await reopen();
    t.strictSame(await opened.renewals.draft(), draft);
    t.strictSame(await opened.renewals.row(1, 0), [tile(0), tile(1)], 'a nonce changes no hash');
    for (const other of [{ to: 1 }, { digest: 'sha384' }] as const) {
      await keepDraft(opened, { ...draft, ...other });
      t.equal(await opened.renewals.row(1, 0), undefined);
      await opened.renewals.addRow({ ...draft, ...other }, 0, [tile(0)]);
    }
    t.strictSame(await opened.renewals.runs(), []);
  });

  t.test('additions of another process to the draft are not lost', async (t) => {
    const { store, reopen } = await makeStore(t);
    await withLog(store);
    const draft: RenewalDraft = { ...first, at: START_MS };
    t.equal(await store.renewals.keepDraft(draft, { ...draft, nonce: '01' }), false, 'of none was read');
    t.equal(await store.renewals.keepDraft(draft, undefined), true);
    const told = { ...draft, thefts: [{ root: 'AA==', since: START_MS }] };
    t.equal(await store.renewals.keepDraft(told, draft), true);
    for (const more of [{ nonce: '0102' }, { tokens: runOf(first, []).tokens }, { to: 1 }])
      t.equal(await store.renewals.keepDraft({ ...draft, ...more }, draft), false, 'a draft that is gone');
    const opened = await reopen();
    t.strictSame(await opened.renewals.draft(), told);
    await opened.renewals.addRow(first, 0, [tile(0)]);
    const run = runOf(first, [tile(0)]);
    t.equal(await opened.renewals.commit(run, act(1)), false, 'it may be of a stolen key');
    t.strictSame(await opened.renewals.runs(), []);
    t.equal(await opened.renewals.commit({ ...run, thefts: told.thefts }, act(1)), true);
  });

  t.test('runs follow one another, each with its audit record', async (t) => {
    const { store, reopen } = await makeStore(t);
    await withLog(store);
    await store.renewals.keepSurvey(survey);
    t.equal(await commit(store, first), true);
    const runs = [runOf(first, [tile(0)])];
    t.strictSame(await store.renewals.runs(), runs);
    t.strictSame([await store.renewals.draft(), await store.renewals.survey()], [undefined, undefined]);
    t.match(parseAuditRecord((await store.trail.entry(1))?.text ?? ''), {
      act: 'renewal.run',
      object: { run: 1 },
    });
    t.equal(await store.renewals.commit(runOf(first, [tile(1)]), act(1)), false, 'a run is never replaced');
    t.equal(await keepDraft(store, { ...first, at: START_MS }), false, 'nor drafted again');
    t.equal(await store.renewals.draft(), undefined);
    t.ok(await store.renewals.row(1, 0), 'and its rows stay');
    const second: RenewalScope = { number: 2, digest: 'sha512', from: 3, to: 5, path: [0] };
    const third: RenewalScope = { number: 3, digest: 'sha384', from: 0, to: 5, path: [0, 0] };
    const opened = await reopen();
    t.equal(await commit(opened, second), true);
    t.equal(await commit(opened, third, [tile(0), tile(3)]), true);
    t.strictSame(await opened.renewals.runs(), [...runs, runOf(second, [tile(3)]), runOf(third, [tile(0)])]);
    t.strictSame(await opened.renewals.row(3, 0), [tile(0), tile(3)]);
    t.strictSame(await opened.renewals.row(1, 0), [tile(0)]);
    t.equal(await opened.trail.newest(), 3);
  });

  t.test('a run that does not follow from the draft is refused', async (t) => {
    const { store } = await makeStore(t);
    await withLog(store);
    t.equal(await commit(store, first), true);
    const good: RenewalScope = { number: 2, digest: 'sha512', from: 3, to: 5, path: [0] };
    for (const wrong of [
      { number: 3 },
      { from: 0 },
      { to: 6 },
      { to: 2 },
      { path: [] },
      { digest: 'sha384' as const },
    ])
      await t.rejects(commit(store, { ...good, ...wrong }), BrokenInvariant, JSON.stringify(wrong));
    await keepDraft(store, { ...good, at: START_MS });
    await t.rejects(
      store.renewals.commit(runOf(good, [tile(3)]), act(2)),
      BrokenInvariant,
      'a row is missing',
    );
    await t.rejects(
      store.renewals.commit({ ...runOf(good, []), tokens: [] }, act(2)),
      BrokenInvariant,
      'no token',
    );
    t.equal(await store.renewals.commit(runOf({ ...good, to: 4 }, []), act(2)), false, 'not the draft');
    t.equal((await store.renewals.runs()).length, 1);
    t.equal(await store.trail.newest(), 1);
    t.equal(await store.renewals.commit(runOf(good, []), act(2)), true, 'nothing was sealed since');
  });

  t.test(
    'a run that leaves out an earlier one begins at the first leaf, and those after it do not',
    async (t) => {
      const { store } = await makeStore(t);
      await withLog(store);
      const second: RenewalScope = { number: 2, digest: 'sha512', from: 0, to: 5, path: [SKIPPED] };
      t.equal(await commit(store, first), true);
      await t.rejects(commit(store, { ...second, from: 3 }), BrokenInvariant);
      t.equal(await commit(store, second), true);
      const third: RenewalScope = { ...second, number: 3, from: 5, path: [SKIPPED, 0] };
      await t.rejects(commit(store, { ...third, from: 0 }), BrokenInvariant);
      await keepDraft(store, { ...third, at: START_MS });
      t.equal(await store.renewals.commit(runOf(third, []), act(3)), true);
      t.match(await store.renewals.runs(), [first, second, third]);
    },
  );

  const survey: RenewalSurvey = {
    from: 0,
    to: 5,
    groups: [{ digest: 'sha512', signatures: ['ecdsa-sha256'], notAfter: START_MS, leaf: 3, batches: 3 }],
  };

  t.test('a survey is kept until the next one', async (t) => {
    const { store, reopen } = await makeStore(t);
    await store.renewals.keepSurvey({ ...survey, groups: [] });
    await store.renewals.keepSurvey(survey);
    t.strictSame(await (await reopen()).renewals.survey(), survey);
  });
}
