/** Care: a backup that somebody asks for, from the button to the copy. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import t from 'tap';
import { systemClock } from '../../src/base/clock.ts';
import { beginBackup } from '../../src/ops/backupRequest.ts';
import { BACKUP_BEGINS_MS_MAX, BACKUP_MS_MAX, Backups } from '../../src/ops/backups.ts';
import { openSandbox } from '../support/sandbox.ts';
import { openTestConsole } from './testConsole.ts';

const UNITS = new URL('../../systemd/units/', import.meta.url);

t.test('an operator asks for a backup, and the unit’s command makes it', async (t) => {
  const sandbox = await openSandbox();
  t.teardown(() => sandbox.close());
  const stateDir = join(sandbox.dir, 'state');
  const trail = {
    append: (act: Parameters<typeof test.store.trail.append>[0]) => test.store.trail.append(act),
  };
  let now = systemClock();
  const clock = () => now;
  const test = await openTestConsole(t, { clock, backups: new Backups({ stateDir, trail, clock }) });
  const { cookie } = test.signedIn('auditor');
  const shown = async () => (await test.get('/care', { cookie })).text;
  const ask = () => test.submit('/care/backup', {}, 'operator');
  const run = (output: string) =>
    sandbox.pdfseal(['backup', '--config', sandbox.configFile, '--output', output, '--dated']);

  t.match(await shown(), /Only an operator or an administrator can request a backup/);
  t.match(await test.submit('/care/backup', {}, 'auditor'), { status: 403 });
  t.match(await test.post('/care/backup', {}, test.signedIn('operator')), { status: 403 }, 'no token');
  const asked = await ask();
  t.match(asked, { status: 303, location: '/care', shown: /The backup is requested.*Requested, .*Berta/s });
  t.notMatch(asked.shown, /Make a backup<\/button>/);
  const unit = readFileSync(new URL('pdfseald-backup@.path', UNITS), 'utf8');
  const [, watched = ''] = /^PathExists=\/var\/lib\/pdfseal\/%i\/(.*)$/m.exec(unit) ?? [];
  const request = join(stateDir, watched);
  t.equal(watched, basename(watched));
  t.ok(existsSync(request), 'the file that the unit waits for');
  t.match(await ask(), { status: 409, text: /already under way/ });
  now += BACKUP_BEGINS_MS_MAX + 1;
  t.match(await shown(), /not started.*systemctl restart pdfseald-backup@test\.path/s);

  const backups = join(sandbox.dir, 'backups');
  mkdirSync(backups);
  t.match(await run(backups), { status: 0 });
  t.notOk(existsSync(request), 'one request is one backup');
  t.match(await shown(), /last backup succeeded/);

  t.match(await ask(), { status: 303 });
  writeFileSync(join(sandbox.dir, 'file'), '');
  t.match(await run(join(sandbox.dir, 'file')), { status: 1 });
  t.notOk(existsSync(request), 'a request that failed is not tried for ever');
  t.match(await shown(), /The last backup failed.*cannot.*write.*journalctl/s);

  beginBackup(stateDir, new Date(now));
  t.match(await shown(), /Running, /);
  t.match(await ask(), { status: 409 });
  now += BACKUP_MS_MAX + 1;
  t.match(await shown(), /is unknown/);
  const service = readFileSync(new URL('pdfseald-backup@.service', UNITS), 'utf8');
  t.match(service, new RegExp(`^TimeoutStartSec=${BACKUP_MS_MAX / 3_600_000}h$`, 'm'));

  const actor = { via: 'console', person: 'Berta', role: 'operator' };
  t.match(await test.acts(), [
    { act: 'backup.ask', actor, outcome: 'begun' },
    { act: 'backup.ask', actor, outcome: 'done', concludes: 1 },
    { act: 'backup.ask', actor, outcome: 'begun' },
    { act: 'backup.ask', actor, outcome: 'done', concludes: 3 },
  ]);
});

t.test('many requests at once make one backup', async (t) => {
  const sandbox = await openSandbox();
  t.teardown(() => sandbox.close());
  const acts: unknown[] = [];
  const trail = { append: async (act: unknown) => acts.push(act) };
  const backups = new Backups({ stateDir: join(sandbox.dir, 'state'), trail, clock: systemClock });
  const actor = { via: 'console', person: 'Berta', role: 'operator' } as const;
  const answers = await Promise.all(Array.from({ length: 5 }, () => backups.ask(actor)));
  t.strictSame(answers, [true, false, false, false, false]);
  t.equal(acts.length, 2);
});
