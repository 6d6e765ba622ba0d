/** The console of a real daemon: from the command that makes a link to the page, and out again. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import t from 'tap';
import { openPage } from '../page/chromium.ts';
import { ask } from '../support/admin.ts';
import { ENVIRONMENT } from '../support/daemon.ts';
import { programFile } from '../support/programs.ts';
import { openSandbox } from '../support/sandbox.ts';
import { until } from '../support/until.ts';

const SRC = new URL('../../src/', import.meta.url).pathname;

t.test('a person opens the console, sees that all is well, and is logged out', async (t) => {
  const sandbox = await openSandbox({ code: 'dist', tail: '[console]\n', stamped: true });
  t.teardown(() => sandbox.close());
  await sandbox.start();
  const config = ['--config', sandbox.configFile];
  const socket = join(sandbox.dir, 'state', 'console.sock');
  t.equal(statSync(socket).mode & 0o777, 0o660, 'beside the socket of the administration, closed to others');

  const made = await sandbox.pdfseal(['console', 'login', '--as', 'Anna', '--role', 'auditor', ...config]);
  t.equal(made.status, 0, made.stderr);
  t.match(made.stdout, /^http:\/\/sandbox\.localhost:8443\/login\/[\w-]{43}\n$/);
  t.ok(made.stderr.includes(`ssh -L 8443:${socket} `), made.stderr);
  const path = new URL(made.stdout.trim()).pathname;
  const headers = { host: 'localhost:8443', 'sec-fetch-site': 'none' };
  t.match(await ask({ socketPath: socket }, path, 'GET', headers), { status: 200, text: /Anna/ });

  // Without ssh: a command that leads a port to the socket, until it is stopped.
  const program = await programFile('cli', 'dist');
  const opener = spawn(process.execPath, [program, 'console', ...config], {
    env: { ...ENVIRONMENT, SUDO_USER: 'berta' },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  t.teardown(() => opener.kill('SIGKILL'));
  const [url] = (await once(createInterface({ input: opener.stdout }), 'line')) as [string];
  const page = await openPage(t, url);
  t.match(await page.evaluate('document.body.innerText'), /berta.*administrator/s);
  await page.press('Tab');
  await page.press('Enter');
  await page.evaluate(`document.querySelector('main button').focus()`);
  await page.press('Enter');
  await page.until(`location.pathname === '/' && document.readyState === 'complete'`);
  await page.until(`document.querySelector('h1').textContent.startsWith('Sealing normally')`);
  t.match(await page.evaluate('document.body.innerText'), /Backup.*none is on record.*local\/sandbox-2026/s);

  const { origin } = new URL(url);
  await until('every record is sealed', async () => {
    await page.navigate(`${origin}/audit`);
    return (await page.evaluate(`document.querySelector('table').textContent.includes('not yet')`)) === false;
  });
  await page.evaluate(`document.querySelector('form[action="/audit/check"] button').click()`);
  await page.until(`document.querySelector('h1').textContent === 'The records are complete and unaltered'`);

  await page.navigate(`${origin}/care/epochs`);
  t.match(await page.evaluate('document.body.innerText'), /Epoch 1.*in force.*local\/sandbox-2026/s);
  await page.navigate(`${origin}/care/configuration?keys=all`);
  t.match(await page.evaluate('document.body.innerText'), /sandbox\.toml.*console\.listen/s);
  await page.navigate(`${origin}/care`);
  const drill = await page.evaluate(`document.querySelector('#drill').innerText`);
  t.match(drill, /The quorum needs every partition/, 'the only partition must stay');
  await page.evaluate(`document.querySelector('#backup button').click()`);
  await page.until(
    `document.querySelector('[role=status]')?.textContent.startsWith('The backup is requested')`,
  );
  t.ok(existsSync(join(sandbox.dir, 'state', 'backup-asked.json')), 'for the unit that waits for it');
  const copies = ['--output', join(sandbox.dir, 'copies'), '--dated'];
  t.match(await sandbox.pdfseal(['backup', ...copies, ...config]), { status: 0 });
  await page.navigate(`${origin}/care`);
  t.match(await page.evaluate(`document.querySelector('#backup').innerText`), /last backup succeeded/);
  await page.navigate(`${origin}/access/sessions`);
  t.match(await page.evaluate(`document.querySelector('#sessions').innerText`), /berta.*this session/s);
  for (const path of ['/access/quotas', '/access/webhooks']) {
    await page.navigate(`${origin}${path}`);
    t.match(await page.evaluate('document.body.innerText'), /No (clients|webhook endpoints)/, path);
  }

  const logout = (...whose: string[]) => sandbox.pdfseal(['console', 'logout', ...whose, ...config]);
  t.match(await logout(), { status: 64, stderr: /name a person with --as, or use --all/ });
  t.match(await logout('--as', 'Anna', '--all'), { status: 64, stderr: /cannot be used with/ });
  t.match(await logout('--as', 'anna'), { status: 0, stderr: /ended 0 sessions/ });
  t.match(await logout('--all'), { status: 0, stderr: /ended 1 session/ });
  await page.navigate(`${origin}/`);
  await page.until(`document.querySelector('h1').textContent === 'Sign in'`);
  t.match(await ask({ socketPath: socket }, path, 'GET', headers), { status: 410 }, 'the other link too');
  t.strictSame(
    page.complaints.filter((text) => !/401|409/.test(text)),
    [],
  );

  const listed = await sandbox.pdfseal(['audit', 'list', '--json', ...config]);
  const acts = listed.stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
    .filter(({ act }) => act.startsWith('console.'));
  t.match(acts, [
    {
      act: 'console.invite',
      actor: { via: 'administration', uid: process.getuid?.() },
      object: { name: 'Anna', role: 'auditor' },
    },
    { act: 'console.invite', object: { name: 'berta', role: 'administrator' } },
    { act: 'console.login', actor: { via: 'console', person: 'berta', role: 'administrator' } },
    { act: 'console.logout', object: { name: 'anna', sessions: 0 } },
    { act: 'console.logout_all', object: { sessions: 1 } },
  ]);
  const table = await sandbox.pdfseal(['audit', 'list', ...config]);
  t.match(table.stdout, /console berta \(administrator\)/);
});

t.test('a console login is refused if no console is configured', async (t) => {
  const sandbox = await openSandbox();
  t.teardown(() => sandbox.close());
  await sandbox.start();
  const config = ['--config', sandbox.configFile];
  const login = (name: string) =>
    sandbox.pdfseal(['console', 'login', '--as', name, '--role', 'auditor', ...config]);
  t.match(await login('Anna'), { status: 1, stderr: /no table \[console\].*add the line \[console\]/s });
  t.notOk(existsSync(join(sandbox.dir, 'state', 'console.sock')), 'nothing listens');
  const admin = { socketPath: join(sandbox.dir, 'state', 'admin.sock') };
  const made = await ask(admin, '/console/link?name=Anna&role=auditor', 'POST');
  t.match(made, { status: 404, text: /No console is configured/ });
});

t.test('only a daemon with a console loads its code', async (t) => {
  const files = readdirSync(SRC, { recursive: true, encoding: 'utf8' }).filter(
    (path) => path.endsWith('.ts') && !path.startsWith('console/'),
  );
  const those = (pattern: RegExp) =>
    files.filter((path) => pattern.test(readFileSync(join(SRC, path), 'utf8')));
  t.ok(files.length > 100);
  t.strictSame(those(/^import (?!type\b)[^;]* from '(?:\.\.?\/)+console\/\w+\.ts';/m), []);
  t.strictSame(those(/\bimport\('(?:\.\.?\/)+console\//), ['main/parts.ts']);
});
