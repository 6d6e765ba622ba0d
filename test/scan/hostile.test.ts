/** Whatever listens where clamd should can fail the documents it is asked about, and do nothing else. */
import type { Socket } from 'node:net';
import t from 'tap';
import { failureOf, isAvailable, scan, startClamd, startScanner } from '../support/clamd.ts';
import { until } from '../support/until.ts';
import { listenAs, openImpostor } from './hostileScanner.ts';

const CLEAN = Buffer.from('%PDF-1.7\nnothing to find\n%%EOF\n');
const MIB = 1024 * 1024;

/** As fast as it is taken, for as long as the connection lasts. */
function flood(socket: Socket, bytes: Buffer): void {
  const write = () => {
    while (!socket.destroyed && socket.write(bytes));
  };
  socket.on('drain', write);
  write();
}

const FLOOD = Buffer.alloc(MIB, 'x');

t.test('a scanner that is hostile from the start is never used', async (t) => {
  const behaviours: [string, (socket: Socket) => void, RegExp][] = [
    ['silence', (socket) => socket.resume(), /^(timed_out|closed)$/],
    ['a reset', (socket) => socket.resetAndDestroy(), /^(closed|unreachable)$/],
    ['an end', (socket) => socket.end(), /^(closed|garbled|unfit)$/],
    ['garbage', (socket) => socket.write('SSH-2.0-OpenSSH_9.2\r\n'), /^(garbled|timed_out|closed)$/],
    ['another protocol', (socket) => socket.end('HTTP/1.1 400 Bad Request\r\n\r\n'), /^(garbled|closed)$/],
    ['a flood without an end', (socket) => flood(socket, FLOOD), /^(garbled|closed)$/],
    ['a flood of empty answers', (socket) => flood(socket, Buffer.alloc(MIB)), /^(garbled|closed)$/],
    [
      'verdicts nobody asked for',
      (socket) => flood(socket, Buffer.from('1: stream: OK\0')),
      /^(garbled|closed)$/,
    ],
  ];
  for (const [name, behave, trouble] of behaviours) {
    const address = await listenAs(t, behave);
    const { scanner } = await startScanner(t, address, { timeoutMs: 300, retryMs: 600_000 });
    t.match(scanner.health().trouble, trouble, name);
    t.throws(() => scanner.admit(), { code: 'scanner_unavailable' }, name);
    t.equal(await scan(scanner, CLEAN), 'scanner_unavailable', name);
    scanner.close();
  }
});

t.test('a wrong answer of a trusted scanner does not count as a verdict', async (t) => {
  const answers: [string, (socket: Socket, answer: Buffer) => void][] = [
    ['a reset', (socket) => socket.resetAndDestroy()],
    ['an end', (socket) => socket.end()],
    ['half an answer', (socket, answer) => socket.end(answer.subarray(0, 4))],
    ['garbage', (socket) => socket.write('\xff\xfe\0')],
    ['an answer to another question', (socket) => socket.write('999999: stream: OK\0')],
    ['an answer without a number', (socket) => socket.write('stream: OK\0')],
    ['an answer of clamd that ends before it', (socket) => socket.write('1: COMMAND READ TIMED OUT\n\0')],
    ['a long answer', (socket) => socket.write(`1: ${'x'.repeat(5000)}\0`)],
    ['a flood', (socket) => flood(socket, FLOOD)],
    ['no verdict', (socket, answer) => socket.write(String(answer).replace('stream: OK', 'stream: ERROR'))],
    ['almost OK', (socket, answer) => socket.write(String(answer).replace('stream: OK', 'stream: OK '))],
    ['OK, in small letters', (socket, answer) => socket.write(String(answer).replace('OK', 'ok'))],
    [
      'a version in place of a verdict',
      (socket, answer) => socket.write(String(answer).replace('stream: OK', 'ClamAV 1.4.3')),
    ],
  ];
  const clamd = await startClamd(t);
  const impostor = await openImpostor(t, clamd.address);
  const { scanner } = await startScanner(t, impostor.address, { intervalMs: 600_000 });
  for (const [name, answer] of answers) {
    t.match(await scan(scanner, CLEAN), { verdict: 'clean' }, `honest, before ${name}`);
    const one = scanner.scan();
    await one.update(CLEAN);
    impostor.tamper(answer);
    t.equal((await failureOf(one.result())).code, 'scanner_unavailable', name);
    impostor.tamper(undefined);
  }
  t.match(await scan(scanner, CLEAN), { verdict: 'clean' }, 'honest again');
  t.ok(isAvailable(scanner));
});

t.test('a second answer ends the connection, and affects no other document', async (t) => {
  const clamd = await startClamd(t);
  const impostor = await openImpostor(t, clamd.address);
  const { scanner } = await startScanner(t, impostor.address, { intervalMs: 600_000 });
  const one = scanner.scan();
  await one.update(CLEAN);
  impostor.tamper((socket, answer) => socket.write(Buffer.concat([answer, answer])));
  t.match(await one.result(), { verdict: 'clean' });
  impostor.tamper(undefined);
  await until('the connection is gone', () => scanner.health().connections === 0);
  t.match(await scan(scanner, CLEAN), { verdict: 'clean' });
});

t.test('a verdict before the end of the document does not count', async (t) => {
  const clamd = await startClamd(t);
  const impostor = await openImpostor(t, clamd.address);
  const { scanner } = await startScanner(t, impostor.address, { intervalMs: 600_000 });
  const one = scanner.scan();
  await one.update(CLEAN);
  // After the version, five proofs and the version again, the document is the eighth command.
  impostor.say('8: stream: OK\0');
  await until('it was heard', () => scanner.health().connections === 0);
  t.throws(() => one.update(CLEAN), { code: 'scanner_unavailable', cause: { trouble: 'refused' } });
  t.match(await failureOf(one.result()), { code: 'scanner_unavailable', cause: { trouble: 'refused' } });
});

t.test('a silent scanner times out', async (t) => {
  const clamd = await startClamd(t);
  const impostor = await openImpostor(t, clamd.address);
  const { scanner } = await startScanner(t, impostor.address, { timeoutMs: 1_500, intervalMs: 600_000 });
  const unanswered = scanner.scan();
  await unanswered.update(CLEAN);
  impostor.tamper(() => {});
  t.match(await failureOf(unanswered.result()), {
    code: 'scanner_unavailable',
    cause: { trouble: 'timed_out' },
  });
  impostor.tamper(undefined);

  const unread = scanner.scan();
  await unread.update(CLEAN);
  impostor.stopReading();
  let room: Promise<void> | undefined;
  for (let bytes = 0; room === undefined && bytes < 64 * MIB; bytes += MIB) room = unread.update(FLOOD);
  t.match(await failureOf(Promise.resolve(room)), {
    code: 'scanner_unavailable',
    cause: { trouble: 'timed_out' },
  });
  t.match(await failureOf(unread.result()), { code: 'scanner_unavailable', cause: { trouble: 'timed_out' } });
  t.equal(scanner.health().connections, 0);
});
