import { once } from 'node:events';
import { createServer, type ListenOptions, type Server } from 'node:net';

/** Below the range that outgoing connections use. */
const [FIRST, PORTS] = [20_000, 12_000];

let next = process.pid * 16;

/**
 * A port of 127.0.0.1 that nobody listens on, for who has to come back on the port it had, so that it cannot be 0. No other
 * process of the tests is given it while this one lives: so long an abstract socket, named after it, stays taken.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = FIRST + (next++ % PORTS);
    const mark = await listen({ path: `\0pdfseal-tests-port-${port}` });
    if (mark === undefined) continue;
    mark.unref();
    const server = await listen({ port, host: '127.0.0.1' });
    if (server === undefined) continue;
    server.close();
    await once(server, 'close');
    return port;
  }
}

async function listen(where: ListenOptions): Promise<Server | undefined> {
  const server = createServer();
  const { promise, resolve } = Promise.withResolvers<Server | undefined>();
  server.once('error', () => resolve(undefined)).listen(where, () => resolve(server));
  return promise;
}
