import { HASH_BYTES, TILE_WIDTH, type Tile, tilePath, tileWidth } from '../../../log/tiles.ts';
import { appendLeaves, emptyEdge, leafHash } from '../../../log/tree.ts';
import {
  counterKey,
  JOB_KEY_BYTES,
  parseCounterKey,
  parseJobKey,
  parseTileKey,
  tileKey,
} from '../keyLayout.ts';
import { logSize, readLeaves } from '../logRecords.ts';
import { encodeSealed, parseLeaf, parseOutcome } from '../records.ts';
import { eachKey, type Facts, type Flaw, inHex, judge } from './flaw.ts';

/** Leaves hashed in one go: some milliseconds. */
const PAGE_LEAVES = 4096;

/** The tiles of the tree that the leaves make (C2SP tlog-tiles), and no others. */
export function* checkTiles({ databases }: Facts): Iterable<Flaw[]> {
  const { tiles: database } = databases;
  const nameOf = (level: number, index: number) => tilePath({ level, index, width: TILE_WIDTH });
  yield* eachKey(database, (key) => {
    const tile = parseTileKey(key);
    if (tile !== undefined && tileWidth(tile.level, tile.index, logSize(databases)) > 0) return [];
    const entry = tile ? nameOf(tile.level, tile.index) : inHex(key);
    return judge({ index: 'tiles', database, key, entry }, undefined);
  });
  const flawOf = ({ level, index, hashes }: Tile) =>
    judge({ index: 'tiles', database, key: tileKey(level, index), entry: nameOf(level, index) }, hashes);
  for (let edge = emptyEdge(); ; ) {
    const leaves = readLeaves(databases, edge.size, edge.size + PAGE_LEAVES);
    const grown = appendLeaves(
      edge,
      leaves.map(({ data }) => leafHash(data)),
    );
    edge = grown.edge;
    const full = grown.tiles.filter(({ hashes }) => hashes.length === TILE_WIDTH * HASH_BYTES);
    if (edge.size < logSize(databases)) {
      yield full.flatMap(flawOf);
      continue;
    }
    const partial = edge.partial.flatMap((hashes, level) => {
      const index = Math.floor(edge.size / TILE_WIDTH ** (level + 1));
      return hashes.length === 0 ? [] : [{ level, index, hashes }];
    });
    yield [...full, ...partial].flatMap(flawOf);
    return;
  }
}

/** Every leaf's job is sealed as that leaf, and no other job is sealed. How jobs failed follows from nothing else, and is left alone. */
export function* checkOutcomes(facts: Facts): Iterable<Flaw[]> {
  const { leaves, outcomes: database } = facts.databases;
  const leafAt = (leafIndex: number) => {
    if (!Number.isSafeInteger(leafIndex)) return undefined;
    const bytes = leaves.getBinary(counterKey(leafIndex));
    return bytes && parseLeaf(bytes).jobId;
  };
  const isSealedAs = (key: Uint8Array) => {
    const bytes = database.getBinary(key);
    const outcome = bytes && parseOutcome(bytes);
    return outcome?.kind === 'sealed' ? outcome.leafIndex : undefined;
  };
  yield* eachKey(leaves, (leafKey) => {
    const leafIndex = parseCounterKey(leafKey);
    const bytes = leaves.getBinary(leafKey);
    if (bytes === undefined) return [];
    const key = Buffer.from(bytes.subarray(0, JOB_KEY_BYTES));
    const flaws = judge(
      { index: 'outcomes', database, key, entry: parseJobKey(key) },
      encodeSealed(leafIndex),
    );
    if (flaws.length > 0) facts.correct(key, { kind: 'sealed', leafIndex });
    return flaws;
  });
  yield* eachKey(database, (key) => {
    const leafIndex = isSealedAs(key);
    const isRight = leafIndex === undefined || leafAt(leafIndex) === parseJobKey(key);
    if (isRight || facts.isCorrected(key)) return [];
    facts.correct(key, undefined);
    return judge({ index: 'outcomes', database, key, entry: parseJobKey(key) }, undefined);
  });
}
