import { stopwatch } from '../base/clock.ts';
import type { Presence } from '../base/presence.ts';
import { SlotQueue } from '../base/slotQueue.ts';
import { Slots } from '../base/slots.ts';
import { type BuiltInAuthority, QUERY_BYTES_MAX } from '../tsa/builtInAuthority.ts';
import { readWhole, requireMediaType } from './requestBody.ts';
import { callerOf, type Middleware } from './requestContext.ts';

export interface TimestampOptions {
  authority: Pick<BuiltInAuthority, 'answerQuery'>;
  /** Time limit for the arrival of a query, in milliseconds. */
  bodyTimeoutMs: number;
  /** The clients that send creates. */
  creators: Presence;
}

/** Maximum number of queries at once, including those that wait for the authority. */
export const QUERIES_MAX = 16;
/**
 * Maximum number of queries that the authority processes at once. An HSM makes one signature after another, so a higher number is not
 * faster, and the time-stamp of a batch of jobs waits behind all earlier queries.
 */
export const STAMPED_MAX = 2;

const QUERY_TYPE = 'application/timestamp-query';
const REPLY_TYPE = 'application/timestamp-reply';

/**
 * `POST /v1/timestamp`: the built-in authority by HTTP (RFC 3161, section 3.4). A complete query is answered with 200 and a
 * TimeStampResp, even if the authority rejects the query. Earlier failures are answered with the error envelope.
 */
export function answerTimestampQuery({ authority, bodyTimeoutMs, creators }: TimestampOptions): Middleware {
  const slots = new Slots({ of: 'time-stamp queries', max: QUERIES_MAX });
  const queue = new SlotQueue({ of: 'time-stamps', max: STAMPED_MAX });
  return async (ctx) => {
    requireMediaType(ctx, [QUERY_TYPE], `Content-Type must be ${QUERY_TYPE}, with the query in DER.`);
    const query = await readWhole(ctx, {
      what: 'A query',
      bytesMax: QUERY_BYTES_MAX,
      timeoutMs: bodyTimeoutMs,
    });
    const { clientId } = callerOf(ctx).viewer;
    using held = new DisposableStack();
    held.defer(slots.take(clientId));
    const give = await queue.take(clientId);
    const lap = stopwatch();
    // While clients seal, the place rests as long as the time-stamp took: it uses processor time and an HSM that they need.
    held.defer(() => (creators.isBesideOthers(clientId) ? void setTimeout(give, lap()) : give()));
    // Koa would serialise any other Uint8Array as JSON.
    ctx.body = Buffer.from(await authority.answerQuery(query));
    ctx.type = REPLY_TYPE;
  };
}
