// Migrates a store and kills itself, as a power cut would, in the middle of it.
import { openStore } from '../../src/store/lmdb/open.ts';
import { LAYOUTS, pages } from './migrated.ts';

const [path = ''] = process.argv.slice(2);
pages.onPage = () => process.kill(process.pid, 'SIGKILL');
await openStore({ path, migrations: LAYOUTS, onMigration: () => {} });
