import { toHex } from '../../base/bytes.ts';
import { systemClock } from '../../base/clock.ts';
import { runningDigest } from '../../base/crypto.ts';
import { OperatorError } from '../../base/errors.ts';
import type { DocumentDigests } from '../../job/job.ts';
import { openCheckpoint } from '../../log/signedCheckpoint.ts';
import { isTlogProof } from '../../log/tlogProof.ts';
import { isClassical, kmsKeyId, type LogKey } from '../../log/verifierKey.ts';
import { BUNDLE_LENGTH_MAX, isBundle, type ParsedBundle, parseBundle } from '../../manifest/bundle.ts';
import { receiptAlgorithm } from '../../manifest/receipt.ts';
import {
  openReceipt,
  type ParsedReceipt,
  quote,
  type ReceivedReceipt,
  snapshot,
} from '../../manifest/received.ts';
import { epochOf, parseTrust, type TrustFile } from '../../manifest/trustFile.ts';
import type { PdfReader } from '../../pdf/update/attach.ts';
import { checkLaterProof } from './bundleCheck.ts';
import {
  checkCheckpoint,
  checkEpoch,
  checkQuorum,
  checkWitnesses,
  cosignersOf,
  EPOCH_UNKNOWN,
  isOfLaterEpoch,
} from './checkpointCheck.ts';
import { checkEvidenceRecord, type EvidenceVerdict } from './evidenceCheck.ts';
import {
  asCheck,
  type Check,
  type Finding,
  failed,
  type NamedFinding,
  notShown,
  openIn,
  passed,
  type Reason,
  type SharedParts,
  sharedParts,
  unknown,
} from './finding.ts';
import {
  checkDocument,
  checkReceiptLeaf,
  type Matched,
  noteOnSource,
  subjectFault,
} from './manifestCheck.ts';
import {
  parseReceiptJson,
  RECEIPT_BYTES_MAX,
  RECEIPT_LENGTH_MAX,
  readStamped,
  stampedOf,
} from './receiptText.ts';
import { checkRevocation, listsOf, unrevoked } from './revocationCheck.ts';
import { openSealedPdf } from './sealedPdf.ts';
import { checkRenewal, checkTimes } from './timesCheck.ts';
import { checkTimestamps } from './timestampCheck.ts';
import { checkTlogProof } from './tlogProofCheck.ts';

export {
  BUNDLE_LENGTH_MAX,
  isBundle,
  isTlogProof,
  openSealedPdf,
  type PdfReader,
  parseReceiptJson,
  RECEIPT_BYTES_MAX,
  RECEIPT_LENGTH_MAX,
  readStamped,
};

/** What is hashed at once of a document. */
const READ_BYTES = 1 << 20;

export interface Verdict {
  /** `bad` if any check failed, `good` if all passed, else `unknown`. */
  outcome: 'good' | 'bad' | 'unknown';
  checks: Check[];
  /** The member of the manifest that describes this document; absent if none does. */
  matches?: Matched;
  /** The proof by the evidence record, if one was given and there is a checkpoint to compare it with. */
  evidence?: EvidenceVerdict;
}

/** A fact that must be shown for a good verdict, in addition to what the trust file requires. */
export type Requirement = keyof typeof REQUIRED;

/** The reasons that count if a fact is required: these findings are unknown then. */
const REQUIRED = {
  time: ['own_word', 'certificate_expired'],
  witness: ['no_witness_policy', 'witnesses_not_shown', 'below_policy'],
} as const satisfies Record<string, readonly Reason[]>;

export const REQUIREMENTS = Object.keys(REQUIRED) as Requirement[];

export interface VerdictOptions {
  /** The time for which the verdict is wanted, milliseconds since the Unix epoch. Default: now. */
  at?: number;
  require?: readonly Requirement[];
}

export interface TextOptions extends VerdictOptions {
  /** An evidence record (RFC 4998) in DER, from a stranger: it must be over the signed checkpoint, and hold at that time. */
  record?: Uint8Array;
  /** Whether a PDF that holds the receipt is its document and that receipt: from {@link openSealedPdf}. */
  seal?: Finding;
}

export interface VerifierInput extends TextOptions {
  /** Digests of the document; without them the verdict is `unknown` at best. */
  document: DocumentDigests | undefined;
  /** The parsed JSON of a receipt or of a bundle. */
  receipt: unknown;
  /** A canary's receipt belongs to no document: it is good only if you ask for `canary`. Default: `document`. */
  subject?: 'document' | 'canary';
}

/**
 * Verifies a receipt and, if given, its document; offline. The receipt comes from a stranger: no input makes this
 * function throw, and only what the trusted keys signed makes a receipt good.
 */
export function verifyReceipt({ trust, ...input }: VerifierInput & { trust: TrustFile }): Verdict {
  return createVerifier(trust)(input);
}

/**
 * {@link verifyReceipt} for many receipts under one trust file. For successive receipts of one batch, the shared
 * signatures and time-stamps are verified once. A service that looks after its own store does not judge its dates:
 * clocks go wrong, and what was sealed then stays as it is.
 */
export function createVerifier(
  trust: TrustFile,
  { judgesDates = true }: { judgesDates?: boolean } = {},
): (input: VerifierInput) => Verdict {
  const judge = createJudge(trust, judgesDates);
  return (input) => {
    const { checks, ...matched } = judge(input);
    return { ...verdictOn(checks, input.require), ...matched };
  };
}

function createJudge(trust: TrustFile, judgesDates = true): (input: VerifierInput) => Judged {
  let last: { shared: string; batch: ReturnType<typeof verifyBatch> } | undefined;
  return ({ document, receipt: received, record, subject = 'document', at = systemClock() }) => {
    const value = snapshot(received);
    const bundled = parseBundle(value);
    const checks: NamedFinding[] = bundled ? [{ name: 'bundle', ...checkFile('bundle', bundled) }] : [];
    if (bundled !== undefined && bundled.kind !== 'bundle') return { checks };
    const bundle = bundled?.bundle;
    const parsed = openReceipt(bundle ? bundle.receipt : value);
    checks.push({ name: 'receipt', ...checkFile('receipt', parsed) });
    if (parsed.kind !== 'receipt') return { checks };

    const { receipt } = parsed;
    const parts = sharedParts(receipt);
    const shared = JSON.stringify(parts);
    if (last?.shared !== shared) last = { shared, batch: verifyBatch(parts, trust) };
    const { opened, log, epoch, stamps, ...batch } = last.batch;
    const witnessed =
      bundle && log
        ? checkLaterProof(bundle.tlogProof, receipt.manifest, opened, log, epoch)
        : batch.witnessed;
    const { matches, ...finding } = checkDocument(receipt.manifest, document);
    checks.push(
      { name: 'document', ...finding },
      { name: 'manifest', ...checkManifest(receipt, subject) },
      { name: 'leaf', ...checkReceiptLeaf(receipt, opened?.checkpoint) },
      ...batch.checks,
      ...(witnessed ? [{ name: 'witnesses' as const, ...witnessed.finding }] : []),
    );
    const anyRecord = record ?? bundle?.evidenceRecord;
    const evidence =
      anyRecord &&
      checkEvidenceRecord({ record: anyRecord, at }, stampedOf(receipt), trust.timestampAuthorities);
    if (judgesDates) {
      const dates = { stamps, cosigned: witnessed?.cosigned ?? [] };
      checks.push({ name: 'times', ...checkTimes(receipt.manifest, dates, at) });
      const lists = listsOf(trust, bundle);
      const renewed = evidence?.timestamps && { record: evidence.timestamps, at };
      const revocation = checkRevocation(stamps, lists, renewed);
      if (revocation) checks.push({ name: 'revocation', ...revocation });
      const renewal = evidence ? undefined : checkRenewal(unrevoked(stamps, lists), at);
      if (renewal) checks.push({ name: 'renewal', ...renewal });
    }
    // A record takes the place of the line that asks for one.
    if (evidence) {
      const { finding, fault } = evidence;
      // A bundle is kept for decades, like a receipt: if nobody renewed its time-stamp in time, the rest still holds.
      const hasEnded = record === undefined && fault === 'expired';
      const found = hasEnded ? notShown(finding.detail, 'certificate_expired') : finding;
      checks.push({ name: 'evidence-record', ...found });
    }
    return { checks, ...(matches && { matches }), ...(evidence && { evidence }) };
  };
}

/** The findings about the parts that all receipts of a batch share; `witnessed` is undefined if the log is not known. */
function verifyBatch(parts: SharedParts, trust: TrustFile) {
  const { evidence, sealed_at } = parts;
  const log = trust.logs.find(({ origin }) => origin === evidence.log_origin);
  const opened = openCheckpoint(evidence.checkpoint);
  const inForce = log && epochOf(log, Date.parse(sealed_at));
  const signers = checkQuorum(opened, log, inForce);
  const isLater =
    opened !== undefined &&
    log !== undefined &&
    signers.outcome !== 'passed' &&
    !signers.isForged &&
    isOfLaterEpoch(opened.note, log, Date.parse(sealed_at));
  const epoch = isLater ? undefined : inForce;
  const cosigned = cosignersOf(opened, log);
  const timing = checkTimestamps(parts, epoch, trust.timestampAuthorities);
  const witnessed = log && { finding: checkWitnesses(cosigned, log, 'receipt'), cosigned };
  const isForeign = opened !== undefined && opened.checkpoint.origin !== evidence.log_origin;
  const checks: NamedFinding[] = [
    {
      name: 'checkpoint',
      ...(isForeign
        ? failed('log_origin is not the checkpoint’s')
        : checkCheckpoint(parts.manifest.environment, opened, log)),
    },
    { name: 'quorum', ...(isLater ? EPOCH_UNKNOWN : checkSigners(parts, signers)) },
    { name: 'time-stamp', ...timing.finding },
    { name: 'epoch', ...(isLater ? EPOCH_UNKNOWN : checkEpoch(sealed_at, log, epoch, timing.genTime)) },
  ];
  return { opened, log, epoch, stamps: timing.stamps, witnessed, checks };
}

/** A receipt also names one of the keys that signed. */
function checkSigners(
  { algorithm, kms_key_id }: SharedParts,
  { keys, isForged: _, ...finding }: ReturnType<typeof checkQuorum>,
): Finding {
  const isNamed = (key: LogKey) =>
    isClassical(key) && kmsKeyId(key) === kms_key_id && receiptAlgorithm(key.algorithm) === algorithm;
  return finding.outcome === 'passed' && !keys.some(isNamed)
    ? failed('kms_key_id and algorithm are of none of the trusted keys that signed')
    : finding;
}

/** The verdict on a receipt, a bundle, or a C2SP tlog-proof of a manifest, from the texts of both files. */
export function verifyReceiptText(
  receiptText: string,
  trustText: string,
  document: DocumentDigests | undefined,
  { record, seal, at = systemClock(), require }: TextOptions = {},
): Verdict {
  let trust: TrustFile;
  try {
    trust = parseTrust(trustText);
  } catch (error) {
    if (!(error instanceof OperatorError)) throw error;
    return verdictOn([{ name: 'trust', ...unknown(error.message) }]);
  }
  const { checks, ...matched } = judgeText(receiptText, trust, { document, at, ...(record && { record }) });
  if (seal !== undefined) checks.unshift({ name: 'seal', ...seal });
  if (record !== undefined && matched.evidence === undefined)
    checks.push({ name: 'evidence-record', ...unknown('there is no checkpoint to compare it with') });
  return { ...verdictOn(checks, require), ...matched };
}

export interface SealedPdfOptions extends Omit<TextOptions, 'seal'> {
  /** Digests of the first bytes of the PDF. By default they are read in pieces. */
  digestsOf?(bytes: number): Promise<DocumentDigests>;
}

/** The verdict on a PDF that holds its receipt. */
export interface SealedPdfVerdict {
  verdict: Verdict;
  /** The text of the receipt in it; absent if there is none. */
  receipt?: string;
  /**
   * The document that was sealed, if the verdict is good: so many of the first bytes of the PDF. Otherwise what was compared with the
   * receipt. Absent without a receipt.
   */
  document?: DocumentDigests;
}

/**
 * Verifies a PDF that holds its receipt: that receipt, the document that was sealed, and, in the check `seal`, that nothing else was added.
 * Throws only what `pdf.read` and `digestsOf` throw.
 */
export async function verifySealedPdf(
  pdf: PdfReader,
  trustText: string,
  { digestsOf = (bytes) => digestsOfFirst(pdf, bytes), ...options }: SealedPdfOptions = {},
): Promise<SealedPdfVerdict> {
  const { finding: seal, receipt, documentBytes = pdf.size } = await openSealedPdf(pdf);
  if (receipt === undefined) return { verdict: verdictOn([{ name: 'seal', ...seal }]) };
  const document = await digestsOf(documentBytes);
  return {
    verdict: verifyReceiptText(receipt, trustText, document, { ...options, seal }),
    receipt,
    document,
  };
}

async function digestsOfFirst(pdf: PdfReader, bytes: number): Promise<DocumentDigests> {
  const [short, long] = [runningDigest('sha256'), runningDigest('sha512')];
  for (let from = 0; from < bytes; from += READ_BYTES) {
    const piece = await pdf.read(from, Math.min(READ_BYTES, bytes - from));
    short.update(piece);
    long.update(piece);
  }
  return { sha256: toHex(short.digest()), sha512: toHex(long.digest()), bytes };
}

/** The findings, what the document matches, and what the evidence record proves. */
type Judged = Omit<Verdict, 'outcome' | 'checks'> & { checks: NamedFinding[] };

function judgeText(
  text: string,
  trust: TrustFile,
  input: Omit<VerifierInput, 'receipt'> & { at: number },
): Judged {
  const { document, record, at } = input;
  if (!isTlogProof(text)) {
    const receipt = parseReceiptJson(text);
    const fault = failed('not a receipt: invalid JSON, a duplicate member, or too long');
    return receipt === undefined
      ? { checks: [{ name: 'receipt', ...fault }] }
      : createJudge(trust)({ ...input, receipt });
  }
  const judged = checkTlogProof(text, document, trust, at);
  const stamped = readStamped(text);
  const evidence =
    stamped && record && checkEvidenceRecord({ record, at }, stamped, trust.timestampAuthorities);
  return evidence === undefined
    ? judged
    : { ...judged, checks: [...judged.checks, { name: 'evidence-record', ...evidence.finding }], evidence };
}

/** A file passes only if this program knows, and so checks, all its members. */
function checkFile(what: 'bundle' | 'receipt', parsed: ParsedBundle | ParsedReceipt): Finding {
  if ('detail' in parsed)
    return parsed.kind === 'newer'
      ? unknown(`of a later version than this program knows: ${parsed.detail}`, `${what}_newer`)
      : failed(`not a ${what}: ${parsed.detail}`);
  const { isIntact, unknownMembers } = parsed;
  if (!isIntact) return failed(`its SHA-512 is not its ${what}_sha512`);
  return unknownMembers.length === 0
    ? passed(`its SHA-512 is its ${what}_sha512`)
    : unknown(`members that this program does not know: ${unknownMembers.slice(0, 5).join(', ')}`);
}

function checkManifest(receipt: ReceivedReceipt, subject: 'document' | 'canary'): Finding {
  const { manifest } = receipt;
  const fault = subjectFault(manifest, subject);
  if (fault !== undefined) return failed(fault);
  const pairs = {
    job_id: manifest.job_id === receipt.job_id,
    document_sha256: manifest.document.sha256 === receipt.document_sha256,
    sealed_at: manifest.sealed_at === receipt.sealed_at,
    customer_reference: manifest.customer_reference === receipt.customer_reference,
  };
  const differing = Object.entries(pairs).flatMap(([name, equal]) => (equal ? [] : [name]));
  if (differing.length > 0) return failed(`the receipt says otherwise: ${differing.join(', ')}`);
  return passed(`${quote(receipt.job_id)} agrees in every member with the receipt${noteOnSource(manifest)}`);
}

function verdictOn(all: NamedFinding[], required: readonly Requirement[] = []): Verdict {
  const counts = new Set<Reason | undefined>(required.flatMap((one) => [...REQUIRED[one]]));
  const findings = all
    .filter(({ reason }) => reason !== 'no_witness_policy' || counts.has(reason))
    .map((one): NamedFinding => (counts.has(one.reason) ? { ...one, outcome: 'unknown' } : one));
  const open = openIn(findings)?.outcome;
  const outcome = open === 'failed' ? 'bad' : open === 'unknown' ? 'unknown' : 'good';
  return { outcome, checks: findings.map(asCheck) };
}
