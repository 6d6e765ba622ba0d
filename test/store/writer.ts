// Accepts jobs and seals whatever waits, as fast as it can, until it is killed or a write fails. Says what is promised.
import { writeSync } from 'node:fs';
import { openStore } from '../../src/store/lmdb/open.ts';
import { sampleBatch, sampleEntry, sampleJob } from './samples.ts';

const CLIENTS = 16;
const [path = ''] = process.argv.slice(2);

// Synchronous: what was promised is in the pipe, whenever we die.
const say = (line: string) => writeSync(1, `${line}\n`);
const nameOf = (error: unknown) =>
  error instanceof Error ? `${error.name} ${String(error.cause)}` : String(error);

process.on('unhandledRejection', (error) => say(`unhandled ${nameOf(error)}`));

const store = await openStore({ path });
let size = (await store.log.head())?.treeSize ?? 0;
let isBroken = false;
let newest = '';

async function accept(): Promise<void> {
  while (!isBroken) {
    const job = sampleJob({ acceptedAt: Date.now(), visibility: 'partner', customerReference: 'R' });
    say(`accepting ${job.id}`);
    await store.jobs.accept(job, { idempotency: sampleEntry(job) });
    say(`accepted ${job.id}`);
    newest = job.id;
  }
}

async function seal(): Promise<void> {
  while (!isBroken) {
    const jobs = await store.jobs.waiting(50);
    if (jobs.length > 0) {
      const batch = sampleBatch(size, jobs);
      await store.log.commit(batch);
      size = batch.treeSize;
      say(`sealed ${size}`);
    }
    await new Promise((resolve) => setImmediate(resolve));
  }
}

const failures = [...Array.from({ length: CLIENTS }, accept), seal()].map((work) =>
  work.catch((error: unknown) => {
    isBroken = true;
    say(`failed ${nameOf(error)}`);
  }),
);
await Promise.all(failures);
await store.jobs.get(newest).catch((error: unknown) => say(`then reading failed ${nameOf(error)}`));
await store.jobs.accept(sampleJob()).catch((error: unknown) => say(`then accepting failed ${nameOf(error)}`));
say('done');
