/** Fields that several operations have, and the schemas of their values. */
import * as z from 'zod';
import { NAME_PATTERN } from '../base/names.ts';
import { parseDurationMs } from '../base/units.ts';

/** The name of a client or an organization. */
export const nameText = matching(NAME_PATTERN, 'a name of at most 63 characters: a-z, 0-9 and dashes');

/** Text of this form; `what` follows "must be". */
export function matching(form: RegExp, what: string) {
  return z.string(`must be ${what}.`).regex(form, `must be ${what}.`);
}

/** Text whose value is the result of `read`, which is undefined for other text; `what` follows "must be". */
export function readBy<Value>(read: (text: string) => Value | undefined, what: string) {
  const refusal = `must be ${what}.`;
  return z.string(refusal).transform((text, context) => {
    const value = read(text);
    if (value !== undefined) return value;
    context.addIssue({ code: 'custom', message: refusal });
    return z.NEVER;
  });
}

/** A duration as text; the value is in milliseconds. */
export function durationText({ min = 0, max = Number.POSITIVE_INFINITY, what }: DurationBounds) {
  return readBy((text) => {
    const durationMs = parseDurationMs(text);
    return durationMs !== undefined && durationMs >= min && durationMs <= max ? durationMs : undefined;
  }, what);
}

interface DurationBounds {
  min?: number;
  max?: number;
  /** Follows "must be". */
  what: string;
}

export const trueOrFalseText = z.boolean('must be true or false.');

const COUNT = 'must be a whole number, 1 or greater.';
export const countText = z.int(COUNT).min(1, COUNT);

/** How long what is replaced stays valid. */
export const overlapText = durationText({ what: 'a duration such as 30s, 5m, 24h or 90d' }).prefault('1d');
