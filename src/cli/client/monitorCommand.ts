import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { unusable, writeFileAtomically } from '../../base/atomicFile.ts';
import { ownProcess } from '../../base/env.ts';
import { OperatorError } from '../../base/errors.ts';
import { remember } from '../../base/remember.ts';
import type { Checkpoint } from '../../log/checkpoint.ts';
import { HASH_BYTES, type ReadTile, tilePath, tileWidth } from '../../log/tiles.ts';
import { parseWitnessPolicy, type WitnessPolicy, WitnessPolicyError } from '../../log/witnessPolicy.ts';
import { BUNDLE_LENGTH_MAX } from '../../manifest/bundle.ts';
import { parseTrust, type TrustFile } from '../../manifest/trustFile.ts';
import { whyNotGrown, whyNotThere, whyNotWitnessed } from '../../prove/trail/following.ts';
import {
  type EpochCheckpoint,
  epochContradiction,
  readEarlier,
  signedCheckpoint,
} from '../../prove/trail/history.ts';
import { parseReceiptJson, RECEIPT_BYTES_MAX } from '../../prove/verify/receiptText.ts';
import { command, type Given, option } from '../command.ts';
import { EXIT } from '../exit.ts';
import { readTextFile } from '../files.ts';
import { parseLifetimeArgument, TRUST } from '../options.ts';
import { orUndecided } from '../report.ts';
import { print, printResult, showCount } from '../terminal.ts';
import { ApiClient } from './apiClient.ts';
import {
  keepContradiction,
  keepUnproven,
  readUnproven,
  removeUnproven,
  type Shown,
} from './keptCheckpoints.ts';
import { REACH_OPTIONS, reachMisuse, reachOf, readOptionalApiKey } from './reachOptions.ts';

const MONITOR_OPTIONS = [
  ...REACH_OPTIONS,
  TRUST,
  option('--state <path>', 'file in which the command keeps the newest checkpoint that it verified', {
    required: true,
  }),
  option('--first', 'start without a state file, from the current checkpoint of the log'),
  option(
    '--policy <file>',
    'witness policy: which witnesses must have cosigned a checkpoint of the log (default: that of the trust file)',
  ),
  option('--max-age <duration>', 'how old their cosignatures may be, such as 48h (default: 24h)', {
    parse: parseLifetimeArgument,
  }),
  option(
    '--receipts <folder>',
    'folder with receipts, *.receipt.json, and bundles, *.bundle.json, which the log must contain',
  ),
] as const;

/** The findings of one run: the state of the log, and its faults. */
interface Followed {
  now: Checkpoint;
  earlier: Checkpoint | undefined;
  receipts: number | undefined;
  problems: string[];
  /** Receipts that nobody can judge. */
  doubts: string[];
}

/** Generous: a log requests cosignatures again after an hour at the latest. */
const AGE_MS_MAX = 24 * 3_600_000;
const ANSWER_MS_MAX = 60_000;
/** More than any checkpoint or tile has. */
const ANSWER_BYTES_MAX = 1 << 20;
/** Full tiles have 8 KiB. */
const TILES_KEPT = 2_048;

export const monitorCommand = command('monitor', {
  description:
    'Follows a log from outside, for example every hour by cron: fetches its newest checkpoint, verifies who signed it, and proves from ' +
    'its tiles that the tree contains the whole tree of the last run. If the trust file or --policy names witnesses, they must have ' +
    'cosigned a checkpoint of the same tree, and not long ago. With --receipts, also proves that the log still contains every ' +
    'receipt of a folder. A log that forgot or changed anything is found out.',
  options: MONITOR_OPTIONS,
  exit: {
    0: 'good: the log has only grown',
    1: 'bad: the log contradicts what it showed before, or lacks a receipt; keep the state file as evidence',
    2: 'undecided: the log cannot be reached, its witnesses have not cosigned, a receipt cannot be judged, or a file cannot be read',
  },
  examples: [
    'pdfseal monitor --url https://seal.example.com --key-file auditor.key --trust trust.json --state seal.checkpoint --first',
    'pdfseal monitor --url https://seal.example.com --key-file auditor.key --trust trust.json --state seal.checkpoint --receipts archive/ --json',
  ],
  misuse: reachMisuse,
  run: (options) =>
    orUndecided(async () => {
      const followed = await follow(options);
      const { now, earlier, receipts, problems, doubts } = followed;
      const outcome = outcomeOf(followed);
      ownProcess().exitCode = { good: EXIT.ok, bad: EXIT.failed, unknown: EXIT.unknown }[outcome];
      const found = {
        outcome,
        log_origin: now.origin,
        tree_size: now.treeSize,
        earlier_tree_size: earlier?.treeSize,
        receipts,
        problems,
        ...(doubts.length > 0 && { doubts }),
      };
      printResult(found, () => printFollowed(followed));
    }),
});

async function follow(options: Given<typeof MONITOR_OPTIONS>): Promise<Followed> {
  const { trust: trustFile, state, first, receipts, policy: policyFile, maxAge, ...reach } = options;
  const trust = parseTrust(readTextFile(trustFile, RECEIPT_BYTES_MAX));
  const earlier = readState(state, first ?? false, trust);
  const paths = receipts === undefined ? undefined : receiptsIn(receipts);
  const log = new ApiClient(reach.url, readOptionalApiKey(reach), reachOf(reach));
  const shown: Shown[] = [await showAs('checkpoint', log, trust)];
  const [now] = shown as [Shown];
  const known = [
    ...(earlier === undefined ? [] : [{ ...earlier, file: state }]),
    ...readUnproven(state, trust),
  ];
  const stranger = known.find(({ origin }) => origin !== now.origin);
  if (stranger !== undefined)
    throw new OperatorError(
      `${stranger.file} is of another log, ${stranger.origin}: each log needs a state file of its own`,
    );
  const policy = policyOf(now.origin, policyFile, trust);
  if (policy === undefined && maxAge !== undefined)
    throw new OperatorError('--max-age needs a policy that requires witnesses: add --policy');
  const readTile = tilesOf(log, now.treeSize);
  const bad = (problem: string): Followed => ({
    ...{ now, earlier, receipts: undefined },
    ...{ problems: [problem], doubts: [] },
  });
  try {
    // The largest first: a tree of this size, or a larger one, is compared without any tile.
    for (const one of known.toSorted((a, b) => b.treeSize - a.treeSize)) {
      const problem = (await whyNotGrown(one, now, readTile)) ?? epochContradiction(one, now);
      if (problem !== undefined) return bad(`${problem}. ${keepContradiction(state, one.file, shown)}`);
    }
    if (policy !== undefined) {
      const witnessed = await showAs('checkpoint/witnessed', log, trust);
      shown.push(witnessed);
      const problem = await whyNotOneLog(now, witnessed, log);
      if (problem !== undefined) return bad(`${problem}. ${keepContradiction(state, undefined, shown)}`);
      const fault = whyNotWitnessed(witnessed.note, policy, Date.now(), maxAge ?? AGE_MS_MAX);
      if (fault !== undefined) throw new OperatorError(fault);
    }
  } catch (error) {
    if (!(error instanceof OperatorError)) throw error;
    const { cause, remedy } = error;
    throw new OperatorError(`${error.message}. ${keepUnproven(state, shown)}`, {
      cause,
      remedy,
    });
  }
  writeFileAtomically(state, now.note);
  removeUnproven(state);
  return { now, earlier, receipts: paths?.length, ...(await missing(paths ?? [], now, trust, readTile)) };
}

function outcomeOf({ problems, doubts }: Pick<Followed, 'problems' | 'doubts'>): 'good' | 'bad' | 'unknown' {
  if (problems.length > 0) return 'bad';
  return doubts.length > 0 ? 'unknown' : 'good';
}

/** Returns a checkpoint that enough keys of the log signed. Throws OperatorError for any other answer: it proves nothing. */
async function showAs(
  path: 'checkpoint' | 'checkpoint/witnessed',
  log: ApiClient,
  trust: TrustFile,
): Promise<Shown> {
  const note = (await fetchFrom(log, path)).toString('utf8');
  const signed = signedCheckpoint(note, trust.logs);
  if (typeof signed === 'string')
    throw new OperatorError(`what the log shows as its ${path} proves nothing: ${signed}`);
  return { ...signed, note };
}

/** The witnesses that must have cosigned; undefined if none must. */
function policyOf(origin: string, file: string | undefined, trust: TrustFile): WitnessPolicy | undefined {
  const trusted = trust.logs.find((log) => log.origin === origin)?.witnessPolicy;
  const text = file === undefined ? trusted : readTextFile(file, RECEIPT_BYTES_MAX);
  if (text === undefined) return undefined;
  try {
    const policy = parseWitnessPolicy(text, origin);
    return policy.quorum === undefined ? undefined : policy;
  } catch (cause) {
    if (!(cause instanceof WitnessPolicyError)) throw cause;
    throw new OperatorError(`${file}: ${cause.message}`, { cause });
  }
}

/** The reason why the two checkpoints that the log shows do not belong to one tree. The log can grow between the two answers. */
async function whyNotOneLog(now: Shown, witnessed: Shown, log: ApiClient): Promise<string | undefined> {
  if (witnessed.origin !== now.origin)
    throw new OperatorError(
      `the checkpoint that the log shows as witnessed is of another log, ${witnessed.origin}`,
    );
  const [smaller, larger] = witnessed.treeSize > now.treeSize ? [now, witnessed] : [witnessed, now];
  return (
    (await whyNotGrown(smaller, larger, tilesOf(log, larger.treeSize))) ?? epochContradiction(smaller, larger)
  );
}

/** The checkpoint of the last run; undefined in the first run. */
function readState(path: string, isFirst: boolean, trust: TrustFile): EpochCheckpoint | undefined {
  if (isFirst && existsSync(path)) throw new OperatorError(`${path} exists already: leave out --first`);
  if (isFirst) return undefined;
  if (!existsSync(path))
    throw new OperatorError(
      `there is no ${path}, so the earlier state of the log is unknown. Restore the file; for the first run, add --first`,
    );
  return readEarlier({ text: readTextFile(path, RECEIPT_BYTES_MAX), from: path }, trust);
}

/** Paths of the receipts in a folder. Throws OperatorError for a folder without receipts: nothing would be proved about it. */
function receiptsIn(folder: string): string[] {
  let names: string[];
  try {
    names = readdirSync(folder, { recursive: true, encoding: 'utf8' });
  } catch (cause) {
    throw unusable('read', folder, cause);
  }
  const paths = names
    .filter((name) => /(^|\.)(receipt|bundle)\.json$/.test(name))
    .map((name) => join(folder, name));
  if (paths.length > 0) return paths.sort();
  throw new OperatorError(
    `${folder} has no receipt, *.receipt.json or *.bundle.json: name the folder of your receipts, or leave out --receipts`,
  );
}

/** The fault of each receipt that the log does not contain, and the reason why others cannot be judged. */
async function missing(
  paths: readonly string[],
  now: Checkpoint,
  trust: TrustFile,
  readTile: ReadTile,
): Promise<Pick<Followed, 'problems' | 'doubts'>> {
  const found: Pick<Followed, 'problems' | 'doubts'> = { problems: [], doubts: [] };
  const progress = showCount(paths.length);
  for (const [done, path] of paths.entries()) {
    const receipt = parseReceiptJson(readTextFile(path, BUNDLE_LENGTH_MAX));
    const one = await whyNotThere(receipt, now, trust, readTile);
    if (one !== undefined) found[one.isUndecided ? 'doubts' : 'problems'].push(`${path}: ${one.why}`);
    progress.update(done + 1, 0);
  }
  progress.stop();
  return found;
}

function printFollowed({ now, earlier, receipts, ...found }: Followed): void {
  const { problems, doubts } = found;
  const before = earlier === undefined ? 'first run' : `${earlier.treeSize} in the last run`;
  print(`${now.origin}: ${now.treeSize} leaves, ${before}`);
  if (receipts !== undefined)
    print(`${receipts - problems.length - doubts.length} of ${receipts} receipts are in the log`);
  for (const line of [...problems, ...doubts]) print(line);
  print({ good: 'good', bad: 'bad', unknown: 'could not tell' }[outcomeOf(found)]);
}

/** Fetches an answer of the log; it is not trusted. Throws OperatorError if the log does not serve it. */
async function fetchFrom(log: ApiClient, path: string): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  const save = async (body: AsyncIterable<Buffer>) => {
    for await (const chunk of body) {
      bytes += chunk.length;
      if (bytes > ANSWER_BYTES_MAX) throw new OperatorError(`the log answered /v1/log/${path} without end`);
      chunks.push(chunk);
    }
  };
  const request = { method: 'GET', path: `/log/${path}`, save } as const;
  const answer = await log.send(request, AbortSignal.timeout(ANSWER_MS_MAX)).catch((cause: Error) => {
    if (cause instanceof OperatorError) throw cause;
    throw new OperatorError(`the log cannot be reached: ${cause.message}`, { cause });
  });
  if (answer.status === 200) return Buffer.concat(chunks);
  throw new OperatorError(`the log answered ${answer.status} to /v1/log/${path}`, {
    ...(answer.status === 401 && {
      remedy: 'the log is not public: give the API key of a client, in PDFSEAL_API_KEY or --key-file',
    }),
  });
}

/** The tiles of the tree of that size. */
function tilesOf(log: ApiClient, treeSize: number): ReadTile {
  const read = remember(TILES_KEPT, (path) => fetchFrom(log, path));
  return async (level, index) => {
    const width = tileWidth(level, index, treeSize);
    const hashes = await read(tilePath({ level, index, width }));
    if (hashes.length === width * HASH_BYTES) return hashes;
    throw new OperatorError(
      `the log answered a tile with ${hashes.length} bytes in the place of ${width * HASH_BYTES}`,
    );
  };
}
