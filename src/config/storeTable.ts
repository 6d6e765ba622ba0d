/** The table `[store]` of the configuration: the engine that keeps the log. */
import { choice, credential, omissible, path, section, spelled, value } from './keys.ts';

const SERVERS_MAX = 16;

const password = {
  expected: 'a file that holds the password of the database and nothing else, readable to this user',
};
const acceptanceKey = { expected: 'a file that holds the acceptance key, readable to this user' };

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
    path('the file that holds the password of the database and nothing else', password),
  ),
  passwordCredential: omissible(credential('the password of the database', password.expected)),
  acceptanceKeyFile: omissible(
    path(
      'the file that holds the acceptance key, made by `pdfseal store make-acceptance-key`',
      acceptanceKey,
    ),
  ),
  acceptanceKeyCredential: omissible(credential('the acceptance key', acceptanceKey.expected)),
});
