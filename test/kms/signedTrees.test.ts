import t from 'tap';
import { CREDIT_MAX, follow, heldAt, NOTHING_SIGNED, type SignedTrees } from '../../src/kms/signedTrees.ts';
import { FORK_AT, History } from '../support/history.ts';
import { fc, tries } from '../support/seed.ts';

const LIMITS = { depth: 2, now: 0 };

/** What the signer holds after it was asked for a tree of that history. Throws what it refuses with. */
async function ask(history: History, held: SignedTrees, from: number, to: number): Promise<SignedTrees> {
  const step = await history.step(from, to, held.trees.length === 0);
  return follow(held, await history.tree(to), step, LIMITS).held;
}

const [log, fork] = [new History('of the log'), new History('of the fork')];
const sizesOf = ({ trees }: SignedTrees) => trees.map(({ size }) => size);

t.test('trees of a growing log are signed, up to the allowed number of batches under way', async (t) => {
  const underWay = await log.step(5, 6, false);
  const six = await log.tree(6);
  t.throws(() => follow(NOTHING_SIGNED, six, underWay, LIMITS), { code: 'tree_unknown', trees: [] });
  let held = await ask(log, NOTHING_SIGNED, 5, 6);
  t.strictSame(sizesOf(held), [5, 6], 'what the first step leads from is believed');
  held = await ask(log, held, 6, 9);
  held = await ask(log, held, 9, 10);
  t.strictSame(sizesOf(held), [6, 9, 10], 'the batches on their way, and the one before');
  t.equal(await ask(log, held, 0, 9), held, 'a tree that it holds is signed again');
  held = await ask(log, await ask(log, held, 6, 30), 30, 31);
  t.strictSame(sizesOf(held), [6, 30, 31], 'two batches that were given up are replaced');
  t.equal(held.credit, CREDIT_MAX - 1, 'at once');
  await t.rejects(
    ask(log, NOTHING_SIGNED, 3, 3),
    { code: 'tree_inconsistent' },
    'nothing is signed unremembered',
  );
  t.strictSame(sizesOf(await ask(log, NOTHING_SIGNED, 0, 3)), [0, 3], 'the first batch of a log');
  const joined = await ask(log, await ask(log, await ask(log, NOTHING_SIGNED, 0, 1), 1, 3), 0, 3);
  t.strictSame(sizesOf(joined), [0, 3], 'two batches that became one leave nothing between');
  t.equal(joined.credit, CREDIT_MAX - 1, 'and what was between is given up');
});

t.test(
  'a first step gives up nothing: the second of two first batches is asked for again, from the first',
  async (t) => {
    const [one, two] = [await log.tree(1), await log.tree(2)];
    const held = await ask(log, NOTHING_SIGNED, 0, 1);
    const first = await log.step(0, 2);
    t.throws(() => follow(held, two, first, LIMITS), {
      code: 'tree_unknown',
      trees: [await log.tree(0), one],
    });
    const again = await ask(log, held, 1, 2);
    t.strictSame(sizesOf(again), [0, 1, 2]);
    t.equal(again.credit, CREDIT_MAX);
  },
);

t.test('a signer that missed a joined batch can still go back to what is committed', async (t) => {
  const twice = await ask(log, await ask(log, NOTHING_SIGNED, 0, 1), 1, 2);
  const behind = { ...(await log.step(2, 4)), draftedOn: [0, 2] };
  const four = await log.tree(4);
  const { held, abandoned } = follow(twice, four, behind, LIMITS);
  t.strictSame(sizesOf(held), [0, 2, 4], 'the tree that only the joined batch contains makes room');
  t.equal(abandoned.length, 0, 'and is not given up');
  t.strictSame(sizesOf(await ask(log, held, 0, 5)), [0, 5], 'the batches can be joined again');
  const lying = { ...behind, draftedOn: [0, 1, 2, 3] };
  t.strictSame(sizesOf(follow(twice, four, lying, LIMITS).held), [1, 2, 4], 'no daemon makes it hold more');
});

t.test('a tree that would be a second history is not signed', async (t) => {
  let held = await ask(log, NOTHING_SIGNED, 10, 25);
  held = await ask(log, await ask(log, held, 25, 30), 30, 35);
  const refusals: [what: string, asked: Promise<unknown>, code: string][] = [
    ['a fork of a tree it holds', ask(fork, held, 30, 36), 'tree_unknown'],
    ['a fork from before what it holds', ask(fork, held, FORK_AT, 36), 'tree_unknown'],
    ['a batch on what is long committed', ask(log, held, 10, 40), 'tree_unknown'],
    ['an older size', ask(log, held, 10, 20), 'tree_unknown'],
    ['a smaller tree', ask(log, held, 30, 27), 'tree_inconsistent'],
    ['a fork of the same size', ask(fork, held, 25, 35), 'tree_unknown'],
  ];
  for (const [what, asked, code] of refusals) await t.rejects(asked, { code }, what);
  const [mixed, honest] = [await fork.tree(40), await log.step(35, 40)];
  t.throws(
    () => follow(held, mixed, honest, LIMITS),
    { code: 'tree_inconsistent' },
    'a proof of another tree',
  );
  for (const proof of [[], [...honest.proof, ...honest.proof], ['no hash'], honest.proof.toReversed()])
    t.throws(() => follow(held, mixed, { ...honest, proof }, LIMITS), { code: 'tree_inconsistent' });
  await t.rejects(
    ask(log, held, 12, 40),
    { code: 'tree_unknown', trees: held.trees },
    'it says what it holds',
  );
});

t.test('abandoned trees are counted, and time gives new credit', async (t) => {
  let held = await ask(log, NOTHING_SIGNED, 0, 1);
  const give = async (now: number, to: number) => {
    const asked = follow(held, await log.tree(to), await log.step(0, to, false), { ...LIMITS, now });
    held = asked.held;
    return asked.abandoned.length;
  };
  for (let n = 0; n < CREDIT_MAX; n++) t.equal(await give(0, 2 + n), 1);
  await t.rejects(give(4_999, 100), { code: 'trees_abandoned' });
  await t.rejects(give(-1_000_000_000, 100), { code: 'trees_abandoned' }, 'a clock set back earns nothing');
  t.equal(await give(5_000, 100), 1, 'once in five seconds');
  await t.rejects(give(9_999, 101), { code: 'trees_abandoned' });
  t.equal(await give(10_000, 101), 1);
  await t.resolves(ask(log, held, 101, 102), 'a log that grows needs none');
  t.equal(await give(1e9, 103), 1);
  t.equal(held.credit, CREDIT_MAX - 1, 'no more than there was');
  const late = heldAt({ ...held, credit: 0, countedAt: 1e9 }, 5_000);
  t.equal(late.countedAt, 5_000, 'a clock that was ahead takes no credit for as long');
  t.equal(heldAt(held, 2e9), held);
});

t.test('a branch costs credit, however it is requested', async (t) => {
  let held = await ask(log, NOTHING_SIGNED, 10, FORK_AT);
  let signed = 0;
  for (let to = FORK_AT + 1; to < 300; to++) {
    try {
      // The next of the branch, then the same again as if it had been drafted on what is committed.
      held = await ask(fork, held, held.trees.at(-1)?.size ?? 0, to);
      held = await ask(fork, held, FORK_AT, to);
      signed += 1;
    } catch (error) {
      t.match(error, { code: 'trees_abandoned' });
      break;
    }
  }
  t.ok(signed <= CREDIT_MAX + LIMITS.depth, `${signed} trees of a branch, and the log can still go on`);
});

t.test('no sequence of requests continues both branches of a fork', async (t) => {
  const size = fc.integer({ min: 0, max: 60 });
  const request = fc.record({
    branch: fc.constantFrom(log, fork),
    from: size,
    grow: fc.integer({ min: -3, max: 9 }),
    isFirst: fc.boolean(),
    draftedOn: fc.option(fc.array(size, { maxLength: 4 }), { nil: undefined }),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(request, { maxLength: 60 }), async (requests) => {
      let held: SignedTrees = { ...NOTHING_SIGNED, trees: [await log.tree(FORK_AT - 2)] };
      let chosen: History | undefined;
      for (const { branch, from: wanted, grow, draftedOn, isFirst } of requests) {
        // Mostly from a tree that it holds, or there would be little to see.
        const from = held.trees[wanted % 4]?.size ?? wanted;
        const to = Math.max(0, from + grow);
        const first = held.trees[0]?.size ?? 0;
        let next: SignedTrees;
        try {
          const step = { ...(await branch.step(from, to, isFirst)), ...(draftedOn && { draftedOn }) };
          next = follow(held, await branch.tree(to), step, LIMITS).held;
        } catch {
          continue;
        }
        if (JSON.stringify(next) === JSON.stringify(held)) continue;
        t.ok(to > first, 'never back beyond the first');
        if (chosen !== undefined && to > FORK_AT) t.equal(branch, chosen, 'one branch is the log');
        held = next;
        // Once its first tree is beyond the fork, there is no way back.
        const beyond = (held.trees[0]?.size ?? 0) > FORK_AT;
        if (beyond)
          chosen ??= held.trees[0]?.root === (await log.tree(held.trees[0]?.size ?? 0)).root ? log : fork;
      }
    }),
    { numRuns: tries(300) },
  );
});
