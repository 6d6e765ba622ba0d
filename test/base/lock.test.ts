import { spawnSync } from 'node:child_process';
import { chownSync, existsSync, readFileSync, rmSync, statSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { acquireLock } from '../../src/base/lock.ts';
import { Child } from '../store/child.ts';
import { until } from '../support/until.ts';

t.test('a second lock is refused with the name of the holder, and a released one is free', async (t) => {
  const path = join(t.testdir(), 'lock');
  const lock = acquireLock(path);
  t.equal(readFileSync(path, 'utf8'), `${process.pid}\n`);
  t.throws(() => acquireLock(path), {
    name: 'OperatorError',
    message: new RegExp(`process ${process.pid}\\b`),
  });
  lock.release();
  acquireLock(path).release();
});

t.test('the user of the folder can open what root locked', async (t) => {
  if (process.getuid?.() !== 0) return t.comment('only root makes files of others');
  const folder = t.testdir();
  chownSync(folder, 65_534, 65_534);
  acquireLock(join(folder, 'lock')).release();
  t.match(statSync(join(folder, 'lock')), { uid: 65_534, gid: 65_534 });
});

t.test('a symbolic link in the place of the lock is not followed', async (t) => {
  const folder = t.testdir({ precious: 'data' });
  const [precious, missing] = [join(folder, 'precious'), join(folder, 'missing')];
  for (const [name, target] of [
    ['to a file', precious],
    ['to nothing', missing],
  ] as const) {
    symlinkSync(target, join(folder, name));
    t.throws(() => acquireLock(join(folder, name)), { name: 'OperatorError', message: /cannot open/ });
  }
  t.equal(readFileSync(precious, 'utf8'), 'data');
  t.notOk(existsSync(missing));
});

t.test('the lock ends with its process, even if killed and if its children live on', async (t) => {
  const path = join(t.testdir(), 'lock');
  const holder = new Child('../base/lockHolder.ts', path);
  const grandchild = Number((await holder.line('locked')).split(' ')[1]);
  t.teardown(() => process.kill(grandchild));
  t.throws(() => acquireLock(path), {
    name: 'OperatorError',
    message: new RegExp(`process ${holder.pid}\\b`),
  });
  await holder.kill();
  t.ok(process.kill(grandchild, 0), 'its child lives');
  acquireLock(path).release();
});

t.test('a missing state folder is an error of the operator', async (t) => {
  t.throws(() => acquireLock(join(t.testdir(), 'missing', 'lock')), {
    name: 'OperatorError',
    message: /no such file or directory\): make state folder and store with `pdfseal init`/,
  });
  const folder = t.testdir({ lock: {} });
  t.throws(() => acquireLock(join(folder, 'lock')), {
    name: 'OperatorError',
    message: /cannot open .*lock \(.*\): run this as the user that owns the folder/,
  });
});

t.test('a lock file that is removed is made and locked again', async (t) => {
  const path = join(t.testdir(), 'lock');
  using lock = acquireLock(path);
  lock.watch((error) => t.fail(String(error)));
  rmSync(path);
  await until('it is there again', () => existsSync(path) && readFileSync(path, 'utf8') !== '');
  t.throws(() => acquireLock(path), { message: new RegExp(`process ${process.pid}\\b`) });
});

t.test('a holder whose lock file was removed learns that another process has the folder', async (t) => {
  const path = join(t.testdir(), 'lock');
  using lock = acquireLock(path);
  rmSync(path);
  const other = new Child('../base/lockHolder.ts', path);
  t.teardown(() => other.kill());
  const grandchild = Number((await other.line('locked')).split(' ')[1]);
  t.teardown(() => process.kill(grandchild));
  const { promise, resolve } = Promise.withResolvers<unknown>();
  lock.watch(resolve);
  const alive = setInterval(() => {}, 1000); // the look alone keeps no process alive
  t.match(await promise, { name: 'OperatorError', message: new RegExp(`process ${other.pid}\\b`) });
  clearInterval(alive);
});

t.test('a file system that does not lock is named, with what to do', async (t) => {
  for (const [fault, reason] of [
    ['error=ENOLCK', 'No locks available'],
    ['error=EOPNOTSUPP', 'Operation not supported'],
    ['error=ENOSYS', 'Function not implemented'],
    ['error=EIO', 'Input/output error'],
    ['retval=0', 'its file system gives the same lock to every process'],
  ] as const) {
    const path = join(t.testdir(), 'lock');
    const holder = fileURLToPath(new URL('lockHolder.ts', import.meta.url));
    const args = ['-f', '-qq', '-o', '/dev/null', '-e', 'trace=flock', '-e', `inject=flock:${fault}`];
    const { status, stderr } = spawnSync('strace', [...args, process.execPath, holder, path], {
      encoding: 'utf8',
    });
    t.equal(status, 1, fault);
    t.match(stderr, `cannot lock ${path}: ${reason}`);
    t.match(stderr, /put it on a local file system/);
  }
});
