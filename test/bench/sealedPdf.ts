/** `node test/bench/sealedPdf.ts [FOLDER]` prints the cells, a line for each; FOLDER is on the disk to be measured (/var/tmp). */
import { type Load, openLoad } from './http.ts';
import { cpuSeconds } from './machine.ts';
import { startDaemon } from './servers.ts';
import { median } from './stats.ts';
import { Workspace } from './workspace.ts';

export interface SealedPdfPlan {
  documentBytes: number[];
  connections: number[];
  rounds: number;
  roundMs: number;
}

/** Seals that also give a sealed PDF, against seals that give a receipt alone. */
export interface SealedPdfCell {
  documentBytes: number;
  connections: number;
  receiptsPerSecond: number;
  sealedPdfsPerSecond: number;
  /** Median of the quotients within a round: how many times as fast as receipts alone. */
  ratio: number;
  /** Processor time of the daemon and its processes, milliseconds for each seal. */
  receiptCpuMs: number;
  sealedPdfCpuMs: number;
}

export async function* benchSealedPdf(
  plan: SealedPdfPlan,
  workspace: Workspace,
): AsyncGenerator<SealedPdfCell> {
  const { pid, port, apiKey } = await startDaemon(workspace, {
    regions: ['north', 'south'],
    tables: { pdf: 'attach = true' },
  });
  const load = openLoad(workspace);
  for (const documentBytes of plan.documentBytes) {
    for (const connections of plan.connections) {
      const round = (form: 'raw' | 'attached', durationMs = plan.roundMs) =>
        timed(load, pid, { port, apiKey, form, documentBytes, connections, durationMs });
      for (const form of ['raw', 'attached'] as const) await round(form, plan.roundMs / 4);
      const pairs = [];
      for (let n = 0; n < plan.rounds; n += 1)
        pairs.push({ receipt: await round('raw'), sealedPdf: await round('attached') });
      yield {
        documentBytes,
        connections,
        receiptsPerSecond: median(pairs.map(({ receipt }) => receipt.perSecond)),
        sealedPdfsPerSecond: median(pairs.map(({ sealedPdf }) => sealedPdf.perSecond)),
        ratio: median(pairs.map(({ receipt, sealedPdf }) => sealedPdf.perSecond / receipt.perSecond)),
        receiptCpuMs: median(pairs.map(({ receipt }) => receipt.cpuMs)),
        sealedPdfCpuMs: median(pairs.map(({ sealedPdf }) => sealedPdf.cpuMs)),
      };
    }
  }
}

async function timed(load: Load, pid: number, order: Parameters<Load>[0]) {
  const cpuBefore = cpuSeconds(pid);
  const { seconds, latenciesMs } = await load(order);
  const seals = latenciesMs.length;
  return { perSecond: seals / seconds, cpuMs: ((cpuSeconds(pid) - cpuBefore) * 1000) / seals };
}

if (import.meta.main) {
  const workspace = new Workspace(process.argv[2] ?? '/var/tmp');
  const plan = { documentBytes: [10_000], connections: [1, 64], rounds: 9, roundMs: 3000 };
  try {
    for await (const cell of benchSealedPdf(plan, workspace)) console.log(JSON.stringify(cell));
  } finally {
    await workspace.close();
  }
}
