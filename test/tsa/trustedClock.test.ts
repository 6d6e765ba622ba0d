import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { parseChronyTracking, parseTimedatectl, readSynchronization } from '../../src/tsa/synchronization.ts';
import { openTrustedClock, type TrustedClock, type TrustedClockOptions } from '../../src/tsa/trustedClock.ts';

/** What chronyc 4.3 (`-n -c tracking`) printed, with two chronyd on one machine. */
const CHRONY = {
  synchronized:
    '7F000001,127.0.0.1,4,1795221336.977692754,-0.000001288,0.000000038,0.000003888,-0.013,0.000,0.037,0.000005999,0.000001275,1.0,Normal\n',
  starting:
    '7F000001,127.0.0.1,4,1795221325.506830772,-0.000004674,0.000002011,0.000002011,3.808,0.000,192.524,0.000014339,0.000093468,0.3,Normal\n',
  unsynchronized:
    '00000000,,0,0.000000000,0.000000000,0.000000000,0.000000000,0.000,0.000,0.000,1.000000000,1.000000000,0.0,Not synchronised\n',
  local:
    '7F7F0101,,3,1795221323.822843853,0.000000000,0.000000000,0.000000000,0.000,0.000,0.000,0.000000000,0.000000000,0.0,Normal\n',
};
/** The same line after days without a server: the dispersion has grown. */
const FAR_OFF = CHRONY.synchronized.replace(',0.000005999,0.000001275,', ',0.300000000,1.100000000,');

t.test('the output of chronyc gives synchronization and error bound', async (t) => {
  const bound = (text: string) => parseChronyTracking(text).errorBoundMs;
  t.match(parseChronyTracking(CHRONY.synchronized), { synchronized: true, detail: 'chrony: stratum 4' });
  // |offset| + dispersion + delay / 2, in milliseconds
  t.ok(Math.abs((bound(CHRONY.synchronized) ?? 0) - 0.0055625) < 1e-9);
  t.ok(Math.abs((bound(CHRONY.starting) ?? 0) - 0.1053115) < 1e-9);
  t.ok(Math.abs((bound(FAR_OFF) ?? 0) - 1250.001288) < 1e-9);
  t.strictSame(parseChronyTracking(CHRONY.unsynchronized), {
    synchronized: false,
    detail: 'chrony: Not synchronised',
  });
  t.match(parseChronyTracking(CHRONY.local), { synchronized: false, detail: /its own clock only/ });
  t.match(parseChronyTracking(CHRONY.synchronized.replace('Normal', 'Insert second')), {
    synchronized: true,
  });
  t.match(parseChronyTracking(CHRONY.synchronized.replace('Normal', 'Whatever')), { synchronized: false });
  for (const text of [
    '',
    '506 Cannot talk to daemon\n',
    'a,b,c',
    CHRONY.synchronized.replace('0.000005999', ''),
    CHRONY.synchronized.replace('-0.000001288', 'x'),
  ]) {
    t.throws(() => parseChronyTracking(text), /not one line of tracking/, text);
  }
});

t.test('the output of timedatectl gives synchronization', async (t) => {
  t.match(parseTimedatectl('NTPSynchronized=yes\n'), { synchronized: true, errorBoundMs: undefined });
  t.match(parseTimedatectl('NTPSynchronized=no\n'), { synchronized: false });
  for (const text of ['', 'NTPSynchronized=\n', 'CanNTP=yes\n']) t.throws(() => parseTimedatectl(text), text);
});

t.test('a program that fails, hangs or floods gives an error', async (t) => {
  const run = (script: string) =>
    readSynchronization({ trust: 'chrony', program: '/bin/sh', arguments: ['-c', script] });
  t.match(await run(`printf '${CHRONY.synchronized.trim()}'`), { synchronized: true });
  await t.rejects(run('exit 1'));
  await t.rejects(run('yes'), { code: 'ERR_CHILD_PROCESS_STDIO_MAXBUFFER' });
  await t.rejects(run('echo "$PATH"'), /not one line of tracking/);
  await t.rejects(readSynchronization({ trust: 'chrony', program: '/nonexistent/chronyc' }), {
    code: 'ENOENT',
  });
  t.match(await readSynchronization({ trust: 'system' }), { synchronized: true });
});

t.test('a unit that asks chronyd can answer through a socket', async (t) => {
  const path = join(mkdtempSync(join(tmpdir(), 'clock-')), 'socket');
  t.teardown(() => rmSync(dirname(path), { recursive: true }));
  const asked = { trust: 'chrony', program: '/nonexistent/chronyc', socket: path } as const;
  await t.rejects(readSynchronization(asked), { code: 'ENOENT' });
  let answer = CHRONY.synchronized;
  const server = createServer((socket) => socket.on('error', () => {}).end(answer)).listen(path);
  t.teardown(() => server.close());
  await once(server, 'listening');
  t.match(await readSynchronization(asked), { synchronized: true, detail: 'chrony: stratum 4' });
  answer = '';
  await t.rejects(readSynchronization(asked), /not one line of tracking/);
  answer = 'y\n'.repeat(100_000);
  await t.rejects(readSynchronization(asked), /too long/);
});

const START = Date.parse('2026-03-04T12:00:00Z');

const UNKNOWN: TrustedClockOptions['source'] = { trust: 'chrony', program: '/nonexistent/chronyc' };

interface Bench {
  clock: TrustedClock;
  /** Both clocks go on. */
  pass(ms: number): void;
  /** Somebody sets the wall clock. */
  step(ms: number): void;
  /** What chronyc prints from now on; undefined: it fails. */
  say(text: string | undefined): void;
  log(): string;
}

async function openBench(
  t: Test,
  options: Partial<Omit<TrustedClockOptions, 'clock' | 'monotonicMs' | 'logger'>> = {},
): Promise<Bench> {
  const output = join(t.testdir({ tracking: CHRONY.synchronized }), 'tracking');
  const lines: string[] = [];
  let [wall, monotonic] = [START, 5000];
  const clock = await openTrustedClock({
    source: { trust: 'chrony', program: '/bin/cat', arguments: [output] },
    accuracyMs: 100,
    newest: START - 60_000,
    clock: () => wall,
    monotonicMs: () => monotonic,
    ...(options.source?.trust !== 'system' && { intervalMs: 10_000 }),
    logger: pino({}, { write: (line: string) => void lines.push(line) }),
    ...options,
  });
  t.teardown(() => clock.close());
  return {
    clock,
    pass: (ms) => {
      wall += ms;
      monotonic += ms;
    },
    step: (ms) => {
      wall += ms;
    },
    say: (text) => (text === undefined ? rmSync(output) : writeFileSync(output, text)),
    log: () => lines.join(''),
  };
}

const distrusts = (t: Test, { clock }: Bench, trouble: string, message: RegExp) => {
  t.throws(() => clock.now(), { name: 'TimestampUnavailable', trouble, message });
  t.notOk(clock.isTrusted());
  t.match(clock.status(), { trust: 'chrony', trouble });
};

t.test('a trusted clock is used unchanged', async (t) => {
  const bench = await openBench(t);
  t.equal(bench.clock.now(), START);
  bench.pass(29_000);
  t.equal(bench.clock.now(), START + 29_000);
  t.match(bench.clock.status(), { trust: 'chrony', detail: 'chrony: stratum 4', errorBoundMs: Number });
  t.equal(bench.log(), '');
});

t.test('without a trusted clock the date advances by itself, and then follows the trusted one', async (t) => {
  const lastDate = START - 3_600_000;
  const bench = await openBench(t, { lastDate });
  const { clock } = bench;
  t.equal(clock.date(), START, 'that of the system clock, which is trusted');
  t.equal(clock.vouched(), START);
  bench.pass(1000);
  bench.step(26 * 3_600_000);
  t.equal(clock.date(), START + 1000, 'a jump moves it nowhere');
  t.equal(clock.vouched(), undefined);
  bench.pass(500);
  bench.step(-26 * 3_600_000);
  t.equal(clock.date(), START + 1500);
  t.equal(clock.vouched(), START + 1500);
  bench.say(CHRONY.unsynchronized);
  await clock.read();
  bench.step(-366 * 86_400_000);
  bench.pass(7000);
  t.equal(clock.date(), START + 8500, 'nor one that is back by a year');
  bench.say(CHRONY.synchronized);
  bench.step(366 * 86_400_000 + 40);
  await clock.read();
  t.equal(clock.date(), START + 8540);

  bench.say(CHRONY.unsynchronized);
  const boot = await openBench(t, { lastDate, source: UNKNOWN });
  t.equal(boot.clock.date(), lastDate, 'at the start it is the last one of before');
  boot.pass(5);
  t.equal(boot.clock.date(), lastDate + 5);
  const believed = await openBench(t, { source: { trust: 'system' } });
  t.equal(believed.clock.date(), START);
  t.equal(believed.clock.vouched(), undefined, 'nobody vouches for what is believed as it is');
});

t.test('without synchronization there is no time, and this is reported once', async (t) => {
  for (const [text, trouble, message] of [
    [CHRONY.unsynchronized, 'clock_unsynchronized', /Not synchronised/],
    [CHRONY.local, 'clock_unsynchronized', /its own clock only/],
    [FAR_OFF, 'clock_imprecise', /wrong by 1251 ms, more than the 100 ms/],
    ['506 Cannot talk to daemon\n', 'clock_unknown', /cannot be asked/],
    [undefined, 'clock_unknown', /cannot be asked/],
  ] as const) {
    const bench = await openBench(t);
    bench.say(text);
    await bench.clock.read();
    distrusts(t, bench, trouble, message);
    await bench.clock.read();
    t.equal(bench.log().split('is not trusted').length, 2, 'once');

    const recovered = bench.clock.recovered(new AbortController().signal);
    bench.say(CHRONY.synchronized);
    await bench.clock.read();
    await recovered;
    t.equal(bench.clock.now(), START);
    t.match(bench.log(), /trusted again/);
  }
});

t.test('a reading is valid for three intervals', async (t) => {
  const bench = await openBench(t);
  bench.pass(30_000);
  t.ok(bench.clock.isTrusted());
  bench.pass(1);
  distrusts(t, bench, 'clock_unknown', /has not answered for too long/);
});

t.test('between readings, the error bound grows only by the drift', async (t) => {
  const bench = await openBench(t, { accuracyMs: 1 });
  const initial = bench.clock.status().errorBoundMs ?? 0;
  bench.pass(20_000);
  const later = bench.clock.status().errorBoundMs ?? 0;
  t.ok(Math.abs(later - initial - 0.3) < 1e-9, '15 ppm of 20 s');
});

for (const ms of [-150, 150, -3_600_000, 3_600_000]) {
  t.test(`a step of ${ms} ms is distrusted until the source has had time to notice it`, async (t) => {
    const bench = await openBench(t, { newest: 0 });
    bench.step(Math.sign(ms) * 90);
    t.ok(bench.clock.isTrusted(), 'within the accuracy');
    bench.step(ms - Math.sign(ms) * 90);
    distrusts(t, bench, 'clock_stepped', /it was set/);
    await bench.clock.read();
    distrusts(t, bench, 'clock_stepped', /it was set/);
    bench.pass(29_000);
    await bench.clock.read();
    distrusts(t, bench, 'clock_stepped', /it was set/);
    bench.pass(1_000);
    distrusts(t, bench, 'clock_stepped', /it was set/);
    await bench.clock.read();
    t.equal(bench.clock.now(), START + 30_000 + ms, 'the source has had its time to notice');
  });
}

t.test('where no source is asked, a clock that was set right is trusted within seconds', async (t) => {
  const bench = await openBench(t, { source: { trust: 'system' } });
  bench.step(-3_600_000);
  t.match(bench.clock.status(), { trouble: 'clock_stepped' });
  await bench.clock.read();
  bench.pass(60_000);
  await bench.clock.read();
  t.match(bench.clock.status(), { trouble: 'clock_backwards' });
  bench.step(3_605_000); // nobody sets it to the millisecond
  await bench.clock.read();
  t.notOk(bench.clock.isTrusted());
  const recovered = bench.clock.recovered(AbortSignal.timeout(60_000));
  bench.pass(5_000);
  const alive = setInterval(() => {}, 1000); // the look alone keeps no process alive
  await recovered;
  clearInterval(alive);
  t.ok(bench.clock.isTrusted(), 'it looks by itself');
  bench.pass(3_600_000);
  t.ok(bench.clock.isTrusted(), 'and needs no reading to go on');
});

const DAY = 86_400_000;
const SYSTEM = { source: { trust: 'system' }, aheadMsMax: DAY } as const;

/** The wall clock is set, and nobody notices anything within the time in which a step can be taken back. */
async function jump(bench: Bench, ms: number): Promise<void> {
  bench.step(ms);
  await bench.clock.read();
  bench.pass(5_000);
  await bench.clock.read();
}

t.test(
  'without a source, a clock that is more than a day ahead is not trusted until it is accepted',
  async (t) => {
    const bench = await openBench(t, SYSTEM);
    t.throws(() => bench.clock.acceptDate(), { code: 'invalid_request', message: /\(it is trusted\)/ });
    await jump(bench, DAY - 10_000);
    t.ok(bench.clock.isTrusted(), 'a day is not far');
    await jump(bench, 730 * DAY);
    t.match(bench.clock.status(), {
      trouble: 'clock_ahead',
      detail: /it says 2028-.*, but by the last trusted date and the time since, it is 2026-03-05T/,
    });
    t.notOk(bench.clock.isTrusted());
    t.equal(bench.clock.date(), START + DAY, 'nothing expires by it');
    bench.pass(3 * DAY);
    t.notOk(bench.clock.isTrusted(), 'nor does time mend it');
    const recovered = bench.clock.recovered(AbortSignal.timeout(60_000));
    const { from, to } = bench.clock.acceptDate();
    await recovered;
    t.strictSame([from, to], [START + 4 * DAY, bench.clock.now()]);
    t.ok(bench.clock.isTrusted());
    bench.clock.raiseFloor(bench.clock.now());
    await jump(bench, -730 * DAY);
    t.throws(
      () => bench.clock.acceptDate(),
      { message: /clock_stepped|clock_backwards/ },
      'only a date that is ahead',
    );
    await jump(bench, 730 * DAY);
    t.ok(bench.clock.isTrusted(), 'and it goes on');
  },
);

t.test('a stop of more than a day is a jump, too, for a log that has leaves', async (t) => {
  const stopped = await openBench(t, { ...SYSTEM, newest: START - 7 * DAY, lastDate: START - 6 * DAY });
  t.match(stopped.clock.status(), {
    trouble: 'clock_ahead',
    detail: /it says 2026-03-04T12.*it is 2026-02-26T12/,
  });
  const weekend = await openBench(t, { ...SYSTEM, newest: START - 7 * DAY, lastDate: START - DAY });
  t.ok(weekend.clock.isTrusted(), 'the last date of the daemon counts, also where nothing was sealed since');
  const sealed = await openBench(t, { ...SYSTEM, newest: START - DAY, lastDate: START - 6 * DAY });
  t.ok(sealed.clock.isTrusted(), 'as does the newest time in the log');
  const empty = await openBench(t, { ...SYSTEM, newest: 0, lastDate: START - 700 * DAY });
  t.ok(empty.clock.isTrusted());
  const unjudged = await openBench(t, { source: SYSTEM.source, lastDate: START - 700 * DAY });
  t.ok(unjudged.clock.isTrusted(), 'where nobody can accept the date');
  t.equal(unjudged.clock.date(), START);
  const vouched = await openBench(t, {
    aheadMsMax: DAY,
    newest: START - 700 * DAY,
    lastDate: START - 700 * DAY,
  });
  t.ok(vouched.clock.isTrusted(), 'a source knows the date');
});

t.test('a step that is taken back restores trust', async (t) => {
  const bench = await openBench(t);
  bench.step(5000);
  t.notOk(bench.clock.isTrusted());
  bench.step(-5000);
  t.ok(bench.clock.isTrusted());
});

t.test('a step past the accuracy is distrusted until a reading, and later jitter is not', async (t) => {
  const bench = await openBench(t, { newest: 0 });
  bench.step(-100);
  t.ok(bench.clock.isTrusted(), 'it is within the accuracy');
  bench.step(-1);
  distrusts(t, bench, 'clock_stepped', /it was set/);
  bench.step(1);
  distrusts(t, bench, 'clock_stepped', /it was set/);
  bench.pass(30_000);
  await bench.clock.read();
  for (const jitter of [-1, 1, 1, -1]) {
    bench.step(jitter);
    t.ok(bench.clock.isTrusted(), 'the source has had its time to notice');
  }
});

t.test('no time before the newest one of the log is given', async (t) => {
  const bench = await openBench(t, { newest: START + 100 });
  t.equal(bench.clock.now(), START + 100, 'within the accuracy it is the same time, and that of the log');
  bench.clock.raiseFloor(START + 101);
  distrusts(t, bench, 'clock_backwards', /newest time in the log is 2026-03-04T12:00:00.101Z/);
  bench.clock.raiseFloor(START);
  distrusts(t, bench, 'clock_backwards', /newest time/);
  bench.pass(1);
  t.equal(bench.clock.now(), START + 101);
});

t.test('time never goes back unless the clock was set', async (t) => {
  const bench = await openBench(t, { newest: 0 });
  const { clock } = bench;
  bench.pass(60);
  t.equal(clock.now(), START + 60);
  bench.step(-100);
  t.equal(clock.now(), START + 60);
  bench.pass(101);
  t.equal(clock.now(), START + 61);
  bench.step(-3_600_000);
  t.notOk(clock.isTrusted());
  bench.pass(30_000);
  await clock.read();
  t.equal(clock.now(), START + 30_061 - 3_600_000, 'nothing was sealed since it was set back');
});

t.test('a wait for the clock can be aborted', async (t) => {
  const bench = await openBench(t);
  bench.say(undefined);
  await bench.clock.read();
  const stop = new AbortController();
  const waiting = bench.clock.recovered(stop.signal);
  stop.abort();
  await waiting;
  t.notOk(bench.clock.isTrusted());
});
