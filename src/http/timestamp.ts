import { Slots } from '../base/slots.ts';
import { type BuiltInAuthority, QUERY_BYTES_MAX } from '../tsa/authority.ts';
import { readWhole, requireMediaType } from './body.ts';
import { callerOf, type Middleware } from './state.ts';

export interface TimestampOptions {
  authority: Pick<BuiltInAuthority, 'answerQuery'>;
  /** How long a query may take to arrive, milliseconds. */
  bodyTimeoutMs: number;
}

/**
 * How many queries are stamped at once. An HSM signs one after the other, and the time-stamp of a batch of jobs comes after
 * those that are there already: at 70 ms each, these delay it by little more than a second.
 */
export const QUERIES_MAX = 16;

const QUERY_TYPE = 'application/timestamp-query';
const REPLY_TYPE = 'application/timestamp-reply';

/**
 * `POST /v1/timestamp`: the built-in authority by HTTP (RFC 3161, section 3.4). A query that arrived is answered with 200 and
 * a TimeStampResp, also when that rejects it; whatever fails before is told with the error envelope.
 */
export function answerTimestampQuery({ authority, bodyTimeoutMs }: TimestampOptions): Middleware {
  const slots = new Slots({ of: 'time-stamp queries', max: QUERIES_MAX });
  return async (ctx) => {
    requireMediaType(ctx, [QUERY_TYPE], `Content-Type must be ${QUERY_TYPE}, with the query in DER.`);
    const query = await readWhole(ctx, {
      what: 'A query',
      bytesMax: QUERY_BYTES_MAX,
      timeoutMs: bodyTimeoutMs,
    });
    const leave = slots.take(callerOf(ctx).viewer.clientId);
    try {
      // koa would write any other Uint8Array as JSON.
      ctx.body = Buffer.from(await authority.answerQuery(query));
      ctx.type = REPLY_TYPE;
    } finally {
      leave();
    }
  };
}
