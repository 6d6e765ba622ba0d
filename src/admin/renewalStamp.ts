/** A time-stamp over the root of a renewal, for `pdfseal renew`: keys and authorities are the daemon's. */

import * as z from 'zod';
import { fromHex } from '../base/bytes.ts';
import { toRfc3339 } from '../base/clock.ts';
import { ServiceError } from '../base/errors.ts';
import { WIRE } from '../health/sections/section.ts';
import { invalidField } from '../job/fieldValues.ts';
import type { Timestamping } from '../seal/timestamping.ts';
import { RENEWAL_DIGESTS } from '../store/renewalStore.ts';
import { TimestampUnavailable } from '../tsa/unavailable.ts';

const { time } = WIRE;

export const renewalStampSchema = z.object({
  authority: z.string().describe('Its name in the configuration.'),
  token: z.string().describe('Base64 of the DER of the token (RFC 3161); it was verified.'),
  certificates: z
    .array(z.string())
    .describe('Base64 of the DER of the certificates from the token’s to its root, the root left out.'),
  gen_time: time,
  not_after: time.describe('When the first of its certificates ends.'),
});
export type PresentedStamp = z.infer<typeof renewalStampSchema>;

/** Longer than one authority takes; the command waits a minute. */
const STAMP_MS_MAX = 50_000;

/** Throws ServiceError. */
export async function renewalStamp(
  { timestamping }: { timestamping: Pick<Timestamping, 'renew' | 'status'> | undefined },
  { algorithm: name = 'sha512', digest: hex = '', authority }: Partial<Record<string, string>>,
): Promise<PresentedStamp> {
  const algorithm = RENEWAL_DIGESTS.find((one) => one === name);
  if (algorithm === undefined)
    throw invalidField('algorithm', `must be one of ${RENEWAL_DIGESTS.join(', ')}.`);
  const digits = Number(algorithm.slice('sha'.length)) / 4;
  if (hex.length !== digits || !/^[0-9a-f]*$/i.test(hex))
    throw invalidField('digest', `must be ${digits} hexadecimal characters.`);
  const digest = fromHex(hex);
  const names = timestamping?.status().authorities.map(({ name }) => name) ?? [];
  if (authority === undefined)
    throw new ServiceError('missing_parameter', 'authority is missing.', { parameter: 'authority' });
  if (timestamping === undefined || !names.includes(authority))
    throw new ServiceError('not_found', 'No such time-stamp authority is in use: see timestamp.authorities.');
  try {
    const signal = AbortSignal.timeout(STAMP_MS_MAX);
    const stamp = await timestamping.renew({ algorithm, digest }, authority, signal);
    const { genTime, notAfter, ...token } = stamp;
    return { ...token, gen_time: toRfc3339(genTime), not_after: toRfc3339(notAfter) };
  } catch (error) {
    if (!(error instanceof TimestampUnavailable)) throw error;
    throw new ServiceError('timestamp_unavailable', `No time-stamp (${error.trouble}): ${error.message}.`);
  }
}
