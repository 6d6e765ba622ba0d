/** Determines by content which of the given files are documents, receipts, the trust file and evidence records. */
import { sha256 } from '@noble/hashes/sha2.js';
import { bytesToHex } from '@noble/hashes/utils.js';
import { beginsOver } from 'pdfseald/evidence-record';
import { BUNDLE_LENGTH_MAX, isBundle, isTlogProof, readStamped } from 'pdfseald/verify';
import { quoteName } from './text.ts';
import type { Words } from './words.ts';

export const ROLES = ['document', 'receipt', 'trust', 'record'] as const;
export type Role = (typeof ROLES)[number];

/**
 * Roles of which only one file is allowed: with two, the choice between them would decide what is trusted. The same applies to the records
 * of a receipt.
 */
export const SINGLE: readonly Role[] = ['trust'];

const OPTIONAL: readonly Role[] = ['record'];

/** The range in which the PDF header must begin for the service to accept the file. */
const MARK_WITHIN_BYTES = 1024;

/** As `pdfseal submit` and the manual name receipts. */
const RECEIPT_NAME = /\.(?:receipt\.json|bundle\.json|tlog-proof)$/i;

/** A file that was added, and the role chosen for it, if any. */
export interface Given {
  file: File;
  statedRole?: Role;
  content: Promise<Content>;
}

/** The content of a file. It is read once, so that the shown and the verified bytes are the same. */
export interface Content {
  /** The roles that its content allows; empty for a document that is not a PDF. */
  roles: Role[];
  /** Absent if it is too long for anything but a document; so are the digest and the text. */
  bytes?: Uint8Array;
  sha256?: string;
  text?: string;
}

/** A file with an assigned role. */
export interface Part extends Content {
  file: File;
  role: Role;
}

export interface Assignment {
  /** In the order in which the files were added. */
  parts: Part[];
  /** The evidence record of each receipt that has one. */
  records: ReadonlyMap<Part, Part>;
  /** Why nothing may be verified; each fault names its file. */
  faults: string[];
  missing: Role[];
}

/** Reads what is needed to determine a file's role. Rejects if it cannot be read: a folder, or a file that was removed. */
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
  if (isTlogProof(text)) roles.push('receipt');
  roles.push(...rolesOfJson(text));
  // If nothing is left of a damaged file but its name, that says what it was.
  if (roles.length === 0 && RECEIPT_NAME.test(file.name)) roles.push('receipt');
  return { ...read, text };
}

/** No file takes precedence over another: any ambiguity is a fault, which the user must resolve. */
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
  // A document may hold its receipt, and a receipt alone can be checked but for its document.
  const isOptional = (role: Role) =>
    OPTIONAL.includes(role) ||
    (role === 'receipt' && count('document') > 0) ||
    (role === 'document' && count('receipt') > 0);
  const missing = ROLES.filter((role) => count(role) === 0 && !isOptional(role));
  return { parts, records, faults, missing };
}

/** A single record is always compared with a single receipt, even if they do not match; with several, each must match a receipt. */
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

/** Files whose content does not match their name, or the role chosen for them. */
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

/** In lower case; invisible characters after it do not hide it. */
function endingOf(name: string): string | undefined {
  return /\.(\w+)$/.exec(name.replace(/[\p{C}\p{DI}\p{Z}\u2800]/gu, ''))?.[1]?.toLowerCase();
}

function isPdf(bytes: Uint8Array): boolean {
  return new TextDecoder('latin1').decode(bytes.subarray(0, MARK_WITHIN_BYTES)).includes('%PDF-');
}

/** Whether it begins like an EvidenceRecord (RFC 4998, section 3.1): a SEQUENCE whose first member is the version, 1. */
function isRecord(bytes: Uint8Array): boolean {
  const [tag, length = 0] = bytes;
  const at = length < 0x80 ? 2 : 2 + (length & 0x7f);
  return tag === 0x30 && [0x02, 0x01, 0x01, 0x30].every((octet, n) => bytes[at + n] === octet);
}

/** Lenient, so that anything that the verifier might accept is recognised: the verifier itself is strict. */
function rolesOfJson(text: string): Role[] {
  const value = parseJson(text);
  if (value === undefined) return rolesOfRemains(text);
  if (typeof value !== 'object' || value === null) return [];
  const roles: Role[] = [];
  const isReceipt = 'receipt_sha512' in value || ('manifest' in value && 'evidence' in value);
  if (isReceipt || isBundle(value)) roles.push('receipt');
  if ('schema' in value && typeof value.schema === 'string' && value.schema.startsWith('pdfseal-trust/'))
    roles.push('trust');
  return roles;
}

/** Of a JSON object that was cut off or damaged. */
function rolesOfRemains(text: string): Role[] {
  if (!/^[ \t\r\n]*\{/.test(text) || text.includes('%PDF-')) return [];
  const roles: Role[] = [];
  if (/"receipt_sha512"|"pdfseal-bundle\//.test(text)) roles.push('receipt');
  if (text.includes('"pdfseal-trust/')) roles.push('trust');
  return roles;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
