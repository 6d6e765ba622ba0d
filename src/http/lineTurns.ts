import { Turns } from '../base/turns.ts';

/** Lines without an answer, and those of one client. They are enough to share signatures, and too few to keep other requests waiting. */
const UNDER_WAY = { of: 'lines of batches', max: 512, perClientMax: 256 };
/** Lines that begin in one turn of the event loop. */
const BEGUN = { of: 'lines of batches', max: 8, perClientMax: 8 };

/**
 * Resolves when it is the turn of a client's line. The function gives the place of the line back. Rejects with the signal's reason.
 */
export type LineTurn = (clientId: string, signal: AbortSignal) => Promise<() => void>;

/**
 * Lets the lines of all batches begin in turn. A batch can send thousands of lines in one packet: here few of them begin before the
 * event loop looks at other connections, and the client with the fewest lines under way is next.
 */
export function linesInTurn(): LineTurn {
  const places = new Turns(UNDER_WAY);
  const beginning = new Turns(BEGUN);
  return async (clientId, signal) => {
    const leave = await places.take(clientId, { signal });
    try {
      setImmediate(await beginning.take(clientId, { signal }));
    } catch (error) {
      leave();
      throw error;
    }
    return leave;
  };
}
