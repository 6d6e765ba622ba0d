/** A command whose disk takes no more says so in one line. */
import { spawnSync } from 'node:child_process';
import { statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { commandFailure } from '../../src/cli/report.ts';
import { createStore } from '../../src/store/lmdb/open.ts';
import { epoch, identity } from '../store/samples.ts';

const COPY_STORE = new URL('../../src/store/lmdb/copyStore.ts', import.meta.url).href;
const CLI = fileURLToPath(new URL('../../src/cli.ts', import.meta.url));

t.test('a key that cannot be written is not printed, and the failure is not a stack trace', async (t) => {
  const dir = t.testdir({ state: {} });
  const [config, store] = [join(dir, 'sandbox.toml'), join(dir, 'state/store')];
  await createStore({ path: store, identity, epoch });
  writeFileSync(
    config,
    `environment = "${identity.environment}"
state_dir = "state"
[http]
listen = "127.0.0.1:8400"
[log]
origin = "${identity.logOrigin}"
[[kms.partitions]]
region = "eu"
module = "/nowhere.so"
token_label = "none"
key_label = "log"
pin_file = "/nowhere"
[timestamp]
authorities = []
`,
  );
  // The kernel then refuses to let the file grow, as it would on a full disk, for root too.
  const limit = statSync(join(store, 'data.mdb')).size;
  const issue = [CLI, 'keys', 'issue', '--config', config, '--client', 'a', '--organization', 'b'];
  const env = { PATH: process.env.PATH };
  const run = (...args: string[]) =>
    spawnSync('prlimit', [`--fsize=${limit}:${limit}`, process.execPath, ...issue, ...args], {
      encoding: 'utf8',
      env,
    });
  const failed = run();
  t.match(failed, { status: 70, stdout: '', stderr: /^pdfseal: the store cannot tell .*\(.*large.*\)$/m });
  t.notMatch(failed.stderr, /^ +at /m);
  t.match(run('--json').stderr.trimEnd().split('\n').at(-1), /^\{"error":\{.*free space on it/);
});

t.test('a copy that its disk does not take says where, and what to do', async (t) => {
  const dir = t.testdir();
  const [from, to] = [join(dir, 'store'), join(dir, 'copy')];
  await createStore({ path: from, identity, epoch });
  const copy = `import { copyStore } from ${JSON.stringify(COPY_STORE)};
    copyStore(${JSON.stringify(from)}, ${JSON.stringify(to)}).catch((error) => {
      console.log(error.name, error.message, error.remedy);
    });`;
  const args = ['--fsize=8192:8192', process.execPath, '--input-type=module', '-e', copy];
  const { stdout, stderr } = spawnSync('prlimit', args, { encoding: 'utf8' });
  t.match(
    stdout,
    /^OperatorError cannot copy the store in .*store to .*copy \(.+\) free space on the disk/,
    stderr,
  );
});

t.test('whatever the disk of a command refuses ends with what to do, and is not reported as a bug', (t) => {
  for (const [code, remedy] of [
    ['ENOSPC', 'free space on its disk'],
    ['EDQUOT', /quota/],
    ['EROFS', /for writing/],
    ['EIO', /dmesg/],
  ] as const) {
    const error = Object.assign(new Error(`${code}: write`), { code });
    t.match(commandFailure(error), { code: 'failed', message: `${code}: write`, remedy }, code);
  }
  t.match(commandFailure(new TypeError('x is undefined')), { code: 'internal_error' });
  t.end();
});
