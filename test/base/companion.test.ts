import { join } from 'node:path';
import t, { type Test } from 'tap';
import { Companion } from '../../src/base/companion.ts';
import { encodeFrame, readFrames } from '../../src/base/frames.ts';
import { startUnit } from '../support/unit.ts';
import { until } from '../support/until.ts';

const BASE = new URL('../../src/base/', import.meta.url).href;
/** An argument: no add-on is found. */
const WITHOUT = 'without-addon';
/** Answers each message with the message and its charter; `hang` occupies its only thread for longer than it may, `stall` for as long as it may. */
const ECHO = `
if (process.argv.includes('${WITHOUT}')) process.dlopen = () => { throw new Error('none was built'); };
const { Lifeline, openStream, readCharter } = await import('${BASE}companionProgram.ts');
const { encodeFrame, readFrames } = await import('${BASE}frames.ts');
const charter = readCharter();
const lifeline = new Lifeline();
const stream = openStream();
stream.on('close', () => process.exit(0));
readFrames(stream, 1000, (message) => {
  if (message === 'hang') lifeline.within(200, () => { for (;;); });
  if (message === 'stall') setTimeout(() => lifeline.within(300_000, () => { for (;;); }));
  stream.write(encodeFrame({ message, charter, pid: process.pid, variables: Object.keys(process.env) }));
});
`;
const KEEPER = `
import { keepCompanions } from '${BASE}keeper.ts';
const [, , program, ...args] = process.argv;
keepCompanions({ program, args, execArgv: [], environment: { PATH: '/' }, charter: 'unit' }, 2);
`;

interface Echo {
  message: unknown;
  charter: unknown;
  pid: number;
  variables: string[];
}

function start(t: Test, charter: unknown, args: string[] = []): Companion {
  const companion = Companion.start({
    program: join(t.testdir({ 'echo.mjs': ECHO }), 'echo.mjs'),
    args,
    execArgv: [],
    environment: { PATH: '/usr/bin:/bin' },
    charter,
    onOutput: (line) => t.comment(line),
  });
  t.teardown(() => companion.kill());
  return companion;
}

function ask({ stream, gone }: Companion, message: unknown): Promise<Echo> {
  const { promise, resolve, reject } = Promise.withResolvers<Echo>();
  stream.removeAllListeners('data');
  readFrames(stream, 1_000_000, (answer) => resolve(answer as Echo));
  void gone.then((reason) => reject(new Error(reason)));
  stream.write(encodeFrame(message));
  return promise;
}

t.test('a child gets its startup options, but not the environment', async (t) => {
  const charter = { may: 'echo', long: 'x'.repeat(200_000) };
  const companion = start(t, charter);
  const echo = await ask(companion, { number: 1 });
  t.match(echo, { message: { number: 1 }, charter, pid: companion.pid });
  t.strictSame([echo.variables], [['PATH']]);
  companion.kill();
  t.equal(await companion.gone, 'the process ended with SIGKILL');
});

for (const args of [[], [WITHOUT]]) {
  const how = args.length === 0 ? '' : ', without the add-on too';

  t.test(`a child that hangs for longer than it may ends itself${how}`, async (t) => {
    const companion = start(t, null, args);
    await ask(companion, 'hello');
    companion.stream.write(encodeFrame('hang'));
    t.equal(await companion.gone, 'the process ended with SIGKILL');
  });

  t.test(`a child that hangs ends with the process that started it${how}`, async (t) => {
    const dir = t.testdir({ 'echo.mjs': ECHO, 'keeper.mjs': KEEPER });
    const unit = await startUnit(t, [join(dir, 'keeper.mjs'), join(dir, 'echo.mjs'), ...args]);
    const { pid } = await ask(Companion.reach(unit.socket), 'stall');
    t.ok(isAlive(pid));
    unit.process.kill('SIGKILL');
    await t.resolves(until('it ends', () => !isAlive(pid)));
  });
}

t.test('a child ends with its stream', async (t) => {
  const companion = start(t, null);
  await ask(companion, 'hello');
  companion.stream.destroy();
  t.equal(await companion.gone, 'the process ended with status 0');
});

t.test('a message that is too long or not JSON ends the stream', async (t) => {
  for (const bytes of [encodeFrame('x'.repeat(2000)), Buffer.from([0, 0, 0, 1, 0x7b])]) {
    const companion = start(t, null);
    await ask(companion, 'hello');
    companion.stream.write(bytes);
    t.equal(await companion.gone, 'the process ended with status 0');
  }
});

t.test('a message arrives whole, however its bytes are split', async (t) => {
  const companion = start(t, null);
  await ask(companion, 'hello');
  companion.stream.removeAllListeners('data');
  const answered = Promise.withResolvers<unknown>();
  readFrames(companion.stream, 10_000, (answer) => answered.resolve((answer as Echo).message));
  for (const byte of encodeFrame({ text: 'größe' })) companion.stream.write(Buffer.of(byte));
  t.strictSame(await answered.promise, { text: 'größe' });
});

t.test('a unit gives each connection a process of its own, up to a limit', async (t) => {
  const dir = t.testdir({ 'echo.mjs': ECHO, 'keeper.mjs': KEEPER });
  const { socket, process: keeper } = await startUnit(t, [join(dir, 'keeper.mjs'), join(dir, 'echo.mjs')]);
  const [one, two] = [Companion.reach(socket), Companion.reach(socket)];
  const echoes = await Promise.all([ask(one, 1), ask(two, 2)]);
  t.match(echoes, [
    { message: 1, charter: 'unit', variables: ['PATH'] },
    { message: 2, charter: 'unit' },
  ]);
  t.not(echoes[0].pid, echoes[1].pid);
  t.equal(await Companion.reach(socket).gone, 'the unit closed the connection', 'a third is refused');
  one.kill();
  await t.resolves(until('a companion ends with its connection', () => !isAlive(echoes[0].pid)));
  const next = Companion.reach(socket);
  t.match(await ask(next, 3), { message: 3 }, 'which makes room for another');
  keeper.kill('SIGKILL');
  t.equal(await next.gone, 'the unit closed the connection', 'all end with their keeper');
});

t.test('a missing unit is reported at once', async (t) => {
  const { gone } = Companion.reach(join(t.testdir(), 'missing'));
  t.match(await gone, /ENOENT/);
});

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
