/**
 * What a disk can hold after a power cut, by what was recorded: everything that was flushed, and any part of what was not. A write can be
 * torn at the sectors of a disk; a name can be there without the bytes of its file, and the other way round.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Change, contentOf, type Inode, type Recording } from './trace.ts';

/** A cut just before that line of the trace, and the part of each unflushed change that reached the disk. */
export interface Cut {
  line: number;
  /** In words, for a report. */
  kept: string;
  survives: Survival;
}

/** Of an unflushed change: all (true), nothing (false), or whether a sector is there. */
type Survival = (
  change: Change,
  nth: number,
) => boolean | { sectorBytes: number; isThere(sector: number): boolean };

/** So few unflushed changes can be there and not be there in every combination. */
const EXHAUSTIVE_CHANGES_MAX = 4;

/**
 * The lines before which most was not yet on disk: those at which a flush ends, and the end. What else can be cut is a part of these, or
 * has the same state and less that was said.
 */
export function cutLines({ changes }: Recording): number[] {
  const flushes = changes.flatMap(({ flushed }) => flushed ?? []);
  const last = Math.max(0, ...changes.map(({ end }) => end));
  return [...new Set([...flushes, last + 1])].sort((a, b) => a - b);
}

/** The changes that are neither sure to be on disk nor sure not to be. */
export function pendingAt({ changes }: Recording, line: number): Change[] {
  return changes.filter(({ begin, flushed = Number.POSITIVE_INFINITY }) => begin < line && flushed >= line);
}

/** Ways to cut at a line: every combination where there are few changes; otherwise the extremes, each one alone, and some by chance. */
export function* cutsAt(
  recording: Recording,
  line: number,
  random: () => number,
  chances: number,
): Iterable<Cut> {
  const count = pendingAt(recording, line).length;
  const cut = (kept: string, survives: Survival): Cut => ({ line, kept, survives });
  if (count <= EXHAUSTIVE_CHANGES_MAX) {
    for (let mask = 0; mask < 2 ** count; mask++)
      yield cut(
        `${mask.toString(2).padStart(count, '0')} of ${count} changes`,
        (_, nth) => (mask >> nth) % 2 === 1,
      );
  } else {
    yield cut('nothing', () => false);
    yield cut('everything', () => true);
    const one = Math.floor(random() * count);
    yield cut(`change ${one} of ${count} alone`, (_, nth) => nth === one);
    yield cut(`everything but change ${one} of ${count}`, (_, nth) => nth !== one);
  }
  if (count === 0) return;
  for (let chance = 0; chance < chances; chance++) {
    const sectorBytes = random() < 0.5 ? 512 : 4096;
    const share = random();
    const seed = Math.floor(random() * 2 ** 31);
    const luck = (n: number) => ((Math.imul(n + seed, 0x9e3779b1) ^ seed) >>> 8) / 2 ** 24 < share;
    yield cut(`${Math.round(share * 100)} % of sectors of ${sectorBytes} bytes`, (change, nth) =>
      change.write ? { sectorBytes, isThere: (sector) => luck(nth * 4099 + sector) } : luck(nth * 4099),
    );
  }
}

/** Writes the files as they are after a cut into an empty folder. */
export function writeImage({ root, changes }: Recording, { line, survives }: Cut, into: string): void {
  const byInode = new Map<Inode, Change[]>();
  const names = new Map<Inode, Map<string, Inode>>();
  const namesOf = (folder: Inode) => {
    const known = names.get(folder) ?? new Map(folder.names);
    names.set(folder, known);
    return known;
  };
  let nth = 0;
  for (const change of changes.filter(({ begin }) => begin < line)) {
    const isSure = (change.flushed ?? Number.POSITIVE_INFINITY) < line;
    const part = isSure || survives(change, nth++);
    if (part === false) continue;
    for (const { folder, name, inode } of change.names ?? []) {
      if (inode) namesOf(folder).set(name, inode);
      else namesOf(folder).delete(name);
    }
    const whole = part === true ? [change] : sectorsOf(change, part);
    byInode.set(change.inode, [...(byInode.get(change.inode) ?? []), ...whole]);
  }
  const write = (folder: Inode, path: string) => {
    mkdirSync(path, { recursive: true });
    for (const [name, inode] of namesOf(folder)) {
      if (inode.names) write(inode, join(path, name));
      else writeFileSync(join(path, name), contentOf(inode, byInode.get(inode) ?? []));
    }
  };
  write(root, into);
}

/** The sectors of a write that are there, as writes of their own. */
function sectorsOf(
  change: Change,
  { sectorBytes, isThere }: Exclude<ReturnType<Survival>, boolean>,
): Change[] {
  const { offset = 0, data = Buffer.alloc(0) } = change.write ?? {};
  const found: Change[] = [];
  for (let start = 0; start < data.length; ) {
    const sector = Math.floor((offset + start) / sectorBytes);
    const end = Math.min(data.length, (sector + 1) * sectorBytes - offset);
    if (isThere(sector))
      found.push({ ...change, write: { offset: offset + start, data: data.subarray(start, end) } });
    start = end;
  }
  return found;
}
