/**
 * Searches the memory of a signer for its PIN: while the token judges it, after the token refused it, or after a signature. For a user that may read the memory of others' processes.
 * Prints JSON: the flags of each mapping that has a part of the PIN (proc_pid_smaps(5)), and of each that has the path of its file;
 * and what the signer said.
 */
import { closeSync, openSync, readFileSync, readSync } from 'node:fs';
import type { PartitionOptions } from '../../src/kms/partitions.ts';
import { tokenName } from '../../src/kms/protocol.ts';
import { SignerProcess } from '../../src/kms/signerProcess.ts';
import { faultsPlayed } from '../support/faults.ts';
import { until } from '../support/until.ts';

/** Freed memory loses its first 16 bytes, so each part of the PIN is searched for. */
const PART = 16;
const CHUNK = 1 << 20;
const TIMEOUT_MS = 60_000;

const [given = '', moment = ''] = process.argv.slice(2);
const token: PartitionOptions = JSON.parse(given);
const pin = readFileSync(token.pinFile, 'latin1').trim();
const parts = Array.from({ length: Math.ceil(pin.length / PART) }, (_, n) =>
  pin.slice(n * PART, (n + 1) * PART),
);

function encodings(text: string): Buffer[] {
  return [Buffer.from(text, 'latin1'), Buffer.from(text, 'utf16le')];
}

/** The readable mappings of a process, each with its flags. */
function mappingsOf(pid: number): { from: number; to: number; flags: string[] }[] {
  return readFileSync(`/proc/${pid}/smaps`, 'utf8')
    .split(/\n(?=[0-9a-f]+-[0-9a-f]+ )/)
    .map((entry) => {
      const [, from = '', to = ''] = /^([0-9a-f]+)-([0-9a-f]+) /.exec(entry) ?? [];
      const [, flags = ''] = /^VmFlags: (.*)$/m.exec(entry) ?? [];
      return { from: Number.parseInt(from, 16), to: Number.parseInt(to, 16), flags: flags.trim().split(' ') };
    })
    .filter(({ flags }) => flags.includes('rd') && !flags.includes('io'));
}

/** The flags of each mapping that has one of these. */
function search(pid: number, needles: readonly Buffer[]): string[] {
  const overlap = Math.max(...needles.map(({ length }) => length)) - 1;
  const memory = openSync(`/proc/${pid}/mem`, 'r');
  const chunk = Buffer.alloc(CHUNK + overlap);
  const found = mappingsOf(pid).filter(({ from, to }) => {
    for (let at = from; at < to; at += CHUNK) {
      const bytes = readUpTo(memory, chunk.subarray(0, Math.min(chunk.length, to - at)), at);
      if (needles.some((needle) => bytes.includes(needle))) return true;
    }
    return false;
  });
  closeSync(memory);
  return found.map(({ flags }) => flags.join(' '));
}

/** The kernel's own pages cannot be read. */
function readUpTo(memory: number, into: Buffer, at: number): Buffer {
  try {
    return into.subarray(0, readSync(memory, into, 0, into.length, at));
  } catch {
    return into.subarray(0, 0);
  }
}

const said: string[] = [];
const signer = new SignerProcess(
  token,
  { name: 'searched', duties: { anything: true }, sessions: 1 },
  (line) => void said.push(line),
);
const { keyLabel } = token;
await signer.ask(
  { kind: 'connect', token: tokenName(token), keyLabel, access: 'read', sessions: 1 },
  TIMEOUT_MS,
);
const loggedIn = signer.ask({ kind: 'logIn' }, TIMEOUT_MS);
loggedIn.catch(() => {});
if (moment === 'refused') await loggedIn.catch(() => {});
else if (moment === 'during')
  await until('the token has the PIN', () => faultsPlayed(token, 'C_Login-delay') > 0);
else {
  await loggedIn;
  await signer.ask({ kind: 'findKey' }, TIMEOUT_MS);
  await signer.ask({ kind: 'signProbe' }, TIMEOUT_MS);
}
const { pid } = signer;
if (pid === undefined) throw new Error('the signer ended');
const answer = {
  pin: search(pid, parts.flatMap(encodings)),
  path: search(pid, encodings(token.pinFile)),
  said,
};
console.log(JSON.stringify(answer));
process.exit(0);
