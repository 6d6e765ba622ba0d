// Begins a transaction and does not end it.
import { openDatabases } from '../../src/store/lmdb/databases.ts';

const [path = ''] = process.argv.slice(2);
const { root } = await openDatabases(path, { readOnly: false });
root.transactionSync(() => {
  process.stdout.write('holding\n');
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 60_000);
});
