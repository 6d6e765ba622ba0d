/**
 * `npm run long -- --only NAME [--seed S] [--share N] [FOLDER...]`: the counts that take hours, and are run by hand or at night. What comes of
 * them is written to `test/bench/results/long-NAME.md`, with the seed, the date and the processor. `--share 0.1` tries a tenth of the inputs and
 * writes nothing. The exit status is 1 if a promise was broken.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { parseArgs } from 'node:util';
import { describeProcessor } from './bench/machine.ts';
import { isMutated, tierFiles } from './suite/tiers.ts';

interface Step {
  /** For the row of the table. */
  name: string;
  inputs: string;
  command: string[];
  env?: Record<string, string>;
}

/** On a busy machine, a file with many inputs takes longer than any of the suite may. */
const FILE_SECONDS_MAX = 24 * 3600;

interface Run {
  says: string;
  /** By seed, by the share of the inputs, and by the folders that it reads. */
  steps(seed: number, share: number, folders: string[]): Step[];
}

const RUNS: Record<string, Run> = {
  mutations: {
    says: 'Each reader of receipts, notes, policies, cosignatures and proofs gets 100,000 changed inputs.',
    steps: (seed, share) =>
      tierFiles('all')
        .filter(isMutated)
        .map((file) => ({
          name: file,
          inputs: count(100_000 * share),
          command: ['test/run.ts', file],
          env: { PDFSEALD_SEED: `${seed}`, PDFSEALD_MUTATIONS: `${Math.ceil(100_000 * share)}` },
        })),
  },
  bundles: {
    says: 'Bundles are changed: half as text, half in one part and with a new checksum. None may be good, or prove anything else.',
    steps: (seed, share) => [
      {
        name: 'changed bundles',
        inputs: count(100_000 * share),
        command: ['test/run.ts', 'test/prove/verify/bundleCheck.test.ts'],
        env: { PDFSEALD_SEED: `${seed}`, PDFSEALD_MUTATIONS: `${Math.ceil(50_000 * share)}` },
      },
    ],
  },
  'sealed-pdfs': {
    says: 'Sealed PDFs are changed, and none may be good. Documents are changed, and each must be sealed or refused by name.',
    steps: (seed, share) => [
      {
        name: 'changed sealed PDFs',
        inputs: count(100_000 * share),
        command: ['test/run.ts', 'test/prove/verify/sealedPdf.test.ts'],
        env: { PDFSEALD_SEED: `${seed}`, PDFSEALD_MUTATIONS: `${Math.ceil(100_000 * share)}` },
      },
      {
        name: 'changed documents',
        inputs: count(100_000 * share),
        command: ['test/run.ts', 'test/pdf/attach.test.ts'],
        env: { PDFSEALD_SEED: `${seed}`, PDFSEALD_MUTATIONS: `${Math.ceil(100_000 * share)}` },
      },
    ],
  },
  generators: {
    says: 'Each code generator makes a client of the description, which is type-checked, and seals documents with the real daemon.',
    steps: () => [
      { name: 'clients of generators', inputs: '3 generators', command: ['test/generators/generators.ts'] },
    ],
  },
  foreign: {
    says: 'All PDFs of folders that you name get a receipt attached. qpdf, mutool and poppler compare each with its document, PDFBox and pdf.js every fifth.',
    steps: (_seed, _share, folders) =>
      folders.map((folder) => ({
        name: `documents of ${basename(folder)}`,
        inputs: 'all',
        command: ['test/pdf/foreign.ts', folder],
      })),
  },
  'hostile-documents': {
    says: 'Documents that are made to hide XMP are stripped, and looked at with qpdf, mutool and exiftool.',
    steps: (seed, share) => [
      {
        name: 'hidden XMP',
        inputs: count(100_000 * share),
        command: ['test/pdf/hostile.ts', '--documents', `${100_000 * share}`, '--seed', `${seed}`],
      },
    ],
  },
  schedules: {
    says: 'The simulator tries orders of events for the sealer and for the outbox of webhooks.',
    steps: (seed, share) =>
      [[], ['--outbox']].map((options) => ({
        name: options.length === 0 ? 'sealer' : 'outbox',
        inputs: count(100_000 * share),
        command: ['test/simulator/run.ts', '--schedules', `${100_000 * share}`, ...options],
        env: { PDFSEALD_SEED: `${seed}` },
      })),
  },
  faults: {
    says: 'Every fault of the machine for faults comes in turn: kills, HSMs, disks, calls, clocks, power cuts, mutants.',
    steps: (seed, share) => [
      {
        name: 'all faults in turn',
        inputs: `${120 * share} minutes`,
        command: ['test/faults/run.ts', '--minutes', `${120 * share}`, '--seed', `${seed}`],
      },
    ],
  },
  'crash-images': {
    says: 'The disk after a power cut: all that was flushed, and any part of what was not.',
    steps: (seed, share) => [
      {
        name: 'power cuts',
        inputs: `${60 * share} minutes`,
        command: ['test/faults/run.ts', '--minutes', `${60 * share}`, '--seed', `${seed}`, '--only', 'power'],
      },
    ],
  },
  flood: {
    says: 'A million requests are pipelined without a key, beside silent connections, batches and unread answers, while 64 clients seal.',
    steps: (_seed, share) => [
      {
        name: 'everybody at once',
        inputs: `${count(1_000_000 * share)} requests`,
        command: [
          'test/flood/run.ts',
          ...['--seconds', `${300 * share}`, '--pipelined', `${1_000_000 * share}`],
          ...['--connections', `${Math.ceil(16_384 * share)}`, '--honest', `${Math.ceil(64 * share)}`],
        ],
      },
    ],
  },
  modules: {
    says: 'Two of three PKCS#11 modules of different vendors must sign, and a fourth stamps. One of the three is away at a time, in turns, under load.',
    steps: (_seed, share) => [
      {
        name: 'NSS, p11-kit, YubiHSM 2 in turn; NetHSM stamps',
        inputs: `${10 * share} minutes`,
        command: ['test/kms/quorumOfModules.ts', '--minutes', `${10 * share}`],
      },
    ],
  },
  soak: {
    says: 'One daemon with everything on, for hours: nothing may grow.',
    steps: (seed, share) => [
      {
        name: 'soak',
        inputs: `${12 * share} hours`,
        command: ['test/soak/run.ts', '--hours', `${12 * share}`, '--seed', `${seed}`],
      },
    ],
  },
  cluster: {
    says: 'A cluster of PostgreSQL under Patroni, two daemons and two fronts are attacked, one attack after the other. Needs root.',
    steps: (seed, share) => [
      {
        name: 'attacks in turn',
        inputs: `${60 * share} minutes`,
        command: ['test/cluster/run.ts', '--minutes', `${60 * share}`, '--seed', `${seed}`],
      },
    ],
  },
};

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    only: { type: 'string', default: '' },
    seed: { type: 'string', default: String(Date.now() % 2 ** 31) },
    share: { type: 'string', default: '1' },
  },
});
const run = RUNS[values.only];
const [seed, share] = [Number(values.seed), Number(values.share)];
if (run === undefined || !Number.isInteger(seed) || !(share > 0 && share <= 1)) {
  console.error('usage: npm run long -- --only NAME [--seed S] [--share N] [FOLDER...]; there is:');
  for (const [name, { says }] of Object.entries(RUNS)) console.error(`  ${name}: ${says}`);
  process.exit(64);
}

const rows: string[][] = [];
for (const step of run.steps(seed, share, positionals)) {
  const { status, seconds, last } = await carryOut(step);
  rows.push([step.name, step.inputs, status === 0 ? 'good' : `ended with ${status}`, last, `${seconds} s`]);
  if (status !== 0) process.exitCode = 1;
}
const text = render(values.only, run.says, rows);
console.log(`\n${text}`);
if (share === 1) writeFileSync(join(import.meta.dirname, `bench/results/long-${values.only}.md`), text);

async function carryOut({ name, command, env }: Step) {
  console.error(`\n${name}`);
  const begunAt = performance.now();
  const child = spawn(process.execPath, command, {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, TAP_TIMEOUT: `${FILE_SECONDS_MAX}`, ...env },
  });
  let output = '';
  child.stdout.on('data', (chunk: Buffer) => {
    process.stdout.write(chunk);
    output = (output + chunk).slice(-10_000);
  });
  const [status, signal] = (await once(child, 'close')) as [number | null, string | null];
  const seconds = Math.round((performance.now() - begunAt) / 1000);
  return { status: status ?? signal, seconds, last: output.trimEnd().split('\n').at(-1) ?? '' };
}

function render(name: string, says: string, rows: string[][]): string {
  const { name: processor } = describeProcessor();
  const date = new Date().toISOString().slice(0, 10);
  return `# Long run: ${name}

${says}

\`npm run long -- --only ${name} --seed ${seed}\`, ${date}, ${processor}.

${[['What', 'Inputs', 'Outcome', 'Last line', 'Time'], ['---', '---:', '---', '---', '---:'], ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n')}
`;
}

function count(inputs: number): string {
  return Math.ceil(inputs).toLocaleString('en');
}
