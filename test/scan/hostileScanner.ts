import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import type { Test } from 'tap';
import type { ClamdAddress } from '../../src/scan/session.ts';

/** Something that listens where clamd should, closed with the test. */
export async function listenAs(test: Test, onConnection: (socket: Socket) => void): Promise<ClamdAddress> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => {}).on('close', () => sockets.delete(socket));
    onConnection(socket);
  });
  test.teardown(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { host: '127.0.0.1', port: (server.address() as AddressInfo).port };
}

export interface Impostor {
  address: ClamdAddress;
  /** From now on, what clamd answers goes through this instead of to the client; undefined is honest again. */
  tamper(answer: ((socket: Socket, answer: Buffer) => void) | undefined): void;
  /** Said to every client, unasked. */
  say(text: string): void;
  /** From now on nothing of what a client sends is read. */
  stopReading(): void;
}

/** A real clamd with somebody in between, who is honest at first. */
export async function openImpostor(test: Test, clamd: ClamdAddress): Promise<Impostor> {
  let tampered: ((socket: Socket, answer: Buffer) => void) | undefined;
  const clients = new Set<Socket>();
  const address = await listenAs(test, (socket) => {
    clients.add(socket);
    const upstream = connect({ ...clamd });
    upstream.on('error', () => socket.destroy()).on('close', () => socket.destroy());
    socket.on('close', () => {
      clients.delete(socket);
      upstream.destroy();
    });
    socket.pipe(upstream);
    upstream.on('data', (answer) => {
      if (tampered) tampered(socket, answer);
      else socket.write(answer);
    });
  });
  return {
    address,
    tamper: (answer) => {
      tampered = answer;
    },
    say: (text) => {
      for (const socket of clients) socket.write(text);
    },
    stopReading: () => {
      for (const socket of clients) socket.unpipe().pause();
    },
  };
}
