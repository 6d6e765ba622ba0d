/** The six who can notice what the operator of a log does, and what each answers when it is asked. */
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Test } from 'tap';
import { SignerFailure } from '../../src/kms/signerFailure.ts';
import { HASH_BYTES, parseTilePath } from '../../src/log/tiles.ts';
import { leafHash } from '../../src/log/tree.ts';
import { pdfseal } from '../support/commands.ts';
import { grown, headOf, type OperatedLog } from './operatedLog.ts';

/** In the order of the table in acts.md. */
export const NOTICERS = ['verify', 'monitor', 'check', 'signers', 'witness', 'audit'] as const;
type Noticer = (typeof NOTICERS)[number];
/** `good`, or the outcome and the code of what was found. */
type Answer = string;
/** How each of them is asked. */
type Questions = Record<Noticer, (log: OperatedLog) => Promise<Answer>>;

/** A row of the table "Who notices what", without its first cell. */
type Cells = Record<Noticer, string>;

/** What an act does, and who answers otherwise than `good` then, and how. */
export interface Act {
  /** Does it; returns how to ask those who must be asked in a special way. */
  do(t: Test, log: OperatedLog): Promise<Partial<Questions> | undefined>;
  noticed: Partial<Record<Noticer, Answer>>;
}

/** The table, by the first cell. */
export function actsTable(): Map<string, Cells> {
  const page = readFileSync(new URL('acts.md', import.meta.url), 'utf8');
  const [, , ...rows] = page.match(/^\|.*\|$/gm) ?? [];
  return new Map(
    rows.map((row) => {
      const [act = '', ...cells] = row
        .slice(1, -1)
        .split('|')
        .map((cell) => cell.trim());
      const named = NOTICERS.map((name, n) => [name, cells[n] ?? '']);
      return [act, Object.fromEntries(named) as Cells];
    }),
  );
}

/** Does an act, and asks all six: exactly those notice it whose cell says when. */
export async function prove(t: Test, log: OperatedLog, act: Act, cells: Cells): Promise<void> {
  const questions = { ...QUESTIONS, ...(await act.do(t, log)) };
  for (const name of NOTICERS) {
    t.match(cells[name], /^(at |once |when |cannot: )/, `${name}: the cell says when, or why not`);
    const answer = await questions[name](log);
    t.equal(answer, act.noticed[name] ?? 'good', name);
    t.equal(answer === 'good', cells[name].startsWith('cannot: '), `${name}: ${cells[name]}`);
  }
}

/** `pdfseal verify`. */
export async function verify(log: OperatedLog, receipt = 'receipt.json', ...more: string[]): Promise<Answer> {
  const args = ['verify', 'document.pdf', receipt, '--trust', 'trust.json', ...more];
  const { outcome, checks } = await run(log, ...args);
  const isOpen = (one: { outcome: string }) => ['failed', 'unknown'].includes(one.outcome);
  const open = (checks as { outcome: string; code: string }[]).find(isOpen);
  return open === undefined ? `${outcome}` : `${outcome} ${open.code}`;
}

/** `pdfseal monitor` on the log as its operator shows it: `shown` replaces answers, and undefined withholds them. */
export async function monitor(
  log: OperatedLog,
  shown: Readonly<Record<string, string | undefined>> = {},
  ...more: string[]
): Promise<Answer> {
  const answers = await answersOf(log);
  // The command is in this process: while it computes, nothing else happens, and a connection only seems idle.
  const server = createServer({ keepAliveTimeout: 60_000 }, (req, res) => {
    const path = req.url?.replace('/v1/log/', '') ?? '';
    const name = Object.keys(shown).find((one) => (one.endsWith('/') ? path.startsWith(one) : path === one));
    const answer = name === undefined ? answers(path) : shown[name];
    res.writeHead(answer === undefined ? 404 : 200).end(answer);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  try {
    const files = ['--trust', 'trust.json', '--state', 'seen', '--receipts', 'receipts'];
    const args = ['monitor', '--url', url, ...files, ...more];
    return `${(await run(log, ...args)).outcome}`;
  } finally {
    server.close();
  }
}

/** What the API shows of a log of fewer than 257 leaves. */
function answersOf(log: OperatedLog) {
  return log.inStore(async (store) => {
    const { checkpoint } = await headOf(store);
    const { witnessed } = await store.witnessing.get();
    const hashes = await store.log.tile(0, 0);
    return (path: string): string | Uint8Array | undefined => {
      if (path === 'checkpoint') return checkpoint;
      if (path === 'checkpoint/witnessed') return witnessed?.checkpoint;
      const tile = parseTilePath(path);
      return tile?.level === 0 && tile.index === 0 ? hashes?.subarray(0, tile.width * HASH_BYTES) : undefined;
    };
  });
}

/** `pdfseal check`. */
export async function check(log: OperatedLog, ...more: string[]): Promise<Answer> {
  const { outcome, lapses } = await run(log, 'check', '--config', 'test.toml', ...more);
  return lapses === undefined ? `${outcome}` : `${outcome} lapses`;
}

/** `pdfseal audit verify` of the store, or of an exported folder. */
export async function audit(log: OperatedLog, ...options: string[]): Promise<Answer> {
  const source = options.includes('--input') ? [] : ['--config', 'test.toml'];
  return `${(await run(log, 'audit', 'verify', ...source, ...options)).outcome}`;
}

const NEXT_LEAF = [leafHash(Buffer.from('the next leaf'))];

/** The signer of the newest key is asked for the checkpoint of the next batch, or for another one. */
export async function signers(log: OperatedLog, text?: string): Promise<Answer> {
  const next = await log.inStore((store) => grown(store, NEXT_LEAF));
  return codeOf(log.askSigner(text === undefined ? next : { ...next, text }));
}

/** The code with which a signer refuses, or `good`. */
export async function codeOf(asked: Promise<unknown>): Promise<Answer> {
  try {
    await asked;
    return 'good';
  } catch (error) {
    if (error instanceof SignerFailure) return error.code;
    throw error;
  }
}

/** The witness is asked to cosign the checkpoint of the next batch, or another one. */
export async function witness(log: OperatedLog, text?: string): Promise<Answer> {
  const { reply } = await log.askWitness(NEXT_LEAF, text);
  return reply.status === 200 ? 'good' : String(reply.status);
}

/** How each of the six is asked when there is nothing special to ask. */
export const QUESTIONS: Questions = {
  verify: (log) => verify(log),
  monitor: (log) => monitor(log),
  check: (log) => check(log),
  signers: (log) => signers(log),
  witness: (log) => witness(log),
  audit: (log) => audit(log),
};

/** The result of a command; its exit status must be that of its outcome. */
async function run(log: OperatedLog, ...args: string[]): Promise<Record<string, unknown>> {
  const { status, stdout, stderr } = await pdfseal([...args, '--json'], { cwd: log.dir });
  // A command that could not run has no result.
  const result = stdout === '' ? { outcome: 'unknown' } : JSON.parse(stdout);
  const expected = { good: 0, bad: 1, unknown: 2 }[String(result.outcome)];
  if (status !== expected) throw new Error(`${args.join(' ')} ended with ${status}: ${stdout}${stderr}`);
  return result;
}
