/** Lets people into the console: only root and the user of the daemon can do so. */

import * as z from 'zod';
import { PERSON_NAME_RULE, type Person, ROLES, readPersonName } from '../base/people.ts';
import { WIRE } from '../health/sections/section.ts';
import { invalidField } from '../job/fieldValues.ts';

/** Opens and closes the console. */
export interface ConsoleDoor {
  /** The secret of a new one-time link. */
  invite(person: Person): string;
  /** Ends the sessions and links of everybody, or of one name. Returns how many sessions there were. */
  endAll(name?: string): number;
}

export const consoleLinkSchema = z.object({
  link: z
    .string()
    .describe('The secret of the link: `/login/<link>` opens the console once, within five minutes.'),
  name: z.string(),
  role: z.enum(ROLES),
});

export const consoleLogoutSchema = z.object({ sessions: WIRE.count.describe('How many there were.') });

/** The name comes back in the composed form (NFC), so that one name is one text. Throws ServiceError. */
export function personName(given = ''): string {
  const name = readPersonName(given);
  if (name !== undefined) return name;
  throw invalidField('name', `must be ${PERSON_NAME_RULE}.`);
}

/** The name is as {@link personName} gives it. Throws ServiceError. */
export function personOf(given?: string, givenRole?: string): Person {
  const name = personName(given);
  const role = ROLES.find((known) => known === givenRole);
  if (role !== undefined) return { name, role };
  throw invalidField('role', `must be one of ${ROLES.join(', ')}.`);
}
