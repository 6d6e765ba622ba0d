import { createServer, type Socket } from 'node:net';
import type { CompanionProgram } from './companion.ts';
import { STREAM_FD, startChild } from './companion.ts';
import { conceal } from './companionProgram.ts';

/**
 * The main process of a companion's unit: gives each connection on the socket that the service manager passed (descriptor 3) to a companion
 * of its own, as its descriptor 3. It reads nothing of what they say. A companion ends with its connection, and all of them with this process.
 * A connection beyond `companionsMax` at the same time is closed. If a companion ended with `staleStatus`, this process ends as soon as there is none:
 * the service manager starts it for the next connection, with credentials as they are then.
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
    // The child has it now. This end would keep it open.
    socket.destroy();
  });
  server.listen({ fd: STREAM_FD });
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => process.exit(0));
}
