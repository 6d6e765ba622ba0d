/** Who is let into the console, by whom the administration knows: root, the user of the daemon, or an API key with the scope admin. */
import { z } from 'zod';
import { ServiceError } from '../base/errors.ts';
import { WIRE } from './status/section.ts';

/** What opens and closes the console. */
export interface ConsoleDoor {
  /** The secret of a new one-time link. */
  invite(person: InvitedPerson): string;
  /** Ends all sessions and links. Returns how many sessions there were. */
  endAll(): number;
}

export const CONSOLE_ROLES = ['auditor', 'operator', 'administrator'] as const;

export const consoleLinkSchema = z.object({
  link: z
    .string()
    .describe('The secret of the link: `/login/<link>` opens the console once, within five minutes.'),
  name: z.string(),
  role: z.enum(CONSOLE_ROLES),
});
type InvitedPerson = Omit<z.infer<typeof consoleLinkSchema>, 'link'>;

export const consoleLogoutSchema = z.object({ sessions: WIRE.count.describe('How many there were.') });

/** The audit trail shows the name, so it has nothing that hides or turns text. */
const PERSON_PATTERN = /^[\p{L}\p{N}][\p{L}\p{M}\p{N} .@_'-]{0,63}$/u;

/** Throws ServiceError. */
export function personOf(name = '', given = ''): InvitedPerson {
  if (!PERSON_PATTERN.test(name)) {
    const message =
      "name must be 1 to 64 letters, digits, spaces and characters of .@_'-, and begin with a letter or a digit.";
    throw new ServiceError('invalid_parameter', message, { parameter: 'name' });
  }
  const role = CONSOLE_ROLES.find((known) => known === given);
  if (role !== undefined) return { name, role };
  const message = `role must be one of ${CONSOLE_ROLES.join(', ')}.`;
  throw new ServiceError('invalid_parameter', message, { parameter: 'role' });
}
