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

/** A duration as text; the value is in milliseconds. */
export function durationText({ min = 0, max = Number.POSITIVE_INFINITY, what }: DurationBounds) {
  const refusal = `must be ${what}.`;
  return z.string(refusal).transform((text, context) => {
    const durationMs = parseDurationMs(text);
    if (durationMs !== undefined && durationMs >= min && durationMs <= max) return durationMs;
    context.addIssue({ code: 'custom', message: refusal });
    return z.NEVER;
  });
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
