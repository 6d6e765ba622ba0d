/** A command whose disk takes no more says so in one line. */
import { spawnSync } from 'node:child_process';
import { statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { createStore } from '../../src/store/lmdb/open.ts';
import { epoch, identity } from '../store/samples.ts';

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
  t.match(run('--json').stderr.trimEnd().split('\n').at(-1), /^\{"error":\{.*make room on it/);
});
