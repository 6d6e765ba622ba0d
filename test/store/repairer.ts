// Repairs a store and kills itself, as a power cut would, once something is mended and on disk.
import { openStore } from '../../src/store/lmdb/open.ts';

const [path = ''] = process.argv.slice(2);
const store = await openStore({ path, repairing: true });
await store.indexes.repair({
  onMended: () => process.kill(process.pid, 'SIGKILL'),
  isGood: async () => true,
});
