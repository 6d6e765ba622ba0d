/** Facts that a verdict proves, for views that show more of a receipt than its checks. */
import type { DocumentDigests } from '../../job/job.ts';
import type { QuorumPolicy } from '../../log/quorum.ts';
import { openCheckpoint } from '../../log/signedCheckpoint.ts';
import { isTlogProof, parseTlogProof } from '../../log/tlogProof.ts';
import type { LogKey } from '../../log/verifierKey.ts';
import type { Bundle } from '../../manifest/bundle.ts';
import { parseReceipt, type ReceivedManifest, type ReceivedReceipt } from '../../manifest/received.ts';
import { epochOf, parseTrust, type TrustedEpoch } from '../../manifest/trustFile.ts';
import { bundleIn } from './bundleCheck.ts';
import { type Cosigned, cosignersOf } from './checkpointCheck.ts';
import { type CheckName, sharedParts } from './finding.ts';
import { parseReceiptJson } from './receiptText.ts';
import { listsOf, unrevoked } from './revocationCheck.ts';
import { checkTimestamps, type TrustedStamp } from './timestampCheck.ts';
import { findSigners, readManifest } from './tlogProofCheck.ts';
import type { Verdict } from './verify.ts';

/** The log's statement about a document. The service states it: the time of sealing is the only part that others bear out. */
export interface Statement {
  jobId: string;
  /** `env_<name>`. */
  environment: string;
  source: string;
  document: DocumentDigests;
  /** The copy without metadata. */
  copy?: DocumentDigests;
  reference?: string;
  purpose?: string;
  visibility?: string;
  /** RFC 3339. */
  acceptedAt?: string;
  sealedAt: string;
  scan: { verdict?: string; engine?: string; signatures?: string };
}

/** The facts behind checks that passed. */
export interface Proven {
  statement: Statement;
  origin: string;
  treeSize: number;
  leafIndex: number;
  /** The keys that signed, and the rule that they meet. */
  keys: LogKey[];
  quorum: QuorumPolicy;
  /** The epoch in which the document was sealed, and the tokens that say so; absent if the time is open. */
  time?: { epoch: TrustedEpoch; stamps: TrustedStamp[] };
  /** The witnesses of the trust file that have cosigned the checkpoint. */
  witnesses: Cosigned[];
}

/** A receipt, a bundle or a C2SP tlog-proof, parsed and not verified. */
interface Claimed {
  manifest: ReceivedManifest;
  checkpoint: string;
  leafIndex: number;
  receipt?: ReceivedReceipt;
  bundle?: Bundle;
}

/** The SHA-256 of the documents that a receipt or a proof says it is for. Nothing proves them: use them to find a document, and no more. */
export function claimedDigests(receiptText: string): string[] {
  const manifest = readClaimed(receiptText)?.manifest;
  if (manifest === undefined) return [];
  const { document, sealed_document: copy } = manifest;
  return copy === undefined ? [document.sha256] : [document.sha256, copy.sha256];
}

/**
 * The facts that `verdict` proves, which {@link verifyReceiptText} gave for these texts. Undefined if keys of the log have not signed
 * the statement, or if a check of the receipt, the time or the epoch failed. A document that is another one changes none of the facts.
 */
export function provenBy(receiptText: string, trustText: string, { checks }: Verdict): Proven | undefined {
  const outcomes = new Map(checks.map(({ name, outcome }) => [name, outcome]));
  const pass = (...names: CheckName[]) => names.every((name) => outcomes.get(name) === 'passed');
  const isSigned = (pass('receipt') || pass('proof')) && pass('leaf', 'checkpoint', 'quorum');
  const isContradicted = outcomes.get('time-stamp') === 'failed' || outcomes.get('epoch') === 'failed';
  const isTimed = pass('time-stamp', 'epoch', 'times') && outcomes.get('revocation') !== 'unknown';
  if (!isSigned || isContradicted) return undefined;

  const claimed = readClaimed(receiptText);
  const opened = claimed && openCheckpoint(claimed.checkpoint);
  const trust = parseTrust(trustText);
  const log = trust.logs.find(({ origin }) => origin === opened?.checkpoint.origin);
  const epoch = claimed && log && epochOf(log, Date.parse(claimed.manifest.sealed_at));
  if (claimed === undefined || opened === undefined || log === undefined || epoch === undefined)
    return undefined;
  const { keys, signedIn = epoch } = findSigners(opened, log, epoch);
  // The checkpoint that witnesses cosigned: that of a bundle is a later one.
  const later = claimed.bundle && parseTlogProof(claimed.bundle.tlogProof);
  const witnessed = claimed.bundle ? later && openCheckpoint(later.checkpoint) : opened;
  const stamps =
    claimed.receipt &&
    checkTimestamps(sharedParts(claimed.receipt), epoch, trust.timestampAuthorities).stamps;
  return {
    statement: statementOf(claimed.manifest),
    origin: log.origin,
    treeSize: opened.checkpoint.treeSize,
    leafIndex: claimed.leafIndex,
    keys,
    quorum: signedIn.quorum,
    ...(isTimed && { time: { epoch, stamps: unrevoked(stamps ?? [], listsOf(trust, claimed.bundle)) } }),
    witnesses: outcomes.get('witnesses') === 'failed' ? [] : cosignersOf(witnessed, log),
  };
}

function readClaimed(text: string): Claimed | undefined {
  if (isTlogProof(text)) {
    const parsed = parseTlogProof(text);
    const manifest = parsed?.extra && readManifest(parsed.extra);
    return manifest && parsed && { manifest, checkpoint: parsed.checkpoint, leafIndex: parsed.index };
  }
  const value = parseReceiptJson(text);
  const bundle = bundleIn(value);
  const parsed = parseReceipt(bundle ? bundle.receipt : value);
  if (parsed.kind !== 'receipt') return undefined;
  const { manifest, evidence } = parsed.receipt;
  const { checkpoint, leaf_index: leafIndex } = evidence;
  return { manifest, checkpoint, leafIndex, receipt: parsed.receipt, bundle };
}

function statementOf(manifest: ReceivedManifest): Statement {
  const text = (member: string, value: unknown) => (typeof value === 'string' ? { [member]: value } : {});
  const scan = Object(manifest.scan) as Record<string, unknown>;
  return {
    jobId: manifest.job_id,
    environment: manifest.environment,
    source: manifest.source,
    document: manifest.document,
    ...(manifest.sealed_document && { copy: manifest.sealed_document }),
    ...text('reference', manifest.customer_reference),
    ...text('purpose', manifest.purpose),
    ...text('visibility', manifest.visibility),
    ...text('acceptedAt', manifest.accepted_at),
    sealedAt: manifest.sealed_at,
    scan: {
      ...text('verdict', scan.verdict),
      ...text('engine', scan.engine),
      ...text('signatures', scan.signatures),
    },
  };
}
