import { connect } from 'node:net';
import type { ClientBase } from 'pg';
import { UnknownOutcome } from '../store.ts';
import { COMMIT_MS_MAX, commitForSure, Unsure } from './pgSession.ts';

const CANCEL_MS_MAX = 5_000;
/** The code of a CancelRequest, in the place of a protocol version. */
const CANCEL_REQUEST = 80_877_102;

/** Begins a transaction that writes to the log of the server, so that the commit of a mere read waits for the disk and for standbys. */
export async function beginBarrier(client: ClientBase): Promise<void> {
  await client.query(`BEGIN; SELECT pg_logical_emit_message(true, 'pdfseal', '')`);
}

/** Resolves when everything that the transaction has read is durable. If that cannot be determined, it is read again. */
export async function passBarrier(client: ClientBase, msMax: number): Promise<void> {
  try {
    await commitForSure(client, msMax);
  } catch (error) {
    cancel(client);
    throw error instanceof UnknownOutcome ? new Unsure(error) : error;
  }
}

/** Once this resolves, everything that the server shows from then on is durable. */
export async function commitBarrier(client: ClientBase, msMax = COMMIT_MS_MAX): Promise<void> {
  await beginBarrier(client);
  await passBarrier(client, msMax);
}

/**
 * Requests that the server end its work for an abandoned session. A COMMIT that waits for standbys does not notice that its client is gone:
 * such connections would pile up until the server has none left, and without one, the standbys for which they wait cannot be rewound. Not
 * for a transaction with writes: others see these once the wait is ended.
 */
function cancel(client: ClientBase): void {
  const { host, port, processID, secretKey } = client as unknown as {
    host: string;
    port: number;
    processID: number | null;
    secretKey: number | null;
  };
  if (processID === null || secretKey === null) return;
  const request = Buffer.alloc(16);
  for (const [place, value] of [request.length, CANCEL_REQUEST, processID, secretKey].entries())
    request.writeInt32BE(value, 4 * place);
  const socket = host.startsWith('/') ? connect(`${host}/.s.PGSQL.${port}`) : connect(port, host);
  socket.on('error', () => {}); // A server that is gone keeps no connection.
  socket.setTimeout(CANCEL_MS_MAX, () => socket.destroy());
  socket.end(request);
}
