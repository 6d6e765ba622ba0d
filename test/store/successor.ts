// A daemon's store: accepts a job for each line, and says how that ended.
import { createInterface } from 'node:readline';
import { openStore } from '../../src/store/lmdb/open.ts';
import { START_MS, sampleJob } from './samples.ts';

const [path = ''] = process.argv.slice(2);
const store = await openStore({ path, takesTurn: true });
const quota = { name: 'default', startsAt: START_MS, endsAt: START_MS + 86_400_000 };
console.log('opened');
for await (const _ of createInterface({ input: process.stdin })) {
  const end = await store.jobs.accept(sampleJob({ quota })).then(
    () => 'done',
    (error: Error) => error.name,
  );
  console.log(`accept ${end}`);
}
