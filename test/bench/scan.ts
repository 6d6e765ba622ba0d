import { FIT, startClamd } from '../support/clamd.ts';
import { bytes, number, ratio, table } from './format.ts';
import { openLoad, type Server } from './http.ts';
import { cpuSeconds } from './machine.ts';
import { startDaemon } from './servers.ts';
import { latencyOf, medianOf } from './stats.ts';
import type { Workspace } from './workspace.ts';

export interface ScanPlan {
  loads: ScanLoad[];
  rounds: number;
  roundMs: number;
}

interface ScanLoad {
  documentBytes: number;
  connections: number;
}

interface Figures {
  sealsPerSecond: number;
  p50Ms: number;
  p95Ms: number;
  /** Of pdfseald, and of clamd. */
  cpuMsPerSeal: number;
  scannerCpuMsPerSeal: number;
}

/** Medians of the rounds, without a scanner and with one. */
export interface ScanRow extends ScanLoad {
  without: Figures;
  scanned: Figures;
}

/**
 * What scanning costs blocking seals: one daemon asks clamd, its twin does not, and they take turns. clamd has two signatures
 * instead of millions and meets documents of noise, so this is the cost of having documents scanned, not of looking into them.
 */
export async function benchScan(
  plan: ScanPlan,
  workspace: Workspace,
  progress: (line: string) => void,
): Promise<ScanRow[]> {
  const clamd = await startClamd({ teardown: (undo) => workspace.onClose(undo) }, { settings: FIT });
  const limits = 'document_bytes_max = "32MiB"';
  const without = await startDaemon(workspace, { regions: ['local'], tables: { limits } });
  const scan = `clamd = "unix:${clamd.socket}"`;
  const scanned = await startDaemon(workspace, { regions: ['local'], tables: { limits, scan } });
  const load = openLoad(workspace);

  const measure = async (
    { pid, port, apiKey }: Server,
    order: ScanLoad,
    durationMs: number,
  ): Promise<Figures> => {
    const [cpuBefore, scannerBefore] = [cpuSeconds(pid), cpuSeconds(clamd.pid)];
    const { seconds, latenciesMs } = await load({ port, apiKey, ...order, durationMs });
    const perSeal = (cpu: number) => (cpu * 1000) / latenciesMs.length;
    const { p50Ms, p95Ms } = latencyOf(latenciesMs);
    return {
      sealsPerSecond: latenciesMs.length / seconds,
      p50Ms,
      p95Ms,
      cpuMsPerSeal: perSeal(cpuSeconds(pid) - cpuBefore),
      scannerCpuMsPerSeal: perSeal(cpuSeconds(clamd.pid) - scannerBefore),
    };
  };

  const rows: ScanRow[] = [];
  for (const order of plan.loads) {
    progress(
      `scan: ${order.documentBytes} bytes, ${order.connections} connections, with and without a scanner`,
    );
    const samples: { without: Figures[]; scanned: Figures[] } = { without: [], scanned: [] };
    for (const server of [without, scanned]) await measure(server, order, plan.roundMs / 2);
    for (let round = 0; round < plan.rounds; round++) {
      samples.without.push(await measure(without, order, plan.roundMs));
      samples.scanned.push(await measure(scanned, order, plan.roundMs));
    }
    rows.push({ ...order, without: medianOf(samples.without), scanned: medianOf(samples.scanned) });
  }
  return rows;
}

const COLUMNS = [
  'document, connections',
  'scanner',
  'seals/s',
  'p50 ms',
  'p95 ms',
  'CPU ms/seal',
  'of clamd',
  'seals/s to none',
];

export function renderScan(rows: ScanRow[]): string {
  return [
    'Having documents scanned: clamd over a Unix socket, with two signatures; what it costs to look into documents comes on top.',
    table(COLUMNS, rows.flatMap(scanRows)),
  ].join('\n');
}

function scanRows({ documentBytes, connections, without, scanned }: ScanRow): string[][] {
  const cells = (own: Figures) =>
    [own.sealsPerSecond, own.p50Ms, own.p95Ms, own.cpuMsPerSeal, own.scannerCpuMsPerSeal].map(number);
  return [
    [`${bytes(documentBytes)}, ${connections}`, 'none', ...cells(without), ''],
    ['', 'clamd', ...cells(scanned), ratio(scanned.sealsPerSecond, without.sealsPerSecond)],
  ];
}
