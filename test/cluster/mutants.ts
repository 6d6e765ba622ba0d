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
    file: 'prove/trail/lastCheckpoint.js',
    line: 'async function assertNewest(store, file) {',
    instead: 'async function assertNewest(store, file) { return;',
  },
  {
    file: 'prove/trail/lastCheckpoint.js',
    line: 'const found = noted && noted.treeSize > 0 ? await contradiction(store, noted, head) : undefined;',
    instead: 'const found = undefined;',
  },
  {
    file: 'kms/signedTrees.js',
    line: 'const trees = held.trees.length === 0 && step.isCommitted ? [step.from] : held.trees;',
    instead: 'return { held: { ...held, trees: [next] }, abandoned: [] };',
  },
];

const LOG_TABLE = 'store/postgresql/logTable.js';

/**
 * What each keeps a daemon from that goes on after its turn, as edits that take it away. `test/store/postgresqlDefences.test.ts` tries them in every
 * combination.
 */
export const DEFENCES = {
  /** Nothing is written after the turn. */
  fence: [
    {
      file: 'store/postgresql/writes.js',
      line: 'if (held?.rows[0]?.fence !== this.#turn.fence)',
      instead: 'if (false)',
    },
    {
      file: 'store/postgresql/pgSession.js',
      line: 'if (fence !== undefined && (await fenceOf(client)) !== fence)',
      instead: 'if (false)',
    },
    {
      file: 'store/postgresql/sequencer.js',
      line: 'if ((await fenceOf(client)) !== fence)',
      instead: 'if (false)',
    },
  ],
  /** A batch follows the head that it was drafted for (compare and swap). */
  swap: [
    { file: LOG_TABLE, line: 'assert(tree_size === firstLeaf, ', instead: 'assert(true, ' },
    {
      file: LOG_TABLE,
      line: 'const isKnown = newest === undefined',
      instead: 'const isKnown = true',
    },
    {
      file: LOG_TABLE,
      line: 'WHERE tree_size = $3 AND checkpoint_sha256 = $4',
      instead: 'WHERE $3::bigint IS NOT NULL AND $4::bytea IS NOT NULL',
    },
  ],
  /** A leaf and a batch are there once: the primary keys of their tables. */
  keys: [
    {
      file: LOG_TABLE,
      line: 'unnest($1::bigint[], $2::uuid[], $3::bytea[])',
      instead:
        'unnest($1::bigint[], $2::uuid[], $3::bytea[]) ON CONFLICT (leaf_index) DO UPDATE SET job_id = excluded.job_id, data = excluded.data',
    },
    {
      file: LOG_TABLE,
      line: 'INSERT INTO batches (tree_size, record) VALUES ($1, $2)',
      instead:
        'INSERT INTO batches (tree_size, record) VALUES ($1, $2) ON CONFLICT (tree_size) DO UPDATE SET record = excluded.record',
    },
  ],
} satisfies Record<string, readonly Edit[]>;

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
