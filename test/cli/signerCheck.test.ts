import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { toBase64 } from '../../src/base/bytes.ts';
import { examineSigners } from '../../src/cli/store/signerCheck.ts';
import type { Config } from '../../src/config/config.ts';
import { treesPath } from '../../src/kms/duties.ts';
import type { Tree } from '../../src/kms/protocol.ts';
import { NOTHING_SIGNED } from '../../src/kms/signedTrees.ts';
import { TreeFile } from '../../src/kms/treeFile.ts';
import { openCheckpoint } from '../../src/log/signedCheckpoint.ts';
import { openStore } from '../../src/store/lmdb/open.ts';
import { logKey, makeWholeStore, ORIGIN } from '../support/wholeStore.ts';

const dir = t.testdir();
const path = join(dir, 'store');
await makeWholeStore(path);
const store = await openStore({ path, readOnly: true });
t.teardown(() => store.close());

/** Signers of children, or one that is a unit. */
function configOf(signersDir: string, signer?: string): Config {
  const partition = { region: logKey.region, keyLabel: logKey.keyLabel, ...(signer && { signer }) };
  return { signersDir, kms: { partitions: [partition] } } as unknown as Config;
}

/** Signers that signed these trees last. */
async function signersOf(name: string, trees: readonly Tree[]): Promise<Config> {
  const folder = join(dir, name);
  mkdirSync(folder);
  const file = await TreeFile.open(treesPath({ origin: ORIGIN, folder, isUnit: false }, logKey.spki));
  t.teardown(() => file);
  await file.write({ ...NOTHING_SIGNED, trees });
  return configOf(folder);
}

async function treeAt(size: number): Promise<Tree> {
  const opened = openCheckpoint((await store.log.batchAt(size))?.checkpoint ?? '');
  return { size, root: toBase64(opened?.checkpoint.root ?? new Uint8Array()) };
}

const newer = (size: number): Tree => ({ size, root: toBase64(Buffer.alloc(32, 7)) });

t.test(
  'a store that contains a tree that its signers signed last is not older than they remember',
  async (t) => {
    const none = { problems: [], unknown: [] };
    t.strictSame(
      await examineSigners(store, await signersOf('newest', [await treeAt(253), await treeAt(283)])),
      none,
    );
    const crashed = await signersOf('crashed', [await treeAt(283), newer(284)]);
    t.strictSame(
      await examineSigners(store, crashed),
      none,
      'a batch on its way was signed, and not committed',
    );
    t.strictSame(await examineSigners(store, await signersOf('new', [])), none, 'nothing is signed yet');
  },
);

t.test('a store that contains none of them is an older copy, or another log', async (t) => {
  for (const [name, trees] of [
    ['older', [newer(284), newer(285)]],
    ['other', [newer(283)]],
  ] as const)
    t.match(await examineSigners(store, await signersOf(name, trees)), {
      problems: [
        new RegExp(`signed trees of ${trees.map(({ size }) => size).join(', ')} leaves last, and the log`),
      ],
      unknown: [],
    });
});

t.test('a check that cannot ask the signers says so, and finds no problem', async (t) => {
  const unknown = async (config: Config) => {
    const { problems, unknown } = await examineSigners(store, config);
    t.strictSame(problems, []);
    return unknown;
  };
  t.match(await unknown(configOf(join(dir, 'nowhere'))), [
    /what its signer remembers is not on this machine/,
  ]);
  t.match(await unknown(configOf(dir, join(dir, 'no.sock'))), [/one\/log: signer_died/]);
  const damaged = join(dir, 'damaged');
  mkdirSync(damaged);
  writeFileSync(treesPath({ origin: ORIGIN, folder: damaged, isUnit: false }, logKey.spki), 'x');
  t.match(await unknown(configOf(damaged)), [/is not whole/]);
});
