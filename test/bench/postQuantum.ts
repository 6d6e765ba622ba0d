import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { makeSoftwareKey } from '../../src/kms/softwareKey.ts';
import { makeNssToken, nssTable } from '../support/nss.ts';
import { number, ratio, table } from './format.ts';
import { type Load, openLoad, type Server } from './http.ts';
import { startDaemon, UNLIMITED } from './servers.ts';
import { median } from './stats.ts';
import type { Workspace } from './workspace.ts';

export interface PostQuantumPlan {
  connections: number;
  documentBytes: number;
  rounds: number;
  roundMs: number;
}

export interface PostQuantumRow {
  /** Where the post-quantum key is. */
  key: string;
  /** Medians of the rounds. */
  withoutPerSecond: number;
  withPerSecond: number;
  /** Median of the quotients within a round. */
  toWithout: number;
}

export interface PostQuantumReport extends PostQuantumPlan {
  rows: PostQuantumRow[];
}

/** What a post-quantum signature on each checkpoint costs: a daemon with it beside one without, in turns. Both have two partitions of SoftHSM. */
export async function benchPostQuantum(
  plan: PostQuantumPlan,
  workspace: Workspace,
  progress: (line: string) => void,
): Promise<PostQuantumReport> {
  const load = openLoad(workspace);
  const regions = ['north', 'south'];
  const without = await startDaemon(workspace, { regions, quorum: 2 });
  const file = join(workspace.folder('software'), 'key');
  writeFileSync(file, makeSoftwareKey(), { mode: 0o600 });
  const keys = {
    'a file': `software_key_file = "${file}"`,
    'NSS softoken': nssTable(makeNssToken(workspace.folder('softoken'))),
  };
  const rows: PostQuantumRow[] = [];
  for (const [key, place] of Object.entries(keys)) {
    progress(`postquantum: a key in ${key}`);
    const own = `[[kms.partitions]]\nregion = "north"\nkey_label = "pq"\nalgorithm = "mldsa44"\n${place}\n`;
    const tables = { kms: 'quorum = "2 classical and 1 post-quantum"' };
    const beside = await startDaemon(workspace, { regions, tables, tail: `${own}${UNLIMITED}` });
    const rates: [number[], number[]] = [[], []];
    for (const daemon of [without, beside]) await rateOf(load, daemon, plan);
    for (let round = 0; round < plan.rounds; round += 1) {
      rates[0].push(await rateOf(load, without, plan));
      rates[1].push(await rateOf(load, beside, plan));
    }
    const toWithout = median(rates[1].map((rate, round) => rate / (rates[0][round] ?? Number.NaN)));
    rows.push({ key, withoutPerSecond: median(rates[0]), withPerSecond: median(rates[1]), toWithout });
  }
  return { ...plan, rows };
}

async function rateOf(load: Load, { port, apiKey }: Server, plan: PostQuantumPlan): Promise<number> {
  const { documentBytes, connections, roundMs: durationMs } = plan;
  const { latenciesMs, seconds } = await load({ port, apiKey, documentBytes, connections, durationMs });
  return latenciesMs.length / seconds;
}

export function renderPostQuantum({ connections, documentBytes, rows }: PostQuantumReport): string {
  return [
    `Post-quantum signatures (ML-DSA-44): documents of ${documentBytes} bytes over ${connections} connections, two other partitions, time-stamps`,
    table(
      ['post-quantum key in', 'seals/s without', 'with', 'ratio'],
      rows.map(({ key, withoutPerSecond, withPerSecond, toWithout }) => [
        key,
        number(withoutPerSecond),
        number(withPerSecond),
        ratio(toWithout, 1),
      ]),
    ),
  ].join('\n');
}
