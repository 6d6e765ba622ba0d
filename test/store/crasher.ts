// A command that is killed while it does what is no write to the store.

import { actOfProcess, onRecord } from '../../src/store/acts.ts';
import { openStore } from '../../src/store/lmdb/open.ts';

const store = await openStore({ path: process.argv[2] ?? '' });
const act = actOfProcess('command', 'hsm.destroy_key', { key: 'local/old' });
await onRecord(store.trail, act, async () => process.kill(process.pid, 'SIGKILL'));
