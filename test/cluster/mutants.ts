/** Daemons without one of the defences of a cluster: copies of `dist` with some lines changed. */
import type { PromiseName } from '../faults/checker.ts';
import type { Edit } from '../faults/mutants.ts';

export interface ClusterMutant {
  name: string;
  /** The attack that is to find it. */
  attack: string;
  edits: readonly Edit[];
  /** What must be reported as broken, whatever else is. */
  breaks: PromiseName;
}

/** Neither a daemon nor a signer remembers the log. Otherwise they refuse to go on with another one, and nobody is told anything wrong. */
const NO_MEMORY: readonly Edit[] = [
  {
    file: 'prove/lastCheckpoint.js',
    line: 'async function assertNewest(store, file) {',
    instead: 'async function assertNewest(store, file) { return;',
  },
  {
    file: 'prove/lastCheckpoint.js',
    line: 'async function assertExtends(store, head, noted) {',
    instead: 'async function assertExtends(store, head, noted) { return;',
  },
  {
    file: 'kms/signedTrees.js',
    line: 'const trees = held.trees.length === 0 && step.isCommitted ? [step.from] : held.trees;',
    instead: 'return { held: { ...held, trees: [next] }, abandoned: [] };',
  },
];

export const MUTANTS: readonly ClusterMutant[] = [
  {
    name: 'believes a commit that the primary alone has',
    attack: 'and the primary is lost',
    edits: [
      ...NO_MEMORY,
      {
        file: 'store/postgresql/pgSession.js',
        line: "said = message ?? 'a notice';",
        instead: 'void message;',
      },
    ],
    breaks: 'nothing acknowledged is lost',
  },
];
