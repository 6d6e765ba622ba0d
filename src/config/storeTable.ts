/** The table `[store]` of the configuration: the engine that keeps the log. */
import type * as z from 'zod';
import { databaseUrlFault, withoutPassword } from '../store/postgresql/databaseUrl.ts';
import { choice, credential, omissible, path, section, spelled, value } from './keys.ts';
import type { KeyPath } from './toml.ts';

const SERVERS_MAX = 16;

export const storeTable = section({
  engine: choice('"lmdb", the store in state_dir, or "postgresql"', ['lmdb', 'postgresql']).prefault('lmdb'),
  urls: spelled(
    'url',
    omissible(
      value(
        'the URL of a PostgreSQL database, or a list of them, one for each server: "postgresql:///pdfseal?host=/run/postgresql"',
        (found): readonly string[] | undefined => {
          const texts: unknown[] = Array.isArray(found) ? found : [found];
          const isGood =
            texts.length > 0 && texts.length <= SERVERS_MAX && new Set(texts).size === texts.length;
          return isGood && texts.every((text) => typeof text === 'string') ? texts : undefined;
        },
      ),
    ),
  ),
  passwordFile: omissible(
    path('the file that holds the password of the database and nothing else', {
      expected: 'a file that holds the password of the database and nothing else, readable to this user',
    }),
  ),
  passwordCredential: omissible(
    credential(
      'the password of the database',
      'a file that holds the password of the database and nothing else, readable to this user',
    ),
  ),
  acceptanceKeyFile: omissible(
    path('the file that holds the acceptance key, made by `pdfseal store make-acceptance-key`', {
      expected: 'a file that holds the acceptance key, readable to this user',
    }),
  ),
  acceptanceKeyCredential: omissible(
    credential('the acceptance key', 'a file that holds the acceptance key, readable to this user'),
  ),
});

type StoreTable = z.output<typeof storeTable>;

/** Checks rules that involve several keys of the table. */
export function checkStoreTable(
  { engine, urls, passwordFile, passwordCredential, ...keys }: StoreTable,
  refuse: (path: KeyPath, expected: string, found?: unknown) => void,
): void {
  if (engine === 'lmdb') {
    const others = {
      url: urls,
      password_file: passwordFile,
      password_credential: passwordCredential,
      acceptance_key_file: keys.acceptanceKeyFile,
      acceptance_key_credential: keys.acceptanceKeyCredential,
    };
    for (const [key, found] of Object.entries(others))
      if (found !== undefined) refuse(['store', key], 'nothing while store.engine is "lmdb"', '…');
    return;
  }
  if (urls === undefined) refuse(['store', 'url'], 'the URL of the database, for engine = "postgresql"');
  for (const url of urls ?? []) {
    const fault = databaseUrlFault(url);
    if (fault !== undefined) refuse(['store', 'url'], fault, withoutPassword(url));
  }
  if (passwordFile !== undefined && passwordCredential !== undefined) {
    const expected = 'either password_file or password_credential, and only one of them';
    refuse(['store', 'password_file'], expected, passwordFile);
  }
  if (keys.acceptanceKeyFile !== undefined && keys.acceptanceKeyCredential !== undefined) {
    const expected = 'either acceptance_key_file or acceptance_key_credential, and only one of them';
    refuse(['store', 'acceptance_key_file'], expected, keys.acceptanceKeyFile);
  }
}
