// Opens a store and closes it, again and again, as commands do.
import { openDatabases } from '../../src/store/lmdb/databases.ts';

const [path = ''] = process.argv.slice(2);
for (let times = 0; times < 500; times++) {
  const databases = await openDatabases(path, { readOnly: true });
  await databases.close();
}
process.stdout.write('done\n');
