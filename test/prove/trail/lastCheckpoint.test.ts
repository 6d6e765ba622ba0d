import { mkdirSync } from 'node:fs';
import fsPromises, { type FileHandle } from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';
import { basename, join } from 'node:path';
import t from 'tap';

/** What is done to which file to make it last, in order. */
const done: string[] = [];
let isFull = false;
const { open } = fsPromises;
fsPromises.open = async (path, flags, mode) => {
  const file: FileHandle = await open(path, flags, mode);
  const name = basename(String(path));
  for (const method of ['appendFile', 'datasync', 'sync'] as const) {
    const original = file[method].bind(file) as (...args: unknown[]) => Promise<void>;
    Object.assign(file, {
      [method]: async (...args: unknown[]) => {
        if (isFull && method === 'appendFile')
          throw Object.assign(new Error('ENOSPC: no space left on device'), { code: 'ENOSPC' });
        await original(...args);
        done.push(`${method} ${name}`);
      },
    });
  }
  return file;
};
syncBuiltinESMExports();
const { openLastCheckpoint, readLastCheckpoint, restartLastCheckpoint } = await import(
  '../../../src/prove/trail/lastCheckpoint.ts'
);

t.test('a new file is on disk, as is its name in the folder', async (t) => {
  const folder = t.testdir();
  const file = join(folder, 'last-checkpoint');
  const identity = { schema: 1, environment: 'test', logOrigin: 'seal.example.com/test', createdAt: 0 };
  const store = { identity, log: { head: async () => undefined } } as unknown as Parameters<
    typeof restartLastCheckpoint
  >[1];
  t.equal(await restartLastCheckpoint(file, store, 'before'), undefined);
  t.strictSame(done, ['appendFile last-checkpoint', 'datasync last-checkpoint', `sync ${basename(folder)}`]);
  t.equal(await restartLastCheckpoint(file, store, 'before'), `${file}.before`);
  t.equal(done.length, 6, 'a file that takes the place of another is new');

  mkdirSync(`${file}.blocked`);
  await t.rejects(restartLastCheckpoint(file, store, 'blocked'), {
    name: 'OperatorError',
    message: /cannot rename .*last-checkpoint \(.*\); if it is append-only, run `chattr -a` on it/,
  });
});

t.test(
  'a full disk does not keep a daemon from starting, and a failed write is repeated later',
  async (t) => {
    const file = join(t.testdir(), 'last-checkpoint');
    const identity = { schema: 1, environment: 'test', logOrigin: 'seal.example.com/test', createdAt: 0 };
    const root = Buffer.alloc(32, 7).toString('base64');
    const checkpoint = `seal.example.com/test\n3\n${root}\n\n— seal.example.com/test AAAAAAAAAAA=\n`;
    let head: object | undefined;
    const epochs = { newest: async () => ({ list: [] }) };
    const store = { identity, epochs, log: { head: async () => head } } as unknown as Parameters<
      typeof openLastCheckpoint
    >[0]['store'];
    const errors: unknown[] = [];
    const logger = { error: (fields: object) => errors.push(fields) } as unknown as Parameters<
      typeof openLastCheckpoint
    >[0]['logger'];
    const options = { file, store, intervalMs: 3_600_000, logger, onFatal: () => t.fail() };
    await (await openLastCheckpoint(options)).close();
    t.equal(readLastCheckpoint(file)?.checkpoint.treeSize, 0);

    head = { treeSize: 3, checkpoint };
    isFull = true;
    const opened = await openLastCheckpoint(options);
    t.match(errors, [{ event: 'witness_not_written', err: { message: /cannot write .*last-checkpoint/ } }]);
    t.equal(opened.noted.treeSize, 0);
    isFull = false;
    await opened.close();
    t.equal(opened.noted.treeSize, 3);
    t.equal(readLastCheckpoint(file)?.checkpoint.treeSize, 3);
  },
);
