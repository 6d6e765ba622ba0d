/**
 * The lowest rung of the ladder (see `sandbox.ts`): SoftHSM tokens, each a partition of its own, and the parts of the daemon that
 * sign with them, in the process of the test.
 */
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Logger, pino } from 'pino';
import type { Test } from 'tap';
import { initKey } from '../../src/kms/keyOperations.ts';
import type { PartitionState } from '../../src/kms/partitionStatus.ts';
import {
  openPartitions,
  type PartitionOptions,
  type Partitions,
  type PartitionsOptions,
} from '../../src/kms/partitions.ts';
import type { LogKey, SignatureAlgorithm } from '../../src/log/verifierKey.ts';
import { openSigning, type Signing, type SigningOptions } from '../../src/seal/signing.ts';
import type { Store } from '../../src/store/store.ts';
import { copyPrepared } from './prepared.ts';
import { until } from './until.ts';

const MODULES = ['/usr/lib/softhsm/libsofthsm2.so', '/usr/lib/x86_64-linux-gnu/softhsm/libsofthsm2.so'];

/** Signers are started hundreds of times, and most of their start goes into reading the same sources. */
const NODE_COMPILE_CACHE = fileURLToPath(new URL('../../node_modules/.cache/compiled', import.meta.url));

const TOKEN_SOURCES = ['src/kms', 'package-lock.json', 'test/support/partitions.ts'];

export interface TokenNames {
  /** Label of the token, and name of its folder below `dir`. */
  label: string;
  region: string;
  keyLabel: string;
}

/**
 * A throw-away partition in `<dir>/<label>`: a configuration and token folder of its own, so that partitions are
 * independent of each other, and a PIN, random if none is given, in a file of mode 0600. Has no key yet. Removing `dir` removes all of it.
 */
export function makeToken(
  dir: string,
  names: TokenNames,
  pin = randomBytes(24).toString('hex'),
): PartitionOptions {
  const home = join(dir, names.label);
  mkdirSync(join(home, 'tokens'), { recursive: true, mode: 0o700 });
  const partition = tokenIn(dir, names);
  writeFileSync(partition.pinFile, `${pin}\n`, { mode: 0o600 });
  // On the command line, where any user sees it, a PIN is acceptable for a throw-away token only.
  const pins = ['--pin', pin, '--so-pin', randomBytes(12).toString('hex')];
  execFileSync('softhsm2-util', ['--init-token', '--free', '--label', names.label, ...pins], {
    env: { PATH: '/usr/bin:/bin', ...partition.environment },
    stdio: 'pipe',
  });
  return partition;
}

/** A partition like that of {@link makeToken}, with its key. */
export async function makeTokenWithKey(
  dir: string,
  names: TokenNames,
  algorithm: SignatureAlgorithm,
): Promise<{ token: PartitionOptions; key: LogKey }> {
  const make = async (folder: string) => {
    const key = await initKey(makeToken(folder, names), algorithm);
    writeFileSync(join(folder, names.label, 'key.json'), JSON.stringify(key));
  };
  await copyPrepared(`token ${algorithm} ${JSON.stringify(names)}`, dir, make, TOKEN_SOURCES);
  const key = JSON.parse(readFileSync(join(dir, names.label, 'key.json'), 'utf8')) as LogKey;
  return { token: tokenIn(dir, names), key };
}

/** The partition whose token is in `<dir>/<label>`, wherever that was made. */
export function tokenIn(dir: string, { label, region, keyLabel }: TokenNames): PartitionOptions {
  const home = join(dir, label);
  const conf = join(home, 'softhsm2.conf');
  writeFileSync(conf, `directories.tokendir = ${join(home, 'tokens')}\nobjectstore.backend = file\n`);
  const environment = { SOFTHSM2_CONF: conf, NODE_COMPILE_CACHE };
  return {
    region,
    module: findModule(),
    tokenLabel: label,
    keyLabel,
    pinFile: join(home, 'pin'),
    refusedPins: join(home, 'refused-pins'),
    environment,
  };
}

/** Path of the SoftHSM module; throws with the package to install when there is none. */
export function findModule(): string {
  const module = MODULES.find((path) => existsSync(path));
  if (module === undefined) throw new Error('SoftHSM is not installed: apt-get install softhsm2');
  return module;
}

/** What a log signs: the text of a checkpoint. */
export const CHECKPOINT = `seal.example.com/test/2026\n1\n${Buffer.alloc(32, 7).toString('base64')}\n`;
export const MESSAGE = Buffer.from(CHECKPOINT);
/** For waits that end by themselves. */
export const NEVER = new AbortController().signal;

/** As configured by default, with a time-out that no busy machine reaches. */
export const SETTINGS = { sessions: 2, duties: { anything: true as const }, signTimeoutMs: 60_000 };

export interface Site {
  tokens: PartitionOptions[];
  keys: LogKey[];
  logger: Logger;
  /** Everything logged so far. */
  log(): string;
  open(options?: Partial<PartitionsOptions>): Promise<Partitions>;
  openSigning(store: Store, options?: Partial<SigningOptions>): Promise<Signing>;
}

/** One region and token per algorithm, with its key made; what was opened is closed with the test. */
export async function makeSite(t: Test, ...algorithms: SignatureAlgorithm[]): Promise<Site> {
  const dir = t.testdir();
  const lines: string[] = [];
  const logger = pino({ level: 'trace' }, { write: (line: string) => void lines.push(line) });
  const made = await Promise.all(
    algorithms.map((algorithm, index) =>
      makeTokenWithKey(
        dir,
        { label: `vault-${index}`, region: `region-${index}`, keyLabel: 'log' },
        algorithm,
      ),
    ),
  );
  const tokens = made.map(({ token }) => token);
  const keys = made.map(({ key }) => key);
  const open = async (options: Partial<PartitionsOptions> = {}) => {
    const defaults = { ...SETTINGS, partitions: tokens, keys, quorum: { needed: 1 }, logger };
    const partitions = await openPartitions({ ...defaults, ...options });
    t.teardown(() => partitions.close());
    return partitions;
  };
  const openSigningOn = async (store: Store, options: Partial<SigningOptions> = {}) => {
    const onFatal = (error: unknown) => t.fail(String(error));
    const defaults = { ...SETTINGS, store, partitions: tokens, clock: Date.now, logger, onFatal };
    const signing = await openSigning({ ...defaults, ...options });
    t.teardown(() => signing.close());
    return signing;
  };
  return { tokens, keys, logger, log: () => lines.join(''), open, openSigning: openSigningOn };
}

/** The element that must be there. */
export function item<T>(list: readonly T[], index: number): T {
  const found = list[index];
  if (found === undefined) throw new Error(`nothing at ${index}`);
  return found;
}

export function pidOf(partitions: Pick<Partitions, 'status'>, index = 0): number {
  const { pid } = item(partitions.status(), index);
  if (pid === undefined) throw new Error('no child');
  return pid;
}

export function isAlive(pid: number): boolean {
  return existsSync(`/proc/${pid}`);
}

export function statesOf(partitions: Pick<Partitions, 'status'>): PartitionState[] {
  return partitions.status().map(({ state }) => state);
}

export async function allReady(partitions: Pick<Partitions, 'status'>): Promise<void> {
  await until('every partition ready', () => statesOf(partitions).every((state) => state === 'ready'));
}

/** The regions that sign now. */
export async function signers(partitions: Partitions): Promise<string[]> {
  return (await partitions.sign(CHECKPOINT)).map(({ region }) => region);
}
