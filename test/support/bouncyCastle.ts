/** Evidence records of another implementation: BouncyCastle, as Debian has it. */
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { Test } from 'tap';
import type { Certificate } from '../../src/asn1/certificate.ts';
import type { DigestName } from '../../src/base/crypto.ts';
import type { Era } from './evidence.ts';

const PROGRAM = fileURLToPath(new URL('EvidenceRecords.java', import.meta.url));
const JARS = ['bcpkix', 'bcprov', 'bcutil'].map((name) => `/usr/share/java/${name}.jar`);
const NAMES: Record<DigestName, string> = { sha256: 'SHA-256', sha384: 'SHA-384', sha512: 'SHA-512' };

const encode = (bytes: Uint8Array) => Buffer.from(bytes).toString('base64');
const decode = (text: string) => Uint8Array.from(Buffer.from(text, 'base64'));

/** One machine for a test file: its start takes longer than a thousand records. */
export function startBouncyCastle(t: Test) {
  const args = ['-XX:+UseSerialGC', '-Xshare:auto', '-cp', JARS.join(':'), PROGRAM];
  const java = spawn('java', args, { stdio: ['pipe', 'pipe', 'inherit'], env: { PATH: process.env.PATH } });
  const lines = createInterface({ input: java.stdout })[Symbol.asyncIterator]();
  t.teardown(() => java.kill('SIGKILL'));

  const ask = async (words: string[], era?: Era, at = 0): Promise<string> => {
    java.stdin.write(`${words.join(' ')}\n`);
    for (;;) {
      const { value, done } = await lines.next();
      if (done === true) throw new Error('BouncyCastle has ended');
      if (!value.startsWith('query ')) return value;
      if (era === undefined) throw new Error('no authority');
      era.clock.time = at;
      java.stdin.write(`${encode(await era.authority.answerQuery(decode(value.slice(6))))}\n`);
    }
  };
  const records = async (...question: Parameters<typeof ask>): Promise<Uint8Array[]> => {
    const answer = await ask(...question);
    if (answer.startsWith('bad')) throw new Error(answer);
    return answer.split(' ').map(decode);
  };
  return {
    /** 'good', or 'bad: ' and the reason. BouncyCastle keeps what is beside the tokens to itself: `beside` is DER of certificates. */
    verify: (
      record: Uint8Array,
      data: Uint8Array,
      roots: readonly Certificate[],
      at: number,
      beside: readonly Uint8Array[] = [],
    ): Promise<string> => {
      const certificates = [...roots.map(({ der }) => der), ...beside];
      return ask(['verify', encode(record), encode(data), `${at}`, ...certificates.map(encode)]);
    },
    /** A record of each data object, all by one token of the era. */
    generate: (digest: DigestName, data: Uint8Array[], era: Era, at: number) =>
      records(['generate', NAMES[digest], ...data.map(encode)], era, at),
    renewTimestamp: async (record: Uint8Array, era: Era, at: number) =>
      (await records(['renew', encode(record)], era, at))[0] ?? new Uint8Array(0),
    renewHash: async (digest: DigestName, record: Uint8Array, data: Uint8Array, era: Era, at: number) =>
      (await records(['rehash', NAMES[digest], encode(record), encode(data)], era, at))[0] ??
      new Uint8Array(0),
  };
}
