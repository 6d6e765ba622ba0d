/** Users of the console: their roles, and the rules for their names. */

/** Each role includes the permissions of those before it. */
export const ROLES = ['auditor', 'operator', 'administrator'] as const;
export type Role = (typeof ROLES)[number];

/** The person that a link, a certificate or a session is for. */
export interface Person {
  readonly name: string;
  readonly role: Role;
}

const NAME_CHARS_MAX = 64;
const NAME = /^[\p{L}\p{N}][\p{L}\p{N}\p{M}.@_' -]*$/u;
/**
 * The audit trail shows the name, so it must not contain characters that are hidden, change the text direction, or are blank: invisible
 * letters are excluded.
 */
const HIDDEN = /[\p{Default_Ignorable_Code_Point}\u{13441}\u{13442}]/u;
/** Scripts such as Devanagari put up to three marks on a letter. More would only cover the lines above and below. */
const COVERING = /\p{M}{4}|[.@_' -]\p{M}/u;
const SPACES = / {2}| $/u;

/** The rule applied by {@link readPersonName}, phrased to follow "must be". */
export const PERSON_NAME_RULE =
  "1 to 64 characters: letters that can be seen, digits, .@_'-, and single spaces inside. It begins with a letter or a digit, and a " +
  'letter has three accents at most';

/** The name in composed form (NFC), so that a name has only one spelling. Undefined for an invalid name. */
export function readPersonName(given: string): string | undefined {
  const name = given.normalize('NFC');
  const isWrong = !NAME.test(name) || [HIDDEN, COVERING, SPACES].some((wrong) => wrong.test(name));
  return isWrong || [...name].length > NAME_CHARS_MAX ? undefined : name;
}
