import { spawnSync } from 'node:child_process';
import { closeSync, fstatSync, mkdtempSync, openSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { EVENTS } from '../../src/base/events.ts';
import { openDatagramAddon, toJournal } from '../../src/base/journal.ts';
import { createLogger } from '../../src/base/logger.ts';
import { LogWriter } from '../../src/base/logWriter.ts';
import { leadsSomewhere, toLink } from '../support/manual.ts';
import { until } from '../support/until.ts';
import { listenAsJournal } from './journal.ts';

/** Where a path is short enough for a socket. */
function socketIn(t: Test): string {
  const dir = mkdtempSync(join(tmpdir(), 'pdfseal-journal-'));
  t.teardown(() => rmSync(dir, { recursive: true, force: true }));
  return join(dir, 'socket');
}

function logTo(path: string) {
  const writer = new LogWriter(toJournal(openDatagramAddon(), path));
  return { writer, logger: createLogger('debug', writer) };
}

t.test('each line is an entry, with priority, id and fields', async (t) => {
  const path = socketIn(t);
  const { entries, read } = await listenAsJournal(t, path);
  read();
  const { logger } = logTo(path);
  logger.info({ request_id: 'req_1', job_id: 'job_1', client_id: 'erp', status: 202, list: [1] }, 'request');
  logger.warn(
    { event: 'partition_lost', partition: 'eu/a', route: '\u001b[31m', detail: 'two\nlines "here"' },
    'HSM partition',
  );
  logger.error({ err: Object.assign(new Error('it broke'), { code: 'EIO' }) }, 'unexpected');
  logger.fatal('the end');
  logger.debug('so much for that');
  await until('all have come', () => entries.length === 5);
  const [request, lost, failed, fatal, debug] = entries;
  t.strictSame(request, {
    MESSAGE: 'request request_id=req_1 job_id=job_1 client_id=erp status=202 list=[1]',
    PRIORITY: '6',
    SYSLOG_IDENTIFIER: 'pdfseald',
    PDFSEAL_REQUEST_ID: 'req_1',
    PDFSEAL_JOB_ID: 'job_1',
    PDFSEAL_CLIENT_ID: 'erp',
    PDFSEAL_STATUS: '202',
  });
  t.match(lost, {
    MESSAGE: 'HSM partition partition=eu/a route="\\u001b[31m" detail="two\\nlines \\"here\\""',
    PRIORITY: '4',
    MESSAGE_ID: EVENTS.partition_lost,
    PDFSEAL_EVENT: 'partition_lost',
    PDFSEAL_DETAIL: 'two\nlines "here"',
  });
  t.match(failed, {
    MESSAGE: 'unexpected err="it broke" err_code=EIO',
    PRIORITY: '3',
    PDFSEAL_ERR: /"stack":/,
  });
  t.match([fatal?.PRIORITY, debug?.PRIORITY], ['2', '7']);
});

t.test('text from a caller cannot control a terminal or hide its message', async (t) => {
  const path = socketIn(t);
  const { entries, read } = await listenAsJournal(t, path);
  read();
  const { logger } = logTo(path);
  const sly = '\u009b2J\u007f\u202etxt';
  logger.info({ detail: sly, list: [sly], err: new Error(sly) }, 'refused');
  await until('it has come', () => entries.length === 1);
  const shown = '"\\u009b2J\\u007f\\u202etxt"';
  t.equal(entries[0]?.MESSAGE, `refused detail=${shown} list=[${shown}] err=${shown}`);
  t.equal(entries[0]?.PDFSEAL_DETAIL, sly);
});

t.test('many messages arrive in order, and one larger than a datagram arrives whole', async (t) => {
  const path = socketIn(t);
  const { entries, read } = await listenAsJournal(t, path);
  read();
  const { logger } = logTo(path);
  const large = 'x'.repeat(600_000);
  for (let n = 0; n < 700; n++) logger.info({ status: n, ...(n === 350 && { reason: large }) }, 'line');
  await until('all have come', () => entries.length === 700);
  t.strictSame(
    entries.map((entry) => Number(entry.PDFSEAL_STATUS)),
    Array.from({ length: 700 }, (_, n) => n),
  );
  t.equal(entries[350]?.PDFSEAL_REASON?.length, large.length);
});

t.test('log lines wait for a journal that is away', async (t) => {
  const path = socketIn(t);
  const { logger } = logTo(path);
  logger.info('early');
  await new Promise((resolve) => setTimeout(resolve, 200));
  const { entries, read } = await listenAsJournal(t, path);
  read();
  await until('the line has come', () => entries.length === 1);
  t.equal(entries[0]?.MESSAGE, 'early');
});

t.test('a journal that hangs costs counted lines, but no time', async (t) => {
  const path = socketIn(t);
  const { entries, read } = await listenAsJournal(t, path);
  const { logger } = logTo(path);
  const lines = 20_000;
  const text = 'x'.repeat(200);
  for (let n = 0; n < lines; n++) logger.info({ text }, 'line');
  read();
  const reports = () => entries.filter(({ MESSAGE_ID }) => MESSAGE_ID === EVENTS.lines_lost);
  const missing = () =>
    reports().reduce((sum, { MESSAGE = '' }) => sum + Number(/lines=(\d+)/.exec(MESSAGE)?.[1]), 0);
  await until('all is accounted for', () => entries.length - reports().length + missing() === lines);
  t.ok(missing() > 0, `${missing()} were lost`);
  t.match(reports()[0], { PRIORITY: '4' });
});

t.test('an output that is not the journal gets JSON', async (t) => {
  const chatter = fileURLToPath(new URL('chatter.ts', import.meta.url));
  const file = join(t.testdir(), 'log');
  const fd = openSync(file, 'w');
  const { dev, ino } = fstatSync(fd, { bigint: true });
  // As when a shell of the unit sends it elsewhere.
  spawnSync(process.execPath, [chatter, 'exit'], {
    stdio: ['ignore', fd, 'inherit'],
    env: { JOURNAL_STREAM: `${dev}:${ino + 1n}` },
  });
  closeSync(fd);
  t.equal(readFileSync(file, 'utf8').trimEnd().split('\n').length, 3);
});

t.test('every event is logged somewhere, has its own id, and is explained', async (t) => {
  const ids = Object.values(EVENTS);
  t.equal(new Set(ids).size, ids.length);
  const src = fileURLToPath(new URL('../../src', import.meta.url));
  const text = readdirSync(src, { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.ts'))
    .map((path) => readFileSync(join(src, path), 'utf8'))
    .join('\n');
  const told = Array.from(text.matchAll(/\bevent(?::| =) '(\w+)'/g), ([, name]) => name);
  t.strictSame([...new Set(told)].sort(), Object.keys(EVENTS).sort());

  const catalog = readFileSync('systemd/pdfseald.catalog', 'utf8');
  const entries = catalog.split(/^# (?=\w+\n-- )/m).slice(1);
  const explained = entries.map((entry) => {
    const [, name = '', id, reference = ''] =
      /^(\w+)\n-- ([0-9a-f]{32})\nSubject: .+\nDefined-By: pdfseald\nDocumentation: man:.+\nDocumentation: file:(\/[\w/#.-]+)\n\n[^\n]/.exec(
        entry,
      ) ?? [];
    t.ok(leadsSomewhere(toLink(reference)), `${name} has a heading to read on`);
    return [name, id];
  });
  t.strictSame(Object.fromEntries(explained), { ...EVENTS });
});

t.test('a process that conceals its memory belongs to root in /proc', async (t) => {
  const script = `
    import { statSync } from 'node:fs';
    import { openDatagramAddon } from '${new URL('../../src/base/journal.ts', import.meta.url).href}';
    const owner = () => statSync('/proc/self/mem').uid;
    const before = owner();
    openDatagramAddon().conceal();
    console.log(before, owner());`;
  // What root runs belongs to root anyway.
  const uid = process.getuid?.() || 65534;
  const { stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', script], {
    uid,
    env: {},
    encoding: 'utf8',
  });
  t.equal(stdout, `${uid} 0\n`, stderr);
});
