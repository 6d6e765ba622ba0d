/** A finding: one thing that can be wrong. It is judged here and nowhere else; all faces show what the table says. */
import * as z from 'zod';
import type { Facts } from './facts.ts';

const PART_NAMES = [
  'service',
  'canary',
  'partitions',
  'timestamps',
  'witnesses',
  'sealing',
  'scanner',
  'queue',
  'store',
] as const;
export type PartName = (typeof PART_NAMES)[number];

const part = z.enum(PART_NAMES);

export const healthPartSchema = z
  .object({
    name: part,
    ready: z.boolean(),
    detail: z.string(),
    remedy: z.string().optional().describe('What to do, where it is not ready.'),
  })
  .describe('One thing that must be well for a document to be sealed.');
export type HealthPart = z.infer<typeof healthPartSchema>;

/** `critical`: sealing fails or is about to fail; `warning`: look at it today; `info`: nothing is broken. */
const SEVERITIES = ['critical', 'warning', 'info'] as const;

export const findingSchema = z
  .object({
    id: z.string(),
    severity: z.enum(SEVERITIES),
    subject: z.string().describe('What it is about: a partition, a certificate, the disk.'),
    section: z.string().describe('The member of the status that has the facts.'),
    part: part.optional().describe('The part that is not ready because of it.'),
    detail: z.string(),
    remedy: z.string().describe('What to do.'),
  })
  .describe('Something that is wrong.');
/** A finding that holds. */
export type Found = z.infer<typeof findingSchema>;

export interface HealthFinding {
  id: string;
  severity: (typeof SEVERITIES)[number];
  /** Shows the value that is judged, in addition to `pdfseal_finding`. */
  metric: string;
  part?: PartName;
  /** A finding does not hold where its facts are not known. `now`: milliseconds since the epoch. */
  judge(facts: Partial<Facts>, now: number): Found[];
}

type Known<Key extends keyof Facts> = NonNullable<Facts[Key]>;

/** A text, or how to make it. */
type Text<Case> = string | ((one: Case, now: number) => string);

interface Rule<Case> extends Pick<HealthFinding, 'id' | 'severity' | 'metric' | 'part'> {
  /** Pure. */
  when(one: Case, facts: Partial<Facts>, now: number): boolean;
  says: Text<Case>;
  remedy: Text<Case>;
}

/** One subject; the part if it is left out. */
export function finding<Key extends keyof Facts>(
  section: Key,
  { subject, ...rule }: Rule<Known<Key>> & { subject?: string },
): HealthFinding {
  return findingOfEach(section, { ...rule, among: (all) => [all], subject: subject ?? rule.part ?? section });
}

/** A subject for each of several cases. */
export function findingOfEach<Key extends keyof Facts, Case>(
  section: Key,
  rule: Rule<Case> & { among(section: Known<Key>): readonly Case[]; subject: Text<Case> },
): HealthFinding {
  const { id, severity, metric, part, among, when, subject, says, remedy } = rule;
  const toText = (text: Text<Case>, one: Case, now: number) =>
    typeof text === 'string' ? text : text(one, now);
  return {
    ...{ id, severity, metric, part },
    judge(facts, now) {
      const known = facts[section];
      if (known === undefined) return [];
      return among(known)
        .filter((one) => when(one, facts, now))
        .map((one) => ({
          ...{ id, severity, section, part },
          subject: toText(subject, one, now),
          detail: toText(says, one, now),
          remedy: toText(remedy, one, now),
        }));
    },
  };
}
