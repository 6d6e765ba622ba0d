/** Which of the given files is the document, which its receipt and which the trust file: told by what is in them. */
import { sha256 } from '@noble/hashes/sha2.js';
import { bytesToHex } from '@noble/hashes/utils.js';
import { isProof, RECEIPT_BYTES_MAX } from 'pdfseald/verify';

export type Role = 'document' | 'receipt' | 'trust';

export const WORDS_OF_ROLE: Readonly<Record<Role, string>> = {
  document: 'document',
  receipt: 'receipt',
  trust: 'trust file',
};

const ROLES = Object.keys(WORDS_OF_ROLE) as Role[];

/** Where the mark of a PDF must begin for the service to take it. */
const MARK_WITHIN_BYTES = 1024;

const NAME_CHARS_MAX = 100;

/** A file that was given, and as what, where the giver said so. */
export interface Given {
  file: File;
  statedRole?: Role;
  content: Promise<Content>;
}

/** What a file holds. Read once, so that what is shown of it and what is verified are the same bytes. */
export interface Content {
  /** What it can be read as; nothing for a document that is no PDF. */
  roles: Role[];
  /** Absent where it is too long for a receipt or a trust file. */
  text?: string;
  sha256?: string;
}

/** A file with a role of its own. */
export interface Part extends Content {
  file: File;
  role: Role;
}

export interface Assignment {
  /** In the order in which the files were given. */
  parts: Part[];
  /** Why nothing may be verified, each naming the file. */
  faults: string[];
  missing: Role[];
}

/** Reads what is needed to tell a file's role. Rejects where it cannot be read: a folder, a file that is gone. */
export async function readContent(file: File): Promise<Content> {
  const isShort = file.size <= RECEIPT_BYTES_MAX;
  const blob = isShort ? file : file.slice(0, MARK_WITHIN_BYTES);
  const bytes = new Uint8Array(await blob.arrayBuffer());
  const roles = isPdf(bytes) ? (['document'] as Role[]) : [];
  if (!isShort) return { roles };
  // As `pdfseal verify` does; file.text() would pass over a byte order mark.
  const text = new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes);
  if (isProof(text)) roles.push('receipt');
  return { roles: [...roles, ...rolesOfJson(text)], text, sha256: bytesToHex(sha256(bytes)) };
}

/** Each role is for one file, and no file comes before another: what is not clear is a fault, and is left to the giver. */
export async function assignRoles(given: readonly Given[]): Promise<Assignment> {
  const [parts, faults]: [Part[], string[]] = [[], []];
  for (const { file, statedRole, content } of given) {
    try {
      const read = await content;
      const part: Part = { file, role: statedRole ?? read.roles[0] ?? 'document', ...read };
      parts.push(part);
      faults.push(...contradictions(part));
    } catch (error) {
      faults.push(`${quoteName(file.name)} cannot be read: is it a folder? (${String(error)})`);
    }
  }
  for (const role of ROLES) {
    const names = parts.filter((part) => part.role === role).map(({ file }) => quoteName(file.name));
    if (names.length > 1)
      faults.push(`${names.length} files for one ${WORDS_OF_ROLE[role]}: ${names.join(', ')}`);
  }
  return { parts, faults, missing: ROLES.filter((role) => !parts.some((part) => part.role === role)) };
}

/** Where a file is not what its name says, or not what it was chosen as. */
function contradictions({ file, role, roles, text }: Part): string[] {
  const name = quoteName(file.name);
  const [is, other] = roles;
  if (is !== undefined && other !== undefined)
    return [`${name} can be read as a ${WORDS_OF_ROLE[is]} and as a ${WORDS_OF_ROLE[other]}`];
  const faults: string[] = [];
  if (is !== undefined && is !== role)
    faults.push(`${name} was chosen as the ${WORDS_OF_ROLE[role]}, but is a ${WORDS_OF_ROLE[is]}`);
  else if (role !== 'document' && text === undefined)
    faults.push(`${name} is too long for a ${WORDS_OF_ROLE[role]}`);
  const ending = endingOf(file.name);
  if (ending === 'pdf' && is !== undefined && is !== 'document')
    faults.push(`${name} is named as a PDF, but is a ${WORDS_OF_ROLE[is]}`);
  if (ending === 'json' && is === 'document') faults.push(`${name} is named as JSON, but is a PDF`);
  return faults;
}

/** In lower case; what cannot be seen after it hides it from nobody. */
function endingOf(name: string): string | undefined {
  return /\.(\w+)$/
    .exec(name.replace(/[\p{C}\p{Z}.]/gu, (char) => (char === '.' ? char : '')))?.[1]
    ?.toLowerCase();
}

/** A stranger's name made safe to show: shortened in the middle, what cannot be seen escaped, and set apart from the text around it. */
export function quoteName(name: string): string {
  const seen = Array.from(name, (char) =>
    /[\p{C}\p{Zl}\p{Zp}]/u.test(char) ? `\\u{${char.codePointAt(0)?.toString(16)}}` : char,
  );
  if (seen.length > NAME_CHARS_MAX) seen.splice(NAME_CHARS_MAX / 2, seen.length - NAME_CHARS_MAX, '…');
  return `“\u2068${seen.join('')}\u2069”`;
}

function isPdf(bytes: Uint8Array): boolean {
  return new TextDecoder('latin1').decode(bytes.subarray(0, MARK_WITHIN_BYTES)).includes('%PDF-');
}

/** Loosely, so that nothing that the verifier could take for one is passed over: it reads them strictly. */
function rolesOfJson(text: string): Role[] {
  const value = parseJson(text);
  if (typeof value !== 'object' || value === null) return [];
  const roles: Role[] = [];
  if ('receipt_sha512' in value) roles.push('receipt');
  if ('schema' in value && typeof value.schema === 'string' && value.schema.startsWith('pdfseal-trust/'))
    roles.push('trust');
  return roles;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
