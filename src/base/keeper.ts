import { createServer, type Socket } from 'node:net';
import type { CompanionProgram } from './companion.ts';
import { STREAM_FD, startChild } from './companion.ts';
import { conceal } from './companionProgram.ts';

/**
 * The main process of a helper process's unit. For each connection on the socket passed by the service manager (descriptor 3), it starts a
 * helper process, which gets the connection as its own descriptor 3. It does not read the connections. A helper process ends with its
 * connection, and all of them end with this process. A connection beyond `companionsMax` concurrent ones is closed. If a helper process
 * exited with `staleStatus`, this process ends as soon as none is left: the service manager then restarts it for the next connection, with
 * the credentials current at that time.
 */
export function keepCompanions(
  { charter, ...program }: Omit<CompanionProgram, 'onOutput'>,
  companionsMax: number,
  staleStatus?: number,
): void {
  conceal();
  let companions = 0;
  let isStale = false;
  const server = createServer({ pauseOnConnect: true }, (socket: Socket) => {
    socket.on('error', () => socket.destroy());
    if (companions >= companionsMax) {
      process.stderr.write(`refused a connection: ${companionsMax} are open\n`);
      socket.destroy();
      return;
    }
    companions += 1;
    const child = startChild(program, charter, ['pipe', 'inherit', 'inherit', socket]);
    const gone = () => {
      companions -= 1;
      if (isStale && companions === 0) process.exit(0);
    };
    child.once('exit', (status) => {
      isStale ||= status === staleStatus;
      gone();
    });
    child.once('error', (error) => {
      process.stderr.write(`cannot start ${program.program}: ${error.message}\n`);
      if (child.pid === undefined) gone();
    });
    // The child owns the connection now. This end would keep it open.
    socket.destroy();
  });
  server.listen({ fd: STREAM_FD });
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => process.exit(0));
}
