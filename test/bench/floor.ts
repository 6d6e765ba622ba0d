/**
 * The least that a seal can take on this machine: `node test/bench/floor.ts [--rounds N] [--documents N] [--dir FOLDER]`. Every part that no
 * design with the same promises can do without, in as little code as possible, for one document or for as many as share a batch. Each part is
 * timed again and again by itself, and then all of them in turn, as a batch needs them: caches that other work has used are cold.
 */
import { hash, randomBytes } from 'node:crypto';
import { extname, join } from 'node:path';
import { parseArgs } from 'node:util';
import { open } from 'lmdb';
import { Companion } from '../../src/base/companion.ts';
import { encodeFrame, readFrames } from '../../src/base/frames.ts';
import { verifierOf } from '../../src/kms/keyAlgorithm.ts';
import { initKey } from '../../src/kms/keyOperations.ts';
import type { SignatureAlgorithm } from '../../src/log/verifierKey.ts';
import { makeToken } from '../support/partitions.ts';
import { Connection } from './connection.ts';
import type { FloorSigner } from './floorSigner.ts';
import { number, table } from './format.ts';
import { cpuSeconds, describeMachine } from './machine.ts';
import { startPeer } from './servers.ts';
import { median } from './stats.ts';
import { makeUpload } from './upload.ts';
import { Workspace } from './workspace.ts';

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '2000' },
    documents: { type: 'string', default: '1' },
    dir: { type: 'string', default: '/var/tmp' },
  },
});
const [ROUNDS, DOCUMENTS] = [Number(values.rounds), Number(values.documents)];
/** What is signed and what is stored are about as long as in pdfseald. */
const [DOCUMENT_BYTES, MESSAGE_BYTES, RECORD_BYTES] = [10_000, 150, 2_000];
const MESSAGE_BYTES_MAX = 64 * 1024;

interface Part {
  name: string;
  /** What this process does in it is the client's work. */
  isOfClient?: true;
  run(): Promise<unknown>;
}

const workspace = new Workspace(values.dir);
try {
  const parts = await makeParts();
  for (const part of parts) await timed(part, ROUNDS / 10);
  const alone: number[] = [];
  for (const part of parts) alone.push(median(await timed(part, ROUNDS)));
  const inTurn = parts.map((): number[] => []);
  const before = cpuSeconds(process.pid);
  let clientMs = 0;
  for (let round = 0; round < ROUNDS; round++) {
    for (const [n, part] of parts.entries()) {
      const own = process.cpuUsage();
      inTurn[n]?.push(...(await timed(part, 1)));
      const { user, system } = process.cpuUsage(own);
      if (part.isOfClient) clientMs += (user + system) / 1000;
    }
  }
  const cpuMs = (cpuSeconds(process.pid) - before) * 1000 - clientMs;
  const medians = inTurn.map(median);
  const sum = (all: readonly number[]) => number(all.reduce((total, ms) => total + ms, 0));
  const rows = parts.map(({ name }, n) => [name, number(alone[n] ?? 0), number(medians[n] ?? 0)]);
  const { cpu, flushP50Ms } = describeMachine(workspace.dir);
  const what = DOCUMENTS === 1 ? 'one document' : `${DOCUMENTS} documents at once`;
  console.log(`${cpu}, fdatasync of 4 KiB: ${number(flushP50Ms)} ms; ${what}, medians of ${ROUNDS} rounds\n`);
  console.log(table(['ms', 'alone', 'in turn'], [...rows, ['all', sum(alone), sum(medians)]]));
  const perDocument = (ms: number) => number(ms / ROUNDS / DOCUMENTS);
  console.log(
    `\nProcessor time for a document, in turn: ${perDocument(cpuMs)} ms, and ${perDocument(clientMs)} ms of the client`,
  );
} finally {
  await workspace.close();
}

async function timed({ run }: Part, rounds: number): Promise<number[]> {
  const samplesMs: number[] = [];
  for (let round = 0; round < rounds; round++) {
    const startMs = performance.now();
    await run();
    samplesMs.push(performance.now() - startMs);
  }
  return samplesMs;
}

/** In the order of a seal. */
async function makeParts(): Promise<Part[]> {
  const message = randomBytes(MESSAGE_BYTES);
  const partitions = await Promise.all(['north', 'south'].map((name) => startSigner(name, 'ed25519', true)));
  const authority = await startSigner('time', 'ecdsa-p256', false);
  const checks = await Promise.all(
    partitions.map(async ({ sign, verify }) => [verify, await sign(message)] as const),
  );
  const token = await authority.sign(message);
  const { port } = await startPeer(workspace, 'bare', []);
  const each = Array.from({ length: DOCUMENTS });
  const connections = await Promise.all(each.map(() => Connection.open(port)));
  workspace.onClose(async () => {
    for (const connection of connections) connection.close();
  });
  const upload = makeUpload(DOCUMENT_BYTES, '', 'raw');
  const document = randomBytes(DOCUMENT_BYTES);
  const [store, record] = [open({ path: workspace.folder('store') }), randomBytes(RECORD_BYTES)];
  workspace.onClose(() => store.close());
  let records = 0;
  return [
    {
      name: 'upload to the bare server, and its answer',
      isOfClient: true,
      run: () => Promise.all(connections.map((one) => one.exchange(upload.head(), upload.rest))),
    },
    {
      name: 'SHA-256 and SHA-512 of 10 kB each',
      run: async () => each.map(() => [hash('sha256', document), hash('sha512', document)]),
    },
    {
      name: 'two partitions: process, ed25519, record flushed meanwhile',
      run: () => Promise.all(partitions.map(({ sign }) => sign(message))),
    },
    {
      name: 'check of both',
      run: async () => checks.map(([verify, signature]) => verify(message, signature)),
    },
    { name: 'time-stamp: process, ecdsa-p256', run: () => authority.sign(message) },
    { name: 'check of it', run: async () => authority.verify(message, token) },
    {
      name: 'commit of 2 kB for each, flushed',
      run: async () => {
        await Promise.all(each.map(() => store.put(records++, record)));
        await store.flushed;
      },
    },
  ];
}

async function startSigner(name: string, algorithm: SignatureAlgorithm, hasRecord: boolean) {
  const token = makeToken(workspace.dir, { label: name, region: name, keyLabel: name });
  const key = await initKey(token, algorithm);
  const record = hasRecord ? { record: join(workspace.dir, `${name}.record`) } : {};
  const signer = Companion.start({
    program: join(import.meta.dirname, `floorSigner${extname(import.meta.url)}`),
    ...{ args: [name], execArgv: [], environment: { PATH: '/usr/bin:/bin', ...token.environment } },
    charter: { token, ...record } as FloorSigner,
    onOutput: (line) => console.error(line),
  });
  workspace.onClose(async () => {
    signer.kill();
    await signer.gone;
  });
  const waiting: ((signature: Uint8Array) => void)[] = [];
  readFrames(signer.stream, MESSAGE_BYTES_MAX, (answer) =>
    waiting.shift()?.(Buffer.from(String(answer), 'base64')),
  );
  const sign = (message: Uint8Array) => {
    const { promise, resolve } = Promise.withResolvers<Uint8Array>();
    waiting.push(resolve);
    signer.stream.write(encodeFrame(Buffer.from(message).toString('base64')));
    return promise;
  };
  return { sign, verify: verifierOf(key) };
}
