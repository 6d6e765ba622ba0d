import type { EngineName } from '../../src/hash/engine.ts';
import { type BatchesReport, renderBatches } from './batches.ts';
import { type BesideRow, renderBeside } from './beside.ts';
import { type ConsolesReport, renderConsoles } from './consoles.ts';
import { type FairnessReport, renderFairness } from './fairness.ts';
import { bytes, number, ratio, table } from './format.ts';
import { type HashReport, renderHash } from './hash.ts';
import { type HsmReport, renderHsm } from './hsm.ts';
import type { HttpCell, HttpFigures, Server } from './http.ts';
import { type LargeReport, renderLarge } from './large.ts';
import type { Machine } from './machine.ts';
import { renderScan, type ScanRow } from './scan.ts';
import type { SealerReport } from './sealer.ts';
import { renderWebhooks, type WebhooksReport } from './webhooks.ts';

/** Everything a run found out; a file in `results/` is this, without `hash`, which is in `processors/`. Each has a file for each kind of processor. */
export interface Results {
  /** RFC 3339. */
  measuredAt: string;
  machine: Machine;
  /** Of the daemon, whose config leaves the choice to it. */
  hashEngine: EngineName;
  /** Rounds each figure is the median of, by part, for parts that do not say so themselves; and how long each took at least. */
  rounds: Record<string, number>;
  roundMs: number;
  hash?: HashReport;
  http?: HttpCell[];
  large?: LargeReport;
  sealer?: SealerReport;
  hsm?: HsmReport;
  scan?: ScanRow[];
  webhooks?: WebhooksReport;
  batches?: BatchesReport;
  fairness?: FairnessReport;
  postQuantum?: BesideRow[];
  witness?: BesideRow[];
  console?: ConsolesReport;
}

export function renderResults(results: Results): string {
  const { hashEngine, hash, http, large, sealer, hsm, scan, webhooks, batches, fairness, rounds, roundMs } =
    results;
  const { postQuantum, witness, console } = results;
  const [count] = Object.values(rounds);
  return [
    renderMachine(results.machine),
    ...(count === undefined
      ? []
      : [`Every figure is the median of ${count} interleaved rounds of ${roundMs / 1000} s or more.`]),
    ...(hash ? ['', renderHash(hash)] : []),
    ...(http
      ? ['', `Blocking seals over HTTP (pdfseald: hash.engine = "${hashEngine}")`, renderHttp(http)]
      : []),
    ...(large ? ['', renderLarge(large)] : []),
    ...(sealer ? ['', renderSealer(sealer)] : []),
    ...(hsm ? ['', renderHsm(hsm)] : []),
    ...(scan ? ['', renderScan(scan)] : []),
    ...(webhooks ? ['', renderWebhooks(webhooks)] : []),
    ...(batches ? ['', renderBatches(batches)] : []),
    ...(fairness ? ['', renderFairness(fairness)] : []),
    ...(postQuantum ? ['', renderBeside('Post-quantum signatures (ML-DSA-44), 10 kB', postQuantum)] : []),
    ...(console ? ['', renderConsoles(console)] : []),
    ...(witness ? ['', renderBeside('witness.required, a witness on the same machine, 10 kB', witness)] : []),
  ].join('\n');
}

function renderMachine(machine: Machine): string {
  const { cpu, cpuFeatures, cores, memoryBytes, kernel, node, flushP50Ms, flushP99Ms } = machine;
  return [
    `${cpu} (${cpuFeatures.join(' ')}), ${cores} cores, ${number(memoryBytes / 2 ** 30)} GiB; Linux ${kernel}; Node ${node}`,
    `fdatasync of 4 KiB: p50 ${number(flushP50Ms)} ms, p99 ${number(flushP99Ms)} ms`,
  ].join('\n');
}

const HTTP_COLUMNS = [
  'document, connections',
  'server',
  'seals/s',
  'MB/s',
  'p50 ms',
  'p95 ms',
  'p99 ms',
  'CPU ms/seal',
  'RSS max MB',
  'its own',
  'files',
  'children',
  'seals/s to obvious',
  'to bare',
];

function renderHttp(cells: HttpCell[]): string {
  return table(HTTP_COLUMNS, cells.flatMap(httpRows));
}

function httpRows({ documentBytes, connections, servers }: HttpCell): string[][] {
  const names: Server['name'][] = ['pdfseald', 'raw', 'obvious', 'hashing', 'bare'];
  return names.map((name, n) => {
    const own = servers[name];
    return [
      n === 0 ? `${bytes(documentBytes)}, ${connections}` : '',
      name,
      ...httpFigures(own),
      ratio(own.sealsPerSecond, servers.obvious.sealsPerSecond),
      ratio(own.sealsPerSecond, servers.bare.sealsPerSecond),
    ];
  });
}

function httpFigures(own: HttpFigures): string[] {
  const columns = [
    own.sealsPerSecond,
    own.megabytesPerSecond,
    own.p50Ms,
    own.p95Ms,
    own.p99Ms,
    own.cpuMsPerSeal,
  ];
  const memory = [own.peakRssBytes, own.peakAnonBytes, own.peakFileBytes, own.childrenRssBytes];
  return [...columns.map(number), ...memory.map((bytes) => number(bytes / 1e6))];
}

const SEALER_COLUMNS = [
  'jobs in flight',
  'store',
  'entries/s',
  'p50 ms',
  'p95 ms',
  'p99 ms',
  'rate to empty',
  'p99 to empty',
];

function renderSealer({ rows, entries, storeBytes, fill }: SealerReport): string {
  const size = `${entries.toLocaleString('en-US')} receipts, ${number(storeBytes / entries)} bytes each`;
  const lines = rows.flatMap(({ inFlight, empty, full }) =>
    [empty, full].map((own) => [
      own === empty ? `${inFlight}` : '',
      own === empty ? 'empty' : 'full',
      ...[own.entriesPerSecond, own.p50Ms, own.p95Ms, own.p99Ms].map(number),
      ratio(own.entriesPerSecond, empty.entriesPerSecond),
      ratio(own.p99Ms, empty.p99Ms),
    ]),
  );
  return [
    'The sealer alone: time from accept to receipt, two partitions, ed25519',
    `The full store holds ${size}; it was filled at ${number(fill[0]?.entriesPerSecond ?? 0)} entries/s at first, at ${number(fill.at(-1)?.entriesPerSecond ?? 0)} at last.`,
    table(SEALER_COLUMNS, lines),
  ].join('\n');
}
