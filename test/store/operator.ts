// Another process at the same store, as the command line tool is: does what it is told, line by line.
import { createInterface } from 'node:readline';
import { openStore } from '../../src/store/lmdb/open.ts';
import { putCredentials, sampleCredential } from './samples.ts';

const [path = '', mode] = process.argv.slice(2);
const store = await openStore({ path, readOnly: mode === 'read' });
console.log('ready');

for await (const line of createInterface({ input: process.stdin })) {
  const [command, argument = ''] = line.split(' ');
  if (command === 'put') await putCredentials(store, [sampleCredential({ keyHash: argument })]);
  if (command === 'count') {
    let jobs = 0;
    for await (const { outcome } of store.jobs.all()) jobs += outcome === undefined ? 1 : 0;
    console.log(`counted ${argument} ${jobs} ${(await store.credentials.all()).length}`);
  }
  console.log(`did ${line}`);
}
await store.close();
