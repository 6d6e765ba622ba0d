/** Bodies in pieces of one byte, each of which Node makes an object of 200 bytes. */
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import type { IncomingMessage } from 'node:http';
import { connect, type Socket } from 'node:net';
import { setImmediate as nextTurn } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { BulkLines, LINE_BYTES_MAX } from '../../src/http/bulkLines.ts';
import { readBody } from '../../src/web/response.ts';
import { openWitnessServer, type WitnessServerOptions } from '../../src/witness/witnessServer.ts';
import { bytesInUse } from '../support/heap.ts';
import { until } from '../support/until.ts';

const PIECE = '1\r\nx\r\n';
const BEGIN = 'POST /add-checkpoint HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n';
const COUNT = 20_000;
/** A body without its objects takes less than this, and with them more, for each of its bytes. */
const BYTES_PER_BYTE_MAX = 50;

/** Sends a part of a body in pieces, and returns by how much the memory in use has grown once all of them were read. */
async function growthWith(t: Test, port: number): Promise<number> {
  let reader: Socket | undefined;
  const onStart = (message: unknown) => {
    reader = (message as { request: IncomingMessage }).request.socket;
  };
  subscribe('http.server.request.start', onStart);
  t.teardown(() => unsubscribe('http.server.request.start', onStart));
  const client = connect(port, '127.0.0.1');
  t.teardown(() => client.destroy());
  const before = bytesInUse();
  client.write(`${BEGIN}\r\n${PIECE.repeat(COUNT)}`);
  await until('everything sent was read', () => reader?.bytesRead === client.bytesWritten);
  return bytesInUse() - before;
}

t.test('a witness keeps the bytes of a body, and not its pieces', async (t) => {
  const parts: unknown = { witness: { addCheckpoint: () => t.fail('no body is whole') }, logger: console };
  const server = await openWitnessServer({
    ...(parts as WitnessServerOptions),
    listen: { host: '127.0.0.1', port: 0 },
  });
  t.teardown(() => server.close());
  const growth = await growthWith(t, 'port' in server.address ? server.address.port : 0);
  t.ok(growth < COUNT * BYTES_PER_BYTE_MAX, `${growth} bytes`);
});

t.test('a client of servers keeps the bytes of an answer, and not its pieces', async (t) => {
  let growth = 0;
  async function* pieces() {
    const before = bytesInUse();
    for (let n = 0; n < COUNT; n += 1) yield Buffer.alloc(1);
    await nextTurn(); // The promises of this turn are in use until its end.
    growth = bytesInUse() - before;
  }
  const answer: unknown = { [Symbol.asyncIterator]: pieces };
  await readBody(answer as IncomingMessage, COUNT);
  t.ok(growth < COUNT * BYTES_PER_BYTE_MAX, `${growth} bytes`);
});

t.test('a batch keeps the bytes of a line, and not its pieces', async (t) => {
  const lines = Array.from({ length: 8 }, () => new BulkLines());
  let ended = 0;
  const before = bytesInUse();
  for (let n = 0; n < LINE_BYTES_MAX; n += 1)
    for (const one of lines) ended += [...one.push(Buffer.alloc(1))].length;
  const growth = bytesInUse() - before;
  t.ok(growth < lines.length * LINE_BYTES_MAX * BYTES_PER_BYTE_MAX, `${growth} bytes`);
  t.equal(ended, 0);
  t.equal(lines.flatMap((one) => [...one.end()]).length, lines.length);
});
