import type { Test } from 'tap';
import type { WitnessState } from '../../src/store/witnessStore.ts';
import type { MakeStore } from './contract.ts';

/** The part of the contract that `src/store/witnessStore.ts` states. */
export async function witnessing(t: Test, makeStore: MakeStore): Promise<void> {
  t.test(
    'a new store has no witness state, and a state is kept, even if reopened, until replaced',
    async (t) => {
      const { store, reopen } = await makeStore(t);
      t.same(await store.witnessing.get(), { witnesses: {} });
      const first: WitnessState = {
        witnesses: {
          'a+00000001+BA==': { treeSize: 7, cosignedAt: 1_800_000_000 },
          'b+00000002+BA==': {
            treeSize: 0,
            contradiction: { detail: 'another tree', at: 1_800_000_000_000 },
          },
        },
        cosigned: { treeSize: 7, checkpoint: 'log\n7\n\n— log AAAA\n— a AAAA\n' },
        witnessed: { treeSize: 5, checkpoint: 'log\n5\n' },
      };
      await store.witnessing.put(first);
      t.same(await store.witnessing.get(), first);
      const opened = await reopen();
      t.same(await opened.witnessing.get(), first);
      await opened.witnessing.put({ witnesses: {} });
      t.same(await opened.witnessing.get(), { witnesses: {} });
      t.equal(opened.identity.logOrigin, store.identity.logOrigin);
    },
  );
}
