import { InvalidArgumentError } from 'commander';
import type { DistinguishedName } from '../../asn1/issue.ts';

/** Attributes that a subject may have here, by the names of RFC 4514. */
const ATTRIBUTES: Record<string, keyof DistinguishedName> = {
  CN: 'commonName',
  O: 'organization',
  OU: 'organizationalUnit',
  C: 'country',
};

/** `name=value` and the comma after it, if more follows. */
const ATTRIBUTE = /\s*(\w+)\s*=((?:\\.|[^\\,])*)(?:,(?=.)|$)/gsy;

/** Upper bound of each attribute except the country (RFC 5280, appendix A.1: ub-common-name and its like). */
export const NAME_CHARACTERS_MAX = 64;

/**
 * Argument parser: a subject such as `CN=Time-stamping 1,O=Example Corp,C=DE`, each attribute once, a comma within a value as
 * `\,`. The order does not matter: certificates name the country first and the common name last.
 */
export function parseSubjectArgument(text: string): DistinguishedName {
  const subject: Partial<DistinguishedName> = {};
  let end = 0;
  for (const [part, type = '', escaped = ''] of text.matchAll(ATTRIBUTE)) {
    const attribute = ATTRIBUTES[type.toUpperCase()];
    if (attribute === undefined || subject[attribute] !== undefined) throw malformed();
    subject[attribute] = parseNamePart(escaped.replaceAll(/\\(.)/gs, '$1').trim());
    end += part.length;
  }
  if (end < text.length) throw malformed();
  const { commonName, country } = subject;
  if (commonName === undefined || (country !== undefined && !/^[A-Z]{2}$/.test(country))) throw malformed();
  return { ...subject, commonName };
}

/** Argument parser: one value of a subject. */
export function parseNamePart(text: string): string {
  if (text !== '' && [...text].length <= NAME_CHARACTERS_MAX && !/\p{C}/u.test(text)) return text;
  throw new InvalidArgumentError(`Expected a name of 1 to ${NAME_CHARACTERS_MAX} characters.`);
}

function malformed(): InvalidArgumentError {
  return new InvalidArgumentError(
    'Expected "CN=…,O=…": CN, and if you want O, OU and C (two capital letters), each once. Write a comma in a value as "\\,".',
  );
}
