import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { makeSoftwareKey } from '../../src/kms/softwareKey.ts';
import { makeNssToken, nssTable } from '../support/nss.ts';
import { number, ratio, table } from './format.ts';
import { type Load, openLoad, type Server } from './http.ts';
import { cpuSeconds } from './machine.ts';
import { startDaemon, UNLIMITED } from './servers.ts';
import { median, medianOf } from './stats.ts';
import type { Workspace } from './workspace.ts';

export interface PostQuantumPlan {
  connections: number;
  documentBytes: number;
  rounds: number;
  roundMs: number;
}

/** The CPU is that of the daemon and its children, so also of SoftHSM and NSS. It hardly depends on what else the machine does. */
interface PostQuantumFigures {
  perSecond: number;
  cpuMsPerSeal: number;
}

export interface PostQuantumRow {
  /** Where the post-quantum key is. */
  key: string;
  /** Medians of the rounds. */
  without: PostQuantumFigures;
  beside: PostQuantumFigures;
  /** Median of the quotients of seals per second within a round. */
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
    const [plain, mixed]: [PostQuantumFigures[], PostQuantumFigures[]] = [[], []];
    for (const daemon of [without, beside]) await figuresOf(load, daemon, plan);
    for (let round = 0; round < plan.rounds; round += 1) {
      plain.push(await figuresOf(load, without, plan));
      mixed.push(await figuresOf(load, beside, plan));
    }
    const ratios = mixed.map(({ perSecond }, round) => perSecond / (plain[round]?.perSecond ?? Number.NaN));
    rows.push({ key, without: medianOf(plain), beside: medianOf(mixed), toWithout: median(ratios) });
  }
  return { ...plan, rows };
}

async function figuresOf(
  load: Load,
  { pid, port, apiKey }: Server,
  { documentBytes, connections, roundMs: durationMs }: PostQuantumPlan,
): Promise<PostQuantumFigures> {
  const cpuBefore = cpuSeconds(pid);
  const { latenciesMs, seconds } = await load({ port, apiKey, documentBytes, connections, durationMs });
  const seals = latenciesMs.length;
  return { perSecond: seals / seconds, cpuMsPerSeal: ((cpuSeconds(pid) - cpuBefore) * 1000) / seals };
}

export function renderPostQuantum({ connections, documentBytes, rows }: PostQuantumReport): string {
  return [
    `Post-quantum signatures (ML-DSA-44): documents of ${documentBytes / 1000} kB over ${connections} connections, two other partitions, time-stamps`,
    table(
      ['post-quantum key in', 'seals/s without', 'with', 'ratio', 'CPU ms/seal without', 'with', 'ratio'],
      rows.map(({ key, without, beside, toWithout }) => [
        key,
        number(without.perSecond),
        number(beside.perSecond),
        ratio(toWithout, 1),
        number(without.cpuMsPerSeal),
        number(beside.cpuMsPerSeal),
        ratio(beside.cpuMsPerSeal, without.cpuMsPerSeal),
      ]),
    ),
  ].join('\n');
}
