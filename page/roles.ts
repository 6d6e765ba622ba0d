/** Which of the given files are documents, receipts, the trust file and the evidence record: told by what is in them. */
import { sha256 } from '@noble/hashes/sha2.js';
import { bytesToHex } from '@noble/hashes/utils.js';
import { beginsOver } from 'pdfseald/evidence-record';
import { BUNDLE_LENGTH_MAX, isBundle, isProof, readStamped } from 'pdfseald/verify';
import { quoteName } from './text.ts';
import type { Words } from './words.ts';

export const ROLES = ['document', 'receipt', 'trust', 'record'] as const;
export type Role = (typeof ROLES)[number];

/** Of which there can be but one: a second one would have the choice of what is believed. So it is with the records of a receipt. */
export const SINGLE: readonly Role[] = ['trust'];

const OPTIONAL: readonly Role[] = ['record'];

/** Where the mark of a PDF must begin for the service to take it. */
const MARK_WITHIN_BYTES = 1024;

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
  /** Absent if it is too long for anything but a document; so are the digest and the text. */
  bytes?: Uint8Array;
  sha256?: string;
  text?: string;
}

/** A file with a role of its own. */
export interface Part extends Content {
  file: File;
  role: Role;
}

export interface Assignment {
  /** In the order in which the files were given. */
  parts: Part[];
  /** The evidence record of each receipt that has one. */
  records: ReadonlyMap<Part, Part>;
  /** Why nothing may be verified, each naming the file. */
  faults: string[];
  missing: Role[];
}

/** Reads what is needed to tell a file's role. Rejects where it cannot be read: a folder, a file that is gone. */
export async function readContent(file: File): Promise<Content> {
  // A receipt, a trust file and an evidence record are shorter than the longest bundle.
  const isShort = file.size <= BUNDLE_LENGTH_MAX;
  const blob = isShort ? file : file.slice(0, MARK_WITHIN_BYTES);
  const bytes = new Uint8Array(await blob.arrayBuffer());
  const roles = isPdf(bytes) ? (['document'] as Role[]) : [];
  if (!isShort) return { roles };
  if (isRecord(bytes)) roles.push('record');
  const read = { roles, bytes, sha256: bytesToHex(sha256(bytes)) };
  // As `pdfseal verify` does; file.text() would pass over a byte order mark.
  const text = new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes);
  if (isProof(text)) roles.push('receipt');
  roles.push(...rolesOfJson(text));
  return { ...read, text };
}

/** No file comes before another: what is not clear is a fault, and is left to the giver. */
export async function assignRoles(given: readonly Given[], words: Words): Promise<Assignment> {
  const [parts, faults]: [Part[], string[]] = [[], []];
  for (const { file, statedRole, content } of given) {
    try {
      const read = await content;
      const part: Part = { file, role: statedRole ?? read.roles[0] ?? 'document', ...read };
      const same = parts.find((other) => part.sha256 !== undefined && other.sha256 === part.sha256);
      parts.push(part);
      faults.push(...contradictions(part, words));
      if (same !== undefined)
        faults.push(words.faults.twice(quoteName(same.file.name), quoteName(file.name)));
    } catch (error) {
      faults.push(words.faults.unreadable(quoteName(file.name), String(error)));
    }
  }
  for (const role of SINGLE) {
    const names = parts.filter((part) => part.role === role).map(({ file }) => quoteName(file.name));
    if (names.length > 1)
      faults.push(words.faults.several(names.length, words.roles[role], names.join(', ')));
  }
  const count = (role: Role) => parts.filter((part) => part.role === role).length;
  const { records, faults: ofRecords } = assignRecords(parts, words);
  faults.push(...ofRecords);
  const missing = ROLES.filter((role) => count(role) === 0 && !OPTIONAL.includes(role));
  return { parts, records, faults, missing };
}

/** A single record is held against a single receipt, whether or not it is the right one; of several, each must be of a receipt. */
function assignRecords(parts: readonly Part[], words: Words): Pick<Assignment, 'records' | 'faults'> {
  const [receipts, records] = (['receipt', 'record'] as const).map((role) =>
    parts.filter((part) => part.role === role),
  ) as [Part[], Part[]];
  const faults: string[] = [];
  const found = new Map<Part, Part>();
  const checkpoints = new Map(receipts.map((receipt) => [receipt, checkpointOf(receipt)]));
  for (const record of receipts.length === 0 ? [] : records) {
    const isOf = beginsOver(record.bytes ?? new Uint8Array(0));
    const own = receipts.filter(
      (receipt) => receipts.length === 1 || isOf(checkpoints.get(receipt) ?? new Uint8Array(0)),
    );
    const name = quoteName(record.file.name);
    if (own.length === 0) faults.push(words.faults.recordOfNone(name));
    for (const receipt of own) {
      const other = found.get(receipt);
      if (other)
        faults.push(words.faults.records(quoteName(receipt.file.name), quoteName(other.file.name), name));
      else found.set(receipt, record);
    }
  }
  return { records: found, faults };
}

function checkpointOf({ text = '' }: Part): Uint8Array {
  return new TextEncoder().encode(readStamped(text)?.checkpoint ?? '');
}

/** Where a file is not what its name says, or not what it was chosen as. */
function contradictions({ file, role, roles, bytes }: Part, words: Words): string[] {
  const name = quoteName(file.name);
  const nameOf = words.roles;
  const [is, other] = roles;
  if (is !== undefined && other !== undefined) return [words.faults.two(name, nameOf[is], nameOf[other])];
  const faults: string[] = [];
  if (is !== undefined && is !== role) faults.push(words.faults.stated(name, nameOf[role], nameOf[is]));
  else if (role !== 'document' && bytes === undefined) faults.push(words.faults.long(name, nameOf[role]));
  const ending = endingOf(file.name);
  if (ending === 'pdf' && is !== undefined && is !== 'document')
    faults.push(words.faults.namedPdf(name, nameOf[is]));
  if (ending === 'json' && is === 'document') faults.push(words.faults.namedJson(name));
  if (ending === 'ers' && (is ?? role) !== 'record') faults.push(words.faults.namedRecord(name));
  return faults;
}

/** In lower case; what cannot be seen after it hides it from nobody. */
function endingOf(name: string): string | undefined {
  return /\.(\w+)$/.exec(name.replace(/[\p{C}\p{DI}\p{Z}\u2800]/gu, ''))?.[1]?.toLowerCase();
}

function isPdf(bytes: Uint8Array): boolean {
  return new TextDecoder('latin1').decode(bytes.subarray(0, MARK_WITHIN_BYTES)).includes('%PDF-');
}

/** Whether it begins as an EvidenceRecord does (RFC 4998, section 3.1): a SEQUENCE whose first member is the version, 1. */
function isRecord(bytes: Uint8Array): boolean {
  const [tag, length = 0] = bytes;
  const at = length < 0x80 ? 2 : 2 + (length & 0x7f);
  return tag === 0x30 && [0x02, 0x01, 0x01, 0x30].every((octet, n) => bytes[at + n] === octet);
}

/** Loosely, so that nothing that the verifier could take for one is passed over: it reads them strictly. */
function rolesOfJson(text: string): Role[] {
  const value = parseJson(text);
  if (typeof value !== 'object' || value === null) return [];
  const roles: Role[] = [];
  if ('receipt_sha512' in value || isBundle(value)) roles.push('receipt');
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
