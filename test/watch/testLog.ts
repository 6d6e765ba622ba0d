import { pino } from 'pino';
import type { Test } from 'tap';
import { encodeCheckpoint } from '../../src/log/checkpoint.ts';
import { appendLeaves, emptyEdge, leafHash, rootOf } from '../../src/log/tree.ts';
import { parseWitnessPolicy } from '../../src/log/witnessPolicy.ts';
import type { Batch, Store } from '../../src/store/store.ts';
import type { WitnessState } from '../../src/store/witnessStore.ts';
import { openWitnessing, type Witnessing, type WitnessingOptions } from '../../src/watch/witnessing.ts';
import { HttpClient } from '../../src/web/httpClient.ts';
import { firstEpoch, makeKey, signNote } from '../support/sealing.ts';

export const ORIGIN = 'seal.example.com/test/2026';

/** A log in memory, that grows, forks and returns to an earlier state. */
export class TestLog {
  readonly keys = [
    makeKey('ed25519', 'eu'),
    makeKey('ecdsa-p256', 'us'),
    makeKey('ed25519', 'ap'),
    makeKey('mldsa44', 'eu'),
  ];
  signers = this.keys;
  edge = emptyEdge();
  readonly #tiles = new Map<string, Uint8Array>();
  head: Batch | undefined;
  announced: Batch | undefined;
  known: WitnessState = { witnesses: {} };
  puts = 0;

  /** `other`: leaves of another history. */
  grow(leaves: number, other = ''): void {
    const added = Array.from({ length: leaves }, (_, n) =>
      leafHash(Buffer.from(`${other}${this.edge.size + n}`)),
    );
    const { edge, tiles } = appendLeaves(this.edge, added);
    for (const { level, index, hashes } of tiles) this.#tiles.set(`${level}/${index}`, hashes);
    this.edge = edge;
    const text = encodeCheckpoint({ origin: ORIGIN, treeSize: edge.size, root: rootOf(edge) });
    const checkpoint = signNote(ORIGIN, text, this.signers);
    this.head = { checkpoint, treeSize: edge.size, firstLeaf: 0, sealedAt: 0, algorithm: '', kmsKeyId: '' };
  }

  /** Leaves it as it would be without what is behind that size. */
  restart(): void {
    this.edge = emptyEdge();
    this.#tiles.clear();
  }

  damage(): void {
    for (const hashes of this.#tiles.values()) hashes.fill(7);
  }

  get store(): Pick<Store, 'identity' | 'log' | 'epochs' | 'witnessing'> {
    const log = {
      head: async () => this.head,
      announced: async () => this.announced,
      tile: async (level: number, index: number) => this.#tiles.get(`${level}/${index}`),
    };
    const epochs = { newest: async () => ({ revision: 0, list: [firstEpoch(this.keys)] }) };
    const witnessing = {
      get: async () => this.known,
      put: async (known: WitnessState) => {
        this.puts += 1;
        this.known = JSON.parse(JSON.stringify(known));
      },
    };
    const identity = { schema: 1, environment: 'test', logOrigin: ORIGIN, createdAt: 0 };
    return { identity, log, epochs, witnessing } as unknown as Store;
  }
}

export interface Opened {
  witnessing: Witnessing;
  lines: Record<string, unknown>[];
}

export async function openOn(
  t: Test,
  log: TestLog,
  policy: string,
  options: Partial<WitnessingOptions> = {},
): Promise<Opened> {
  const lines: Record<string, unknown>[] = [];
  const logger = pino({ level: 'trace' }, { write: (line: string) => void lines.push(JSON.parse(line)) });
  const witnessing = await openWitnessing({
    policy: parseWitnessPolicy(policy),
    store: log.store,
    keys: () => log.keys,
    intervalMs: 5,
    client: new HttpClient({ idleConnectionsMax: 1 }),
    clock: () => Date.now(),
    logger,
    onFatal: (error) => t.fail(String(error)),
    ...options,
  });
  t.teardown(() => witnessing.close());
  witnessing.start();
  return { witnessing, lines };
}
