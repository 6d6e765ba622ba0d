import { Slots } from '../base/slots.ts';
import { Turns } from '../base/turns.ts';
import { type BuiltInAuthority, QUERY_BYTES_MAX } from '../tsa/builtInAuthority.ts';
import { readWhole, requireMediaType } from './requestBody.ts';
import { callerOf, type Middleware } from './requestContext.ts';

export interface TimestampOptions {
  authority: Pick<BuiltInAuthority, 'answerQuery'>;
  /** How long a query may take to arrive, milliseconds. */
  bodyTimeoutMs: number;
}

/** How many queries are held at once: those that are being stamped, and those that wait for it. */
export const QUERIES_MAX = 16;
/**
 * How many of them the authority has at once. An HSM signs one after the other, so more would not be faster, and the time-stamp of
 * a batch of jobs comes after those that are there already.
 */
export const STAMPED_MAX = 2;

const QUERY_TYPE = 'application/timestamp-query';
const REPLY_TYPE = 'application/timestamp-reply';

/**
 * `POST /v1/timestamp`: the built-in authority by HTTP (RFC 3161, section 3.4). A query that arrived is answered with 200 and
 * a TimeStampResp, also when that rejects it; whatever fails before is told with the error envelope.
 */
export function answerTimestampQuery({ authority, bodyTimeoutMs }: TimestampOptions): Middleware {
  const slots = new Slots({ of: 'time-stamp queries', max: QUERIES_MAX });
  const turns = new Turns({ of: 'time-stamps', max: STAMPED_MAX });
  return async (ctx) => {
    requireMediaType(ctx, [QUERY_TYPE], `Content-Type must be ${QUERY_TYPE}, with the query in DER.`);
    const query = await readWhole(ctx, {
      what: 'A query',
      bytesMax: QUERY_BYTES_MAX,
      timeoutMs: bodyTimeoutMs,
    });
    const { clientId } = callerOf(ctx).viewer;
    const leave = slots.take(clientId);
    try {
      const end = await turns.take(clientId);
      // koa would write any other Uint8Array as JSON.
      ctx.body = Buffer.from(await authority.answerQuery(query).finally(end));
      ctx.type = REPLY_TYPE;
    } finally {
      leave();
    }
  };
}
