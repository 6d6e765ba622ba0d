import type { ArchiveTimestamp } from '../../asn1/archiveTimestamp.ts';
import { MalformedDer } from '../../asn1/der.ts';
import { encodeEvidenceRecord, renewalLeaf } from '../../asn1/evidenceRecord.ts';
import { pathInLevels, reducedTree, type TreeLevels, treeLevels } from '../../asn1/hashTree.ts';
import { parseTimestampToken, type TimestampToken } from '../../asn1/timestampToken.ts';
import { assert } from '../../base/assert.ts';
import { fromBase64, fromUtf8, toBase64 } from '../../base/bytes.ts';
import { type DigestName, digestOf } from '../../base/crypto.ts';
import { OperatorError } from '../../base/errors.ts';
import {
  pathOf,
  type RenewalRun,
  type RenewalScope,
  type RenewalStore,
  runsOf,
  SKIPPED,
  TREE_WIDTH,
} from '../../store/renewalStore.ts';
import type { Batch, LogStore } from '../../store/store.ts';
import { waysNow } from './renewalPath.ts';

/** The path of a batch's record through the runs. */
export type PathOf = (batch: Batch, runs: readonly RenewalRun[]) => number[];

/** The log and its renewals. */
export interface RenewedLog {
  log: Pick<LogStore, 'batchOf'>;
  renewals: Pick<RenewalStore, 'row'>;
}

/** Batches read at a time. */
const TURN_BATCHES = 32;

/** Batches in log order, from the one that contains leaf `from` up to tree size `to`. */
export async function* batchesOf({ log }: Pick<RenewedLog, 'log'>, from: number, to: number) {
  for (let leaf = from, seen = 1; leaf < to; seen++) {
    const batch = await log.batchOf(leaf);
    assert(batch && batch.treeSize > leaf && batch.treeSize <= to, `no batch holds leaf ${leaf}`);
    // Yields to the event loop, and lets the store reuse memory that a long read would hold. Done before the batch, because a caller that
    // takes this many may stop there.
    if (seen % TURN_BATCHES === 0) await new Promise((resolve) => setImmediate(resolve));
    yield batch;
    leaf = batch.treeSize;
  }
}

/** Evidence records (RFC 4998) of batches, in DER. Intermediate results are reused for the next record. */
export class EvidenceRecords {
  readonly #store: RenewedLog & { renewals: Pick<RenewalStore, 'runs'> };
  readonly #pathOf: PathOf;
  readonly #width: number | undefined;
  #trees: RenewalTrees | undefined;

  /** `path`: of today's records; by default, as the last run left them. */
  constructor(
    store: RenewedLog & { renewals: Pick<RenewalStore, 'runs'> },
    { path, width }: { path?: PathOf; width?: number } = {},
  ) {
    this.#store = store;
    this.#pathOf = path ?? ((batch, runs) => pathOf(waysNow(runs), batch));
    this.#width = width;
  }

  /**
   * The record contains the time-stamp of the batch and every renewal on the path. The data object is the signed checkpoint. The record
   * follows from immutable parts, so it has the same bytes while the path is the same, and a renewal only adds to it. Undefined for a batch
   * without time-stamps.
   */
  async of(batch: Batch): Promise<Uint8Array | undefined> {
    const runs = await this.#store.renewals.runs();
    if (this.#trees?.runs.length !== runs.length)
      this.#trees = new RenewalTrees(this.#store, runs, this.#width);
    const path = this.#pathOf(batch, runs);
    const chains = await this.#trees.chainsOf(batch, path);
    if (chains.length === 0) return undefined;
    const certificates = runsOf(batch, runs, path).flatMap(
      ({ number, tokens }) => tokens[path[number - 1] ?? SKIPPED]?.certificates ?? [],
    );
    return encodeChains(chains, [...(batch.timestamp?.certificates ?? []), ...certificates]);
  }
}

/** The record of these chains. `certificates` are those stored outside the tokens, in Base64. */
export function encodeChains(chains: readonly Chain[], certificates: readonly string[]): Uint8Array {
  const tokens = chains.flatMap(({ timestamps }) => timestamps);
  const inside = tokens.flatMap(({ token }) => parseTimestampToken(token).signedData.certificates);
  const known = new Set(inside.map(toBase64));
  return encodeEvidenceRecord({
    digests: [...new Set(chains.map(({ digest }) => digest))],
    certificates: [...new Set(certificates)].filter((one) => !known.has(one)).map(bytesOf),
    chains: chains.map(({ timestamps }) => timestamps),
  });
}

/** Archive time-stamps whose tokens use the same hash function for their imprints. */
interface Chain {
  digest: DigestName;
  timestamps: ArchiveTimestamp[];
}

/** The most recently read tile or row. */
interface Part {
  /** Indexes in the log of the leaves at which its children begin. */
  firsts: number[];
  levels: TreeLevels;
  /** The siblings from its root up to the root of the run. */
  above: Uint8Array[];
}

/**
 * The hash trees of runs, rebuilt from batches. For each run, it keeps the row and the tile used last, so a caller that goes through the
 * log in order builds every tile once.
 */
export class RenewalTrees {
  readonly #store: RenewedLog;
  readonly runs: readonly RenewalRun[];
  readonly #carried = new Map<number, readonly Uint8Array[]>();
  readonly #parts = new Map<string, Part & { first: number }>();

  /** Width of tiles and rows; tests use less. */
  readonly width: number;

  constructor(store: RenewedLog, runs: readonly RenewalRun[], width = TREE_WIDTH) {
    this.#store = store;
    this.runs = runs;
    this.width = width;
  }

  /** The batches of the tile that begins with that leaf of the log. */
  async *batchesOfTile(first: number, to: number): AsyncIterable<Batch> {
    let count = 0;
    for await (const batch of batchesOf(this.#store, first, to)) {
      yield batch;
      count += 1;
      if (count === this.width) return;
    }
  }

  /** The chains of a batch after as many runs as the path is long. */
  async chainsOf(batch: Batch, path: readonly number[]): Promise<Chain[]> {
    const chains: Chain[] = batch.timestamp
      ? [{ digest: 'sha512', timestamps: [{ token: bytesOf(batch.timestamp.token) }] }]
      : [];
    for (const run of runsOf(batch, this.runs, path)) {
      const { leaf, siblings } = await this.#place(run, batch, path);
      const reducedHashTree = reducedTree(leaf, siblings);
      const token = tokenOf(run, path[run.number - 1] ?? SKIPPED);
      const renewal = { ...(reducedHashTree && { reducedHashTree }), token };
      const last = chains.at(-1);
      if (last?.digest === run.digest) last.timestamps.push(renewal);
      else chains.push({ digest: run.digest, timestamps: [renewal] });
    }
    return chains;
  }

  /** The leaf of a batch in a run that covers it. */
  async leafOf(batch: Batch, run: RenewalScope): Promise<Uint8Array> {
    const path = pathOf(run, batch);
    const last = runsOf(batch, this.runs, path).at(-1);
    // If a record continues with the same hash function, only the last token is covered.
    if (last?.digest === run.digest)
      return digestOf(run.digest, tokenOf(last, path[last.number - 1] ?? SKIPPED));
    const chains = await this.chainsOf(batch, path);
    const before = chains.at(-1);
    // As renewalLeaf does, but without parsing a token if only its hash is needed.
    const token = before?.digest === run.digest ? before.timestamps.at(-1)?.token : undefined;
    if (token !== undefined) return digestOf(run.digest, token);
    const sequence = { chains: chains.map(({ timestamps }) => timestamps) };
    return renewalLeaf(sequence, run.digest, fromUtf8(batch.checkpoint));
  }

  /** The leaves of a run that are time-stamps of the previous run: only these represent what that run covered. */
  carriedLeaves({ number, digest, from }: RenewalScope): readonly Uint8Array[] {
    const tokens = from === 0 ? [] : (this.runs[number - 2]?.tokens ?? []);
    const leaves = this.#carried.get(number) ?? tokens.map(({ token }) => digestOf(digest, bytesOf(token)));
    this.#carried.set(number, leaves);
    return leaves;
  }

  /** The position of a batch, or of the time-stamp that represents it, in the tree of a run. */
  async #place(run: RenewalRun, batch: Batch, path: readonly number[]) {
    const carried = this.carriedLeaves(run);
    if (batch.firstLeaf < run.from) {
      const index = path[run.number - 2] ?? 0;
      const leaf = carried[index];
      assert(leaf, `renewal ${run.number} does not go on with what covers leaf ${batch.firstLeaf}`);
      return { leaf, siblings: pathInLevels(this.#top(run, carried), index) };
    }
    const tile = await this.#tile(run, batch.firstLeaf);
    const index = tile.firsts.findLastIndex((first) => first <= batch.firstLeaf);
    const leaf = tile.levels[0]?.[index];
    assert(leaf, `renewal ${run.number} has no leaf of the batch from leaf ${batch.firstLeaf}`);
    return { leaf, siblings: [...pathInLevels(tile.levels, index), ...tile.above] };
  }

  #top({ digest, rows }: RenewalRun, carried: readonly Uint8Array[]): TreeLevels {
    return treeLevels(digest, [...carried, ...rows.map(({ root }) => bytesOf(root))]);
  }

  async #tile(run: RenewalRun, leafIndex: number): Promise<Part> {
    const row = await this.#row(run, leafIndex);
    const number = row.firsts.findLastIndex((first) => first <= leafIndex);
    const first = row.firsts[number] ?? run.from;
    return this.#part(`tile of ${run.number}`, first, async () => {
      const firsts: number[] = [];
      const leaves: Uint8Array[] = [];
      for await (const batch of this.batchesOfTile(first, run.to)) {
        firsts.push(batch.firstLeaf);
        leaves.push(await this.leafOf(batch, run));
      }
      const above = [...pathInLevels(row.levels, number), ...row.above];
      return { firsts, levels: treeLevels(run.digest, leaves), above };
    });
  }

  async #row(run: RenewalRun, leafIndex: number): Promise<Part> {
    const number = run.rows.findLastIndex(({ first }) => first <= leafIndex);
    return this.#part(`row of ${run.number}`, number, async () => {
      const tiles = await this.#store.renewals.row(run.number, number);
      assert(tiles, `row ${number} of renewal ${run.number} is gone`);
      const roots = tiles.map(({ root }) => bytesOf(root));
      const carried = this.carriedLeaves(run);
      const above = pathInLevels(this.#top(run, carried), carried.length + number);
      return { firsts: tiles.map(({ first }) => first), levels: treeLevels(run.digest, roots), above };
    });
  }

  async #part(name: string, first: number, make: () => Promise<Part>): Promise<Part> {
    const kept = this.#parts.get(name);
    if (kept?.first === first) return kept;
    const part = { first, ...(await make()) };
    this.#parts.set(name, part);
    return part;
  }
}

function tokenOf({ number, tokens }: RenewalRun, index: number): Uint8Array {
  const found = tokens[index];
  assert(found, `renewal ${number} has no token ${index}`);
  return bytesOf(found.token);
}

export function bytesOf(base64: string): Uint8Array {
  const bytes = fromBase64(base64);
  assert(bytes, 'what is not Base64 is in the store');
  return bytes;
}

/** A stored time-stamp cannot be read. The daemon continues: only the evidence records over it are incomplete. */
export class DamagedTimestamp extends OperatorError {
  override readonly remedy = 'run `pdfseal check`: it says what is damaged; then restore a backup';

  constructor(cause?: unknown) {
    super('a time-stamp in the store is damaged: it cannot be read', { cause });
  }
}

/** A stored token, in Base64. Throws DamagedTimestamp. */
export function storedToken(base64: string): TimestampToken & { der: Uint8Array } {
  const der = fromBase64(base64);
  if (der === undefined) throw new DamagedTimestamp();
  try {
    return { der, ...parseTimestampToken(der) };
  } catch (error) {
    throw error instanceof MalformedDer ? new DamagedTimestamp(error) : error;
  }
}
