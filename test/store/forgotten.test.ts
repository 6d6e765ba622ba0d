/** Clients can rotate their keys, and make and remove webhook endpoints, any number of times: memory does not grow with that. */
import t from 'tap';
import type { Credential } from '../../src/store/credentialStore.ts';
import type { Commits } from '../../src/store/lmdb/commits.ts';
import type { Databases } from '../../src/store/lmdb/databases.ts';
import { openStore } from '../../src/store/lmdb/open.ts';
import { Tallies } from '../../src/store/lmdb/tallies.ts';
import { collectGarbage } from '../support/heap.ts';
import { makeEmptyStore } from '../support/wholeStore.ts';
import { putCredentials, sampleCredential, sampleEndpoint } from './samples.ts';

t.test('an API key that nobody uses any more leaves memory once others were used', async (t) => {
  const path = `${t.testdir({})}/store`;
  await makeEmptyStore(path);
  const store = await openStore({ path });
  t.teardown(() => store.close());
  const all = Array.from({ length: 1_100 }, (_, n) => sampleCredential({ id: `key_${n}` }));
  await putCredentials(store, all);
  const [first, ...others] = all.map(({ keyHash }) => keyHash);
  const read = async (keyHash = '') => new WeakRef((await store.credentials.get(keyHash)) as Credential);
  const known = await read(first);
  for (const keyHash of others) await read(keyHash);
  // A WeakRef holds its target until the task that made it has ended.
  await new Promise((resolve) => setTimeout(resolve, 0));
  collectGarbage();
  t.equal(known.deref(), undefined);
});

t.test('an endpoint that was removed is no longer counted, unless a write of it is under way', async (t) => {
  const none = { getKeysCount: () => 0, getBinary: () => undefined };
  const databases: unknown = { outbox: none, deadLetters: none, tallies: none };
  const written = Promise.withResolvers<boolean>();
  const commits = { write: () => written.promise } as unknown as Commits;
  const tallies = new Tallies(databases as Databases, commits);
  const make = () => ({ ...sampleEndpoint(), revision: 1 });
  const [kept, busy, gone] = [make(), make(), make()] as const;
  const before = [kept, busy, gone].map((endpoint) => tallies.of(endpoint));
  const writing = tallies.write(before.slice(1, 2), []);
  tallies.forgetUnless((id) => id === kept.id);
  t.strictSame(
    [kept, busy, gone].map((endpoint, n) => tallies.of(endpoint) === before[n]),
    [true, true, false],
  );
  written.resolve(true);
  await writing;
  tallies.forgetUnless(() => false);
  t.not(tallies.of(busy), before[1]);
});
