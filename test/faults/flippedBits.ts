/** A store that was left in order, and then has one bit flipped, or is replaced by an older copy: it is found, or it does no harm. */
import { closeSync, cpSync, openSync, readSync, rmSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { askAdmin } from '../support/admin.ts';
import type { RunResult } from '../support/commands.ts';
import type { Code } from '../support/programs.ts';
import { openSandbox, type Sandbox } from '../support/sandbox.ts';
import { readFinalState } from './finalState.ts';
import type { FinalState } from './history.ts';
import { type Pages, type Region, readPages } from './lmdbPages.ts';
import type { Outcome } from './play.ts';
import { randomFrom } from './random.ts';
import { SITE, TERMS, Workload } from './workload.ts';

/** So many copies are damaged in a round, the last of them by being older. */
const FLIPS = 16;
/** So long clients send before the store is left. */
const SENDING_MS = 2_500;
/** Nothing takes longer that does not hang. */
const COMMAND_SECONDS = 120;
/** What a command or a refusal must tell: the store, or where it contradicts, and what an administrator can do. */
const NAMED = /pdfseal check|restore|repair-index|last-checkpoint|reset-signers|damaged/i;
const CRASH = /internal error|SIG(?:BUS|SEGV|ABRT)/;

interface FlipOptions {
  code?: Code;
  flips?: number;
  /** Kinds of pages, see {@link Pages}; default: all. */
  kinds?: RegExp;
  /** Looks at no more copies once something is against one of them. */
  stopsAtFault?: boolean;
}

export async function flipBits(
  seed: number,
  { code = 'dist', flips = FLIPS, kinds = /^/, stopsAtFault = false }: FlipOptions = {},
): Promise<Outcome> {
  const random = randomFrom(seed);
  const closes: (() => void)[] = [];
  const sandbox = await openSandbox({ ...SITE, code });
  const against: string[] = [];
  const counts = { refused: 0, found: 0, harmless: 0 };
  try {
    const state = join(sandbox.dir, 'state');
    const [whole, older] = [`${state}.whole`, `${state}.older`];
    let daemon = await sandbox.start();
    const workload = await Workload.open({ teardown: (close) => closes.push(close) }, sandbox, seed);
    const send = async () => {
      let isOver = false;
      const sending = workload.run(() => isOver);
      await sleep(SENDING_MS / 2);
      isOver = true;
      await sending;
    };
    await send();
    await daemon.stop();
    cpSync(state, older, { recursive: true });
    daemon = await sandbox.start();
    await send();
    const final = await readFinalState(sandbox, daemon, workload);
    cpSync(state, whole, { recursive: true });
    const pages = readPages(join(whole, 'store', 'data.mdb'));
    const names = [...pages.keys()].filter((kind) => kinds.test(kind)).sort();
    for (let n = 0; n < flips; n++) {
      rmSync(state, { recursive: true });
      cpSync(whole, state, { recursive: true });
      const isOlder = n === flips - 1 && kinds.test('older');
      const damage = isOlder
        ? replaceStore(state, older)
        : flipOne(state, pages, names[(seed * flips + n) % names.length] ?? '', random);
      const judged = await judgeDamaged(sandbox, workload, final);
      counts[judged.ending] += 1;
      if (isOlder && judged.ending === 'harmless') judged.against.push('nobody noticed');
      against.push(...judged.against.map((line) => `${damage}: ${line}`));
      if (stopsAtFault && against.length > 0) break;
    }
  } finally {
    for (const close of closes) close();
    await sandbox.kill();
    await sandbox.close();
  }
  const { refused, found, harmless } = counts;
  return { ending: `${refused} refused, ${found} found, ${harmless} harmless`, against };
}

function replaceStore(state: string, older: string): string {
  rmSync(join(state, 'store'), { recursive: true });
  cpSync(join(older, 'store'), join(state, 'store'), { recursive: true });
  return 'an older copy of the store';
}

/** Returns where, in words that repeat it. */
function flipOne(state: string, pages: Pages, kind: string, random: () => number): string {
  const pick = <T>(from: readonly T[]) => from[Math.floor(random() * from.length)] as T;
  const region: Region = pick(pick(pages.get(kind) ?? []));
  const offset = region.from + Math.floor(random() * (region.to - region.from));
  const bit = Math.floor(random() * 8);
  const file = openSync(join(state, 'store', 'data.mdb'), 'r+');
  const byte = Buffer.alloc(1);
  readSync(file, byte, 0, 1, offset);
  byte[0] = (byte[0] ?? 0) ^ (1 << bit);
  writeSync(file, byte, 0, 1, offset);
  closeSync(file);
  return `bit ${bit} of byte ${offset - region.from} of ${region.to - region.from} at ${region.from} (${kind})`;
}

interface Judged {
  ending: 'refused' | 'found' | 'harmless';
  against: string[];
}

/** What the commands say of it; and if it starts, what the daemon answers. */
async function judgeDamaged(sandbox: Sandbox, workload: Workload, final: FinalState): Promise<Judged> {
  const against: string[] = [];
  let isFound = false;
  for (const command of [['check'], ['audit', 'verify'], ['doctor']]) {
    const result = await inTime(sandbox.pdfseal([...command, '--config', sandbox.configFile]));
    against.push(...faultsOf(command.join(' '), result, [0, 1, 2]));
    // The doctor has advice for any sandbox.
    if (result?.status === 1 && command[0] !== 'doctor') isFound = true;
    if (result?.status === 2 && command[0] === 'check') isFound = true;
  }
  const answered = await askDaemon(sandbox, workload, final);
  against.push(...answered.against, ...(isFound ? [] : answered.unlessFound));
  if (answered.isRefused && isFound) return { ending: 'refused', against };
  if (answered.isRefused) against.push('it did not start or stay, and check said nothing');
  return { ending: isFound ? 'found' : 'harmless', against };
}

function faultsOf(name: string, result: RunResult | undefined, legal: number[]): string[] {
  if (result === undefined) return [`${name} hangs`];
  const { status, signal, stdout, stderr } = result;
  const said = stdout + stderr;
  if (status === null || !legal.includes(status) || CRASH.test(said))
    return [`${name} ended with ${status ?? signal}: ${said}`];
  return status === 1 && !NAMED.test(said) ? [`${name} says no remedy: ${said}`] : [];
}

interface Answered {
  isRefused: boolean;
  /** Whatever else was found. */
  against: string[];
  /** What would be wrong in silence. */
  unlessFound: string[];
}

/** Holds every answer to what was acknowledged. */
async function askDaemon(sandbox: Sandbox, workload: Workload, final: FinalState): Promise<Answered> {
  const against: string[] = [];
  const unlessFound: string[] = [];
  try {
    await sandbox.start();
  } catch (error) {
    const [, how = '', said = ''] =
      /^pdfseald ended with (\w+): ([\s\S]*)$/.exec((error as Error).message) ?? [];
    const fatal = sandbox.daemon?.log
      .filter(({ level }) => level === 'fatal')
      .map((line) => JSON.stringify(line));
    const told = said + (fatal ?? []).join('');
    const isLegal = (how === '1' || how === '70') && !CRASH.test(said) && NAMED.test(told);
    return { isRefused: true, against: isLegal ? [] : [`its start ended with ${how}: ${told}`], unlessFound };
  }
  const { daemon } = sandbox;
  try {
    for (const { id, client, document, outcome } of final.jobs) {
      if (client !== TERMS.listener && client !== TERMS.limited.client) continue;
      const job = await workload.client(client).get(`/v1/jobs/${id}`);
      const receipt = await workload.client(client).get(`/v1/jobs/${id}/receipt.json`);
      for (const answer of [job, receipt]) {
        if (answer.status === 500) against.push(`${id} was answered 500: ${answer.text}`);
        else if (answer.status !== 200) unlessFound.push(`${id} was answered ${answer.status}`);
      }
      if (receipt.status === 200 && receipt.text !== final.receipts[id])
        against.push(`${id} has another receipt`);
      if (job.status !== 200) continue;
      const { phase, document_sha256: sha256 } = job.json<{ phase: string; document_sha256: string }>();
      if (sha256 !== document || (phase === 'completed' && outcome !== 'sealed'))
        against.push(`${id} is another job: ${job.text}`);
      // A bit of a key, which no checksum covers, puts the outcome under a job that does not exist.
      else if (phase !== 'completed' && outcome === 'sealed') unlessFound.push(`${id} has lost its outcome`);
    }
    if (!(await workload.isSealing())) unlessFound.push('it does not seal');
    await askAdmin(sandbox, '/status');
  } catch (error) {
    const ended = await Promise.race([daemon?.ended(), sleep(5000, 'not', { ref: false })]);
    if (ended !== 70) against.push(`the daemon ended with ${ended}: ${error}, ${daemon?.stderr}`);
    else unlessFound.push(`the daemon ended with 70: ${daemon?.stderr}`);
    return { isRefused: true, against, unlessFound };
  }
  const stopped = await inTime(daemon?.stop());
  if (stopped !== 0)
    (stopped === 70 ? unlessFound : against).push(`its stop ended with ${stopped}: ${daemon?.stderr}`);
  return { isRefused: false, against, unlessFound };
}

function inTime<T>(done: Promise<T> | undefined): Promise<T | undefined> {
  return Promise.race([done, sleep(COMMAND_SECONDS * 1000, undefined, { ref: false })]);
}
