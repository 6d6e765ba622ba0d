import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { type Greed, OTHER_WAYS, type Target, WAYS } from '../journeys/greedy.ts';

export interface GreedOrder {
  /** Undefined: stop. */
  way: string | undefined;
  target: Target;
  /** Against a server that does nothing, so that the greedy client takes its part of the processor and nothing else. */
  isSink: boolean;
}

const ANSWER = 'HTTP/1.1 204 No Content\r\n\r\n';

let greed: Greed | undefined;
const sinkPort = openSink();

/** The greedy client lives in a process of its own; an order in, a word out when it is followed. */
process.on('message', async ({ way, target, isSink }: GreedOrder) => {
  await greed?.stop();
  const { console: _, witness: __, ...toSink } = { ...target, port: await sinkPort };
  greed = way === undefined ? undefined : { ...WAYS, ...OTHER_WAYS }[way]?.(isSink ? toSink : target);
  process.send?.('done');
});
process.on('disconnect', () => process.exit());

/** Answers each head at once, and reads whatever else comes. */
async function openSink(): Promise<number> {
  const server = createServer((socket) => {
    socket.on('error', () => {});
    socket.setEncoding('latin1').on('data', (text: string) => {
      const heads = text.split(' HTTP/1.1\r\n').length - 1;
      if (heads > 0) socket.write(ANSWER.repeat(heads));
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
}
