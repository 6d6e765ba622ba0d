/** Records a run once, and judges images of the power cuts that it could have had. */
import { type ChildProcess, fork, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Client } from '../support/client.ts';
import { ENVIRONMENT } from '../support/daemon.ts';
import { programFile } from '../support/programs.ts';
import { Sandbox } from '../support/sandbox.ts';
import type { History } from './history.ts';
import { type Cut, cutLines, cutsAt, writeImage } from './images.ts';
import type { Expected } from './judge.ts';
import type { Outcome } from './play.ts';
import { randomFrom } from './random.ts';
import { PROMISED, type Recording, readTrace, STRACE, TraceFile } from './trace.ts';

const RECORD_MS_MAX = 240_000;
/** So many images are judged by one process. */
const JUDGED_MAX = 400;
const REPORTED_MAX = 5;

export interface Recorded {
  dir: string;
  port: number;
  history: History;
}

export interface PowerCutOptions {
  /** At most so many images, chosen by the seed among all. */
  images: number;
  /** The daemon is started on so many of them, and seals. */
  starts: number;
  /** Other programs. */
  code?: { dist: string };
}

export async function cutPower(seed: number, { images, starts, code }: PowerCutOptions): Promise<Outcome> {
  const folder = mkdtempSync(join(tmpdir(), 'pdfseal-recorded-'));
  let recorded: Recorded | undefined;
  try {
    recorded = await record('recorded.ts', seed, folder, code);
    const recording = recordingIn(folder, recorded);
    const random = randomFrom(seed);
    const cuts = chosen(recording, random, images);
    const judged = await judgeAll(cuts, recorded, recording, folder);
    const started = await startOn(
      cuts.filter(
        (_, nth) =>
          Math.floor((nth * starts) / cuts.length) !== Math.floor(((nth + 1) * starts) / cuts.length),
      ),
      recorded,
      recording,
      folder,
    );
    const { faults, internalErrors } = recorded.history;
    const errors = internalErrors.map(({ request }) => `${request} was answered with 500`);
    const against = [...faults, ...errors, ...judged, ...started.against];
    return {
      ending: `${cuts.length} images`,
      against: against.slice(0, REPORTED_MAX),
      recoveryMs: started.recoveryMs,
    };
  } finally {
    if (recorded) rmSync(recorded.dir, { recursive: true, force: true });
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Has a program of this folder do all that it does to its disk, and puts what was recorded into `folder`. */
export async function record(
  program: string,
  seed: number,
  folder: string,
  code: { dist: string } | undefined,
): Promise<Recorded> {
  // The programs of the tests are made before: V8 writes half a gigabyte while it compiles them.
  await programFile('cli/run', 'src');
  const [strace = '', ...options] = STRACE;
  const file = fileURLToPath(new URL(program, import.meta.url));
  const args = [
    ...options,
    '-o',
    join(folder, 'trace'),
    process.execPath,
    file,
    `${seed}`,
    folder,
    ...(code ? [code.dist] : []),
  ];
  const { status, stderr } = spawnSync(strace, args, {
    timeout: RECORD_MS_MAX,
    encoding: 'utf8',
    env: ENVIRONMENT,
  });
  if (status !== 0) throw new Error(`the run that is recorded ended with ${status}: ${stderr}`);
  return JSON.parse(readFileSync(join(folder, 'recorded.json'), 'utf8')) as Recorded;
}

export function recordingIn(folder: string, { dir }: Recorded): Recording {
  return readTrace(new TraceFile(join(folder, 'trace')), dir, join(folder, 'base'));
}

/** Where power is cut: at most so many images of the moments from a line on. */
export function chosen(recording: Recording, random: () => number, images: number, from = 0): Cut[] {
  const lines = cutLines(recording).filter((line) => line >= from);
  const all = lines.flatMap((line) => Array.from(cutsAt(recording, line, random, 3)));
  while (all.length > images) all.splice(Math.floor(random() * all.length), 1);
  return all;
}

/** What was said to anybody before that line. */
function expectedAt({ said }: Recording, { receipts }: History, line: number): Omit<Expected, 'kept'> {
  const expected: Omit<Expected, 'kept'> = {
    jobs: {},
    receipts: Object.fromEntries(receipts.map(({ jobId, text }) => [jobId, text])),
    promised: [],
  };
  for (const { text } of said.filter((one) => one.line < line)) {
    if (text.startsWith(PROMISED)) expected.promised.push(text.slice(PROMISED.length).trim());
    // Answers to creates, lines of batches, and lists: wherever an id comes with its phase.
    for (const [, id = '', phase] of text.matchAll(/"id":"(job_\w+)","phase":"(\w+)"/g))
      if (expected.jobs[id] !== 'completed')
        expected.jobs[id] = phase === 'completed' ? 'completed' : 'accepted';
    for (const [, id = ''] of text.matchAll(/"job_id":"(job_\w+)","algorithm"/g))
      expected.jobs[id] = 'completed';
  }
  return expected;
}

async function judgeAll(
  cuts: Cut[],
  { history }: Recorded,
  recording: Recording,
  folder: string,
): Promise<string[]> {
  const against: string[] = [];
  let judge: ChildProcess | undefined;
  for (const [nth, cut] of cuts.entries()) {
    // A damaged image can end it after its answer.
    if (nth % JUDGED_MAX === 0 || !judge?.connected) {
      if (judge?.connected) judge.disconnect();
      judge = fork(fileURLToPath(new URL('judge.ts', import.meta.url)), {
        execArgv: [],
        stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
      });
    }
    const dir = join(folder, 'image');
    writeImage(recording, cut, dir);
    judge.send({
      dir,
      expected: { ...expectedAt(recording, history, cut.line), kept: join(folder, 'base') },
    });
    for (const problem of await answerOf(judge))
      against.push(`cut at line ${cut.line}, ${cut.kept}: ${problem}`);
    rmSync(dir, { recursive: true, force: true });
  }
  if (judge?.connected) judge.disconnect();
  return against;
}

/** What the process says of an image, or how it ended over it. */
function answerOf(judge: ChildProcess): Promise<string[]> {
  return new Promise((resolve) => {
    const settle = (problems: string[]) => {
      judge.removeAllListeners();
      resolve(problems);
    };
    judge.once('message', (problems) => settle(problems as string[]));
    judge.once('exit', (code, signal) => settle([`opening it ended the process with ${code ?? signal}`]));
  });
}

/** The daemon starts on an image, seals on, and the check is good. */
async function startOn(
  cuts: Cut[],
  recorded: Recorded,
  recording: Recording,
  folder: string,
): Promise<{ against: string[]; recoveryMs: number }> {
  const against: string[] = [];
  let recoveryMs = 0;
  for (const cut of cuts) {
    const dir = join(folder, 'started');
    writeImage(recording, cut, dir);
    const sandbox = new Sandbox(dir, recorded.port, [], 'dist');
    try {
      recoveryMs = Math.max(recoveryMs, await sealOn(sandbox));
    } catch (error) {
      against.push(`started after a cut at line ${cut.line}, ${cut.kept}: ${error}`);
      await sandbox.kill();
    }
    rmSync(dir, { recursive: true, force: true });
  }
  return { against, recoveryMs };
}

/** Starts a daemon that seals once more and ends well. Returns how long it took to listen, in milliseconds; throws if it does not. */
export async function sealOn(sandbox: Sandbox): Promise<number> {
  const begun = performance.now();
  const daemon = await sandbox.start();
  const recoveryMs = performance.now() - begun;
  const client = await Client.connect(sandbox.url, await sandbox.issueKey('after'));
  const { status, text } = await client.seal(Buffer.from('%PDF-1.7\nafter\n%%EOF\n'), { mode: 'blocking' });
  if (status !== 202 || !text.includes('"completed"')) throw new Error(`it does not seal: ${status} ${text}`);
  const ended = await daemon.stop();
  const check = await sandbox.pdfseal(['check', '--config', sandbox.configFile]);
  if (ended !== 0 || check.status !== 0)
    throw new Error(`it ended with ${ended}; the check: ${check.stdout}${check.stderr}`);
  return recoveryMs;
}
