import { spawnSync } from 'node:child_process';
import { closeSync, constants, openSync, readFileSync, readSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { LogWriter, toDescriptor } from '../../src/base/logWriter.ts';
import { until } from '../support/until.ts';

const LINE = `${JSON.stringify({ level: 'info', text: 'x'.repeat(200) })}\n`;

/** A pipe with a reader that reads only when it is told to. */
function openPipe(t: Test) {
  const path = join(t.testdir(), 'pipe');
  spawnSync('mkfifo', [path]);
  const reader = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  const writer = openSync(path, 'w');
  const buffer = Buffer.alloc(65_536);
  let text = '';
  const read = () => {
    try {
      for (let bytes = 1; bytes > 0; ) {
        bytes = readSync(reader, buffer);
        text += buffer.toString('latin1', 0, bytes);
      }
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') throw error;
    }
    return text;
  };
  return { writer, read, hangUp: () => closeSync(reader) };
}

/** Lines that are whole, and how many the log says are missing. */
function readLog(text: string) {
  const entries = text
    .split('\n')
    .filter((line) => line.startsWith('{') && line.endsWith('}'))
    .map((line) => JSON.parse(line) as { text?: string; msg?: string; lines?: number });
  const reports = entries.filter(({ msg }) => msg?.startsWith('lines of this log are missing here'));
  return {
    written: entries.length - reports.length,
    missing: reports.reduce((sum, { lines = 0 }) => sum + lines, 0),
  };
}

t.test('lines are written together and soon', async (t) => {
  const { writer, read } = openPipe(t);
  const log = new LogWriter(toDescriptor(writer));
  log.write(LINE);
  t.equal(read(), '', 'not at once');
  await until('the line is there', () => read() === LINE);
  for (let n = 0; n < 30; n++) log.write(LINE);
  t.ok(read().length > 4096, 'at once, for there are many');
});

t.test('a reader that hangs costs counted lines, but no time', async (t) => {
  const { writer, read } = openPipe(t);
  const log = new LogWriter(toDescriptor(writer));
  const lines = 20_000;
  for (let n = 0; n < lines; n++) log.write(LINE);
  await until('it reads again and all is accounted for', () => {
    const { written, missing } = readLog(read());
    return missing > 0 && written + missing === lines;
  });
  const { written, missing } = readLog(read());
  t.ok(written * LINE.length > 1_000_000, `${written} lines were kept`);
  t.ok(written * LINE.length < 2_500_000, `and ${missing} were not`);
  log.write(LINE);
  await until('it goes on', () => readLog(read()).written === written + 1);
});

t.test('a reader that has gone costs only lines', async (t) => {
  const { writer, hangUp } = openPipe(t);
  const log = new LogWriter(toDescriptor(writer));
  hangUp();
  for (let n = 0; n < 100; n++) t.doesNotThrow(() => log.write(LINE));
  t.doesNotThrow(() => log.flushSync());
});

t.test('a full disk costs lines; the log goes on with a line of its own when there is room', async (t) => {
  const path = join(t.testdir(), 'log');
  process.on('SIGXFSZ', () => {});
  const log = new LogWriter(toDescriptor(openSync(path, 'w')));
  log.write(LINE);
  log.flushSync();
  // The kernel then refuses to let files grow, as on a full disk: in the middle of the second line.
  const limitFiles = (bytes: string) =>
    t.equal(spawnSync('prlimit', ['--pid', `${process.pid}`, `--fsize=${bytes}:unlimited`]).status, 0);
  limitFiles(`${LINE.length + 10}`);
  for (let n = 0; n < 5; n++) log.write(LINE);
  log.flushSync();
  log.write(LINE);
  log.flushSync();
  limitFiles('unlimited');
  log.write(LINE);
  log.flushSync();
  const text = readFileSync(path, 'utf8');
  t.match(readLog(text), { written: 2, missing: 6 });
  t.equal(text.split('\n')[1], LINE.slice(0, 10), 'what was torn stands alone');
});

t.test('unusual descriptors are written to', async (t) => {
  for (const path of ['/dev/full', '/dev/null']) {
    const log = new LogWriter(toDescriptor(openSync(path, 'w')));
    log.write(LINE);
    t.doesNotThrow(() => log.flushSync(), path);
  }
});
