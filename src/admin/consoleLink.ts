/** Who is let into the console, by whom the administration knows: root, the user of the daemon, or an API key with the scope admin. */
import { z } from 'zod';
import { ServiceError } from '../base/errors.ts';
import { WIRE } from './status/section.ts';

/** What opens and closes the console. */
export interface ConsoleDoor {
  /** The secret of a new one-time link. */
  invite(person: InvitedPerson): string;
  /** Ends the sessions and links of everybody, or of one name. Returns how many sessions there were. */
  endAll(name?: string): number;
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

const NAME_CHARS_MAX = 64;
const NAME = /^[\p{L}\p{N}][\p{L}\p{N}\p{M}.@_' -]*$/u;
/** The audit trail shows the name, so nothing in it hides, turns text, or takes no ink: letters that show nothing are left out. */
const HIDDEN = /[\p{Default_Ignorable_Code_Point}\u{13441}\u{13442}]/u;
/** Scripts such as Devanagari put up to three marks on a letter. More of them only cover the lines above and below. */
const COVERING = /\p{M}{4}|[.@_' -]\p{M}/u;
const SPACES = / {2}| $/u;

/** The name comes back in the composed form (NFC), so that one name is one text. Throws ServiceError. */
export function personName(given = ''): string {
  const name = given.normalize('NFC');
  const isWrong = !NAME.test(name) || [HIDDEN, COVERING, SPACES].some((wrong) => wrong.test(name));
  if (isWrong || [...name].length > NAME_CHARS_MAX) {
    const message =
      "name must be 1 to 64 characters: letters that can be seen, digits, .@_'-, and single spaces inside. It begins with a letter or a " +
      'digit, and a letter has three accents at most.';
    throw new ServiceError('invalid_parameter', message, { parameter: 'name' });
  }
  return name;
}

/** The name is as {@link personName} gives it. Throws ServiceError. */
export function personOf(given?: string, givenRole?: string): InvitedPerson {
  const name = personName(given);
  const role = CONSOLE_ROLES.find((known) => known === givenRole);
  if (role !== undefined) return { name, role };
  const message = `role must be one of ${CONSOLE_ROLES.join(', ')}.`;
  throw new ServiceError('invalid_parameter', message, { parameter: 'role' });
}
