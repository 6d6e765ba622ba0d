import { spawnSync } from 'node:child_process';
import { closeSync, constants, openSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { createLogger } from '../../src/base/logger.ts';

function capture(level = 'info') {
  const lines: string[] = [];
  const logger = createLogger(level, { write: (line) => void lines.push(line) });
  return { logger, lines };
}

t.test('each message is one line of JSON, whatever a value holds', async (t) => {
  const { logger, lines } = capture();
  logger.info({ route: 'a\n{"level":"fatal"}\r\u2028\u001b[31m' }, 'two\nlines');
  t.equal(lines.length, 1);
  const line = lines[0] ?? '';
  t.equal(line.indexOf('\n'), line.length - 1);
  t.notMatch(line, '\r');
  t.notMatch(line, '\u001b');
  t.match(JSON.parse(lines[0] ?? ''), { level: 'info', route: /fatal/, msg: 'two\nlines' });
});

t.test('messages below the level are not written', async (t) => {
  const { logger, lines } = capture('warn');
  logger.info('no');
  logger.warn('yes');
  t.equal(lines.length, 1);
});

t.test('secrets are not logged', async (t) => {
  const { logger, lines } = capture();
  logger.info({
    authorization: 'S1',
    headers: { authorization: 'S2' },
    pin: 'S3',
    a: { job: { customerReference: 'S4' } },
  });
  t.notMatch(lines.join(''), /S\d/);
});

t.test('errors are logged with stack and causes, but without what a parser attached', async (t) => {
  const { logger, lines } = capture();
  const inner = Object.assign(new SyntaxError('inner'), { body: 'CONFIDENTIAL', code: 'E_INNER' });
  logger.error({ err: new Error('outer', { cause: inner }) }, 'failed');
  const { err } = JSON.parse(lines[0] ?? '');
  t.match(err, {
    type: 'Error',
    message: 'outer',
    stack: /logger\.test/,
    cause: { type: 'SyntaxError', code: 'E_INNER' },
  });
  t.notMatch(lines.join(''), 'CONFIDENTIAL');
});

t.test('a circular chain of causes is cut', async (t) => {
  const { logger, lines } = capture();
  const error = new Error('circle');
  error.cause = error;
  logger.error({ err: error });
  t.equal(lines.length, 1);
});

t.test('any thrown value can be logged', async (t) => {
  const { logger, lines } = capture();
  logger.error({ err: 'a string' });
  t.match(JSON.parse(lines[0] ?? ''), { err: { type: 'string', message: 'a string' } });
});

const program = join(import.meta.dirname, 'chatter.ts');

t.test('no line is lost, however the process ends', async (t) => {
  const linesBefore = { return: 3, exit: 3, fatal: 4 };
  for (const [end, count] of Object.entries(linesBefore)) {
    const { stdout } = spawnSync(process.execPath, [program, end], { encoding: 'utf8' });
    t.equal(stdout.split('\n').length - 1, count, end);
  }
});

t.test('a process ends even if its lines cannot be written', async (t) => {
  const pipe = join(t.testdir(), 'pipe');
  spawnSync('mkfifo', [pipe]);
  const reader = openSync(pipe, constants.O_RDONLY | constants.O_NONBLOCK);
  for (const path of ['/dev/full', pipe]) {
    const { status } = spawnSync(process.execPath, [program, 'flood'], {
      stdio: ['ignore', openSync(path, 'w'), 'inherit'],
      timeout: 10_000,
    });
    t.equal(status, 70, path);
  }
  closeSync(reader);
});

t.test('a changed level applies to children too', async (t) => {
  const lines: string[] = [];
  const logger = createLogger('info', { write: (line) => void lines.push(line) });
  const children = [logger.child({ a: 1 }), logger.child({ b: 2 })];
  const count = () => {
    lines.length = 0;
    for (const one of [logger, ...children]) one.debug('x');
    return lines.length;
  };
  t.equal(count(), 0);
  logger.level = 'debug';
  t.equal(count(), 3);
  logger.level = 'error';
  t.equal(count(), 0);
});
