import { parseNote } from '../../log/note.ts';
import type { Store } from '../../store/store.ts';

/** Contradictions between the witnesses' statements and the log, in words. */
export async function witnessProblems(store: Pick<Store, 'witnessing' | 'log'>): Promise<string[]> {
  const { witnesses, cosigned, witnessed, carried = [] } = await store.witnessing.get();
  const problems = Object.entries(witnesses).flatMap(([vkey, { contradiction }]) =>
    contradiction === undefined
      ? []
      : [`the witness ${vkey} holds another history of the log: ${contradiction.detail}`],
  );
  for (const { treeSize, checkpoint } of [cosigned, witnessed, ...carried].filter(
    (one) => one !== undefined,
  )) {
    const batch = await store.log.batchAt(treeSize);
    if (parseNote(checkpoint)?.text !== parseNote(batch?.checkpoint ?? '')?.text)
      problems.push(
        `the checkpoint ${treeSize} that witnesses cosigned or were asked to cosign is not in the log`,
      );
  }
  return problems;
}
