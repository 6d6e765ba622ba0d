import { stopwatch } from '../base/clock.ts';
import { ServiceError } from '../base/errors.ts';
import { SlotQueue } from '../base/slotQueue.ts';
import { type Middleware, senderOf } from './requestContext.ts';

/** Limits on concurrent reads, in total and per client. */
const UNDER_WAY = { of: 'reads', max: 4, perClientMax: 2 };
/** How long a read waits for its turn; polling a job and fetching its receipt wait without a limit. */
const WAIT_MS_MAX = 10_000;
const RETRY_AFTER_SECONDS = 2;
/** The factor by which the place of a read then rests, so all reads of a client together take about a third of the event loop's time. */
const REST_FACTOR = 5;
const REST_MS_MAX = 1_000;

interface ReadWait {
  /** Whether the read may be refused with `too_many_requests`, and its place rests afterwards. A read of a single job costs little. */
  isRefusable: boolean;
}

/**
 * Lets clients read in turn, because every read takes processor time from all. The client with the fewest reads in progress is next. A read
 * whose client has disconnected is not begun.
 */
export function limitingReads(waitMsMax = WAIT_MS_MAX): (wait: ReadWait) => Middleware {
  const slots = new SlotQueue(UNDER_WAY);
  return ({ isRefusable }) =>
    async (ctx, next) => {
      const waiting = new AbortController();
      const turnAway = (message: string) => waiting.abort(tooManyReads(message));
      const leave = () => turnAway('The client has gone.');
      ctx.res.once('close', leave);
      // The client may have disconnected while its key was looked up.
      if (ctx.res.closed) leave();
      using _late = isRefusable ? setTimeout(() => turnAway(BUSY), waitMsMax) : undefined;
      const give = await slots
        .take(senderOf(ctx), { signal: waiting.signal })
        .finally(() => ctx.res.off('close', leave));
      const lap = stopwatch();
      try {
        await next();
      } finally {
        // The next read of this client begins in a later turn of the event loop, behind requests that have arrived from others.
        if (isRefusable) setTimeout(give, Math.min(REST_FACTOR * lap(), REST_MS_MAX));
        else setImmediate(give);
      }
    };
}

const BUSY = `This client has as many reads under way as it may have now. Repeat the request later, and fewer at a time.`;

function tooManyReads(message: string): ServiceError {
  return new ServiceError('too_many_requests', message, { retryAfterSeconds: RETRY_AFTER_SECONDS });
}
