import { existsSync } from 'node:fs';
import { type Logger, pino } from 'pino';
import type { Test } from 'tap';
import {
  openPartitions,
  type PartitionOptions,
  type Partitions,
  type PartitionsOptions,
} from '../../src/kms/partitions.ts';
import type { PartitionState } from '../../src/kms/signerFailure.ts';
import type { LogKey, SignatureAlgorithm } from '../../src/log/verifierKey.ts';
import { openSigning, type Signing, type SigningOptions } from '../../src/seal/signing.ts';
import type { Store } from '../../src/store/store.ts';
import { makeTokenWithKey } from './softhsm.ts';
import { until } from './until.ts';

/** What a log signs: the text of a checkpoint. */
export const MESSAGE = Buffer.from('seal.example.com/test/2026\n1\nq83vEjRWeJA=\n');
/** For waits that end by themselves. */
export const NEVER = new AbortController().signal;

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
    const defaults = { partitions: tokens, keys, quorum: { needed: 1 }, signTimeoutMs: 60_000, logger };
    const partitions = await openPartitions({ ...defaults, ...options });
    t.teardown(() => partitions.close());
    return partitions;
  };
  const openSigningOn = async (store: Store, options: Partial<SigningOptions> = {}) => {
    const onFatal = (error: unknown) => t.fail(String(error));
    const defaults = { store, partitions: tokens, signTimeoutMs: 60_000, clock: Date.now, logger, onFatal };
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
  return (await partitions.sign(MESSAGE)).map(({ region }) => region);
}
