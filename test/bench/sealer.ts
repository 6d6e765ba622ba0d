import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { initKey } from '../../src/kms/keyOperations.ts';
import type { PartitionOptions } from '../../src/kms/partitions.ts';
import type { LogKey } from '../../src/log/verifierKey.ts';
import { createStore } from '../../src/store/lmdb/open.ts';
import { makeToken } from '../support/partitions.ts';
import { firstEpoch } from '../support/sealing.ts';
import type { SealerOrder, SealerResult } from './sealerProcess.ts';
import { medianOf } from './stats.ts';
import { nextMessage, stop, type Workspace } from './workspace.ts';

export interface SealerPlan {
  /** Numbers of jobs kept between acceptance and outcome. */
  inFlight: number[];
  rounds: number;
  roundMs: number;
  /** How many receipts the full store holds before its first round. */
  entries: number;
}

/** Medians of the rounds. */
export interface SealerRow {
  inFlight: number;
  empty: SealerResult;
  full: SealerResult;
}

export interface SealerReport {
  rows: SealerRow[];
  entries: number;
  /** Of the full store, before its first round. */
  storeBytes: number;
  /** How fast the full store was filled, step by step. */
  fill: FillStep[];
}

export interface FillStep {
  /** In the store after this step. */
  entries: number;
  entriesPerSecond: number;
}

const FILL_IN_FLIGHT = 8192;
const FILL_STEP_ENTRIES = 100_000;

/**
 * Log entries per second and time from submission to receipt with no HTTP around it, time-stamps on: on a fresh store and on one that holds
 * `plan.entries` receipts, in turns, each round in a fresh process.
 */
export async function benchSealer(
  plan: SealerPlan,
  workspace: Workspace,
  progress: (line: string) => void,
): Promise<SealerReport> {
  const stores = await StoreMaker.open(workspace);
  const full = await stores.make('full');
  const steps = await stores.use(full, (ask) => fill(plan.entries, ask, progress));
  const storeBytes = folderBytes(full);

  const samples: { store: 'empty' | 'full'; inFlight: number; result: SealerResult }[] = [];
  const measure = (store: 'empty' | 'full', path: string) =>
    stores.use(path, async (ask) => {
      for (const inFlight of plan.inFlight) {
        await ask({ inFlight, durationMs: plan.roundMs / 4 });
        samples.push({ store, inFlight, result: await ask({ inFlight, durationMs: plan.roundMs }) });
      }
    });
  for (let round = 1; round <= plan.rounds; round++) {
    progress(`sealer: round ${round} of ${plan.rounds}`);
    await measure('empty', await stores.make(`empty-${round}`));
    await measure('full', full);
  }

  const medianFor = (store: 'empty' | 'full', inFlight: number) =>
    medianOf(
      samples.filter((one) => one.store === store && one.inFlight === inFlight).map((one) => one.result),
    );
  const rows = plan.inFlight.map((inFlight) => ({
    inFlight,
    empty: medianFor('empty', inFlight),
    full: medianFor('full', inFlight),
  }));
  return { rows, entries: plan.entries, storeBytes, fill: steps };
}

export type Ask = (order: SealerOrder) => Promise<SealerResult>;

/** Fills a store by sealing jobs, as many at a time as make full batches. */
export async function fill(entries: number, ask: Ask, progress: (line: string) => void): Promise<FillStep[]> {
  const steps: FillStep[] = [];
  for (let done = 0; done < entries; ) {
    const step = Math.min(FILL_STEP_ENTRIES, entries - done);
    const { entriesPerSecond, treeSize } = await ask({ inFlight: FILL_IN_FLIGHT, entries: step });
    done = treeSize;
    steps.push({ entries: done, entriesPerSecond });
    progress(`sealer: filling, ${done} of ${entries} receipts, ${Math.round(entriesPerSecond)}/s`);
  }
  return steps;
}

/** Makes stores of one log's keys, held by two partitions, of which one also holds a time-stamping key, and runs sealers on them. */
export class StoreMaker {
  readonly #workspace: Workspace;
  readonly #tokens: PartitionOptions[];
  readonly #keys: LogKey[];

  private constructor(workspace: Workspace, tokens: PartitionOptions[], keys: LogKey[]) {
    this.#workspace = workspace;
    this.#tokens = tokens;
    this.#keys = keys;
  }

  static async open(workspace: Workspace, name = 'partitions'): Promise<StoreMaker> {
    const dir = workspace.folder(name);
    const tokens = ['north', 'south'].map((region) =>
      makeToken(dir, { label: `bench-${region}`, region, keyLabel: 'log' }),
    );
    const keys = await Promise.all(tokens.map((token) => initKey(token, 'ed25519')));
    for (const token of tokens.slice(0, 1)) await initKey({ ...token, keyLabel: 'timestamp' }, 'ecdsa-p256');
    return new StoreMaker(workspace, tokens, keys);
  }

  /** A new store; returns its folder. */
  async make(name: string): Promise<string> {
    const path = join(this.#workspace.dir, name);
    await createStore({
      path,
      identity: {
        environment: 'bench',
        logOrigin: 'bench.example/log',
        createdAt: Date.now(),
      },
      epoch: firstEpoch(this.#keys, { quorum: { needed: 2 }, timestamps: 'required' }),
    });
    return path;
  }

  /** Runs a sealer process on the store for as long as `work` lasts; its client is told at `webhookUrl`, if there is one. */
  async use<T>(path: string, work: (ask: Ask) => Promise<T>, webhookUrl = ''): Promise<T> {
    const args = [path, JSON.stringify(this.#tokens), webhookUrl];
    const child = this.#workspace.start('sealerProcess.ts', args);
    await nextMessage(child);
    try {
      return await work((order) => {
        child.send(order);
        return nextMessage<SealerResult>(child);
      });
    } finally {
      await stop(child);
    }
  }
}

function folderBytes(path: string): number {
  return readdirSync(path).reduce((sum, name) => sum + statSync(join(path, name)).size, 0);
}
