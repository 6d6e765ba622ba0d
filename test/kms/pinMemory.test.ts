/** Where the PIN is in a signer: in one page while the token judges it, and nowhere afterwards. */
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { initKey } from '../../src/kms/keyOperations.ts';
import type { PartitionOptions } from '../../src/kms/partitions.ts';
import { behindFaulty, buildFaultyModule, setFault } from '../support/faults.ts';
import { makeToken } from '../support/partitions.ts';
import { randomBytes } from '../support/seed.ts';

const SEARCH = fileURLToPath(new URL('./pinSearch.ts', import.meta.url));
const isRoot = process.getuid?.() === 0;
/** A signer hides its memory from its own user, but not from root, of whichever namespace. */
const AS_ROOT = isRoot ? [] : ['unshare', '--user', '--map-root-user'];
/** Root may lock memory, whatever the limit is. */
const WITHOUT_LOCKS = [
  ...(isRoot ? ['setpriv', '--bounding-set=-ipc_lock'] : AS_ROOT),
  'prlimit',
  '--memlock=0',
];

interface Found {
  pin: string[];
  path: string[];
  said: string[];
}

function search(token: PartitionOptions, moment: 'during' | 'refused' | 'after', by = AS_ROOT): Found {
  const [command = '', ...args] = [...by, process.execPath, SEARCH, JSON.stringify(token), moment];
  const { stdout, stderr } = spawnSync(command, args, { encoding: 'utf8' });
  if (stdout === '') throw new Error(stderr);
  return JSON.parse(stdout);
}

t.test('after the log-in the PIN is nowhere in the signer’s memory', async (t) => {
  const token = makeToken(t.testdir(), { label: 'vault', region: 'eu', keyLabel: 'log' });
  await initKey(token, 'ed25519');
  const found = search(token, 'after');
  t.strictSame(found.pin, []);
  t.not(found.path.length, 0, 'the search finds what is there');
  t.strictSame(found.said, []);
});

t.test('after a refusal, for which it was hashed, the PIN is nowhere either', async (t) => {
  const token = makeToken(t.testdir(), { label: 'vault', region: 'eu', keyLabel: 'log' });
  writeFileSync(token.pinFile, randomBytes(24).toString('hex'));
  for (const what of ['refused', 'known']) t.strictSame(search(token, 'refused').pin, [], what);
  const [record = ''] = readdirSync(token.refusedPins);
  t.match(readFileSync(join(token.refusedPins, record), 'utf8'), /CKR_PIN_INCORRECT/);
});

t.test('during the log-in the PIN is in one page, never swapped, dumped or inherited', async (t) => {
  const plain = makeToken(t.testdir(), { label: 'vault', region: 'eu', keyLabel: 'log' });
  const token = behindFaulty(plain, buildFaultyModule(t.testdirName));
  await initKey(token, 'ed25519');
  setFault(token, { delayed: 'C_Login', ms: 60_000 });
  const { pin } = search(token, 'during');
  t.equal(pin.length, 1);
  for (const flag of ['lo', 'dd', 'dc']) t.match(pin, [new RegExp(`\\b${flag}\\b`)]);
});

t.test('if memory cannot be locked, the signer warns and goes on', async (t) => {
  const token = makeToken(t.testdir(), { label: 'vault', region: 'eu', keyLabel: 'log' });
  await initKey(token, 'ed25519');
  const found = search(token, 'after', WITHOUT_LOCKS);
  t.match(found, { pin: [], said: [/could have been swapped: Operation not permitted/] });
  t.equal(found.said.length, 1);
});
