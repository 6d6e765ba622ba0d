import { isDeepStrictEqual } from 'node:util';
import { RECORD_BYTES_MAX } from '../asn1/evidenceRecord.ts';
import type { RevocationList } from '../asn1/revocationList.ts';
import { writeFileAtomically } from '../base/atomicFile.ts';
import { fromBase64 } from '../base/bytes.ts';
import { systemClock } from '../base/clock.ts';
import { ownProcess } from '../base/env.ts';
import { OperatorError } from '../base/errors.ts';
import type { DocumentDigests } from '../job/job.ts';
import { openCheckpoint } from '../log/signedCheckpoint.ts';
import { encodeTlogProof, parseTlogProof, TLOG_PROOF_LENGTH_MAX, type TlogProof } from '../log/tlogProof.ts';
import { assembleBundle, BUNDLE_LENGTH_MAX, encodeBundle, parseBundle } from '../manifest/bundle.ts';
import { encodeManifest } from '../manifest/manifest.ts';
import { encodeReceipt } from '../manifest/receipt.ts';
import { parseReceipt, type ReceivedReceipt } from '../manifest/received.ts';
import { encodeChains } from '../prove/renewal/renewals.ts';
import { checkEvidenceRecord } from '../prove/verify/evidenceCheck.ts';
import { checkLeaf, checkReceiptLeaf } from '../prove/verify/manifestCheck.ts';
import { parseReceiptJson, stampedOf } from '../prove/verify/receiptText.ts';
import { sealFor } from '../prove/verify/sealedPdf.ts';
import { argument, command, group, option } from './command.ts';
import {
  digestFile,
  firstBytes,
  isSealed,
  openAnyPlace,
  readSmallFile,
  readTextFile,
  saveDocument,
} from './files.ts';

const FORMATS = ['tlog-proof', 'ers', 'bundle', 'receipt'] as const;

const exportCommand = command('export', {
  summary: 'write what a receipt proves in the format of other tools',
  description:
    'Writes what a receipt or a bundle proves for other tools. tlog-proof: the inclusion proof, the signed checkpoint and the manifest as a ' +
    'C2SP tlog-proof, which verifiers of transparency logs read; the time-stamp is not in it. ers: the time-stamp as an evidence ' +
    'record (RFC 4998) over the signed checkpoint, which archives read and renew; renewals are in it only if you name a bundle. bundle: the receipt with ' +
    'the proof of a checkpoint that witnesses cosigned and with its evidence record, in one file that `pdfseal verify` reads. receipt: the receipt of a bundle. Keep the receipt.',
  arguments: [argument('<receipt>', 'the receipt, or a bundle')],
  options: [
    option('--format <name>', 'the format', { choices: [...FORMATS], default: 'tlog-proof' }),
    option('--proof <file>', 'for a bundle: the receipt.tlog-proof of the same job'),
    option(
      '--evidence-record <file>',
      'for a bundle: the receipt.ers of the same job; the default is the time-stamp of the receipt',
    ),
    option('--output <path>', 'write to this file instead of standard output'),
  ],
  examples: [
    'pdfseal receipt export contract.pdf.receipt.json --format tlog-proof --output contract.pdf.tlog-proof',
    'pdfseal receipt export contract.pdf.receipt.json --format ers --output contract.pdf.ers',
    'pdfseal receipt export contract.pdf.receipt.json --format bundle --proof contract.pdf.tlog-proof --output contract.pdf.bundle.json',
  ],
  run({ format, proof, evidenceRecord, output }, path) {
    const parts = readParts(path);
    if (proof !== undefined)
      parts.proof = parseProofOf(readTextFile(proof, TLOG_PROOF_LENGTH_MAX), proof, parts.receipt);
    if (evidenceRecord !== undefined) parts.record = readRecord(evidenceRecord, parts.receipt);
    const content = WRITERS[format](path, parts);
    if (output === undefined) ownProcess().stdout.write(content);
    else writeFileAtomically(output, content);
  },
});

const attachCommand = command('attach', {
  summary: 'put a receipt into its PDF',
  description:
    'Writes a copy of the document that holds its receipt as an attached file, which PDF readers show. Nothing else changes: the copy begins with ' +
    'the document, byte for byte, and `pdfseal verify` proves it. Needs only the two files, and no network. Refuses what cannot be done with certainty, ' +
    'such as an encrypted, certified or damaged document, and PDF/A-1 and -2, which allow no such attachment.',
  arguments: [
    argument('<document>', 'the document, byte for byte as it was sealed, or its copy without metadata'),
    argument('<receipt>', 'the receipt of the document'),
  ],
  options: [option('--output <path>', 'the file to write, which must not exist', { required: true })],
  examples: ['pdfseal receipt attach contract.pdf contract.pdf.receipt.json --output contract.sealed.pdf'],
  run: ({ output }, documentPath, receiptPath) => attach(documentPath, receiptPath, output),
});

async function attach(documentPath: string, receiptPath: string, output: string): Promise<void> {
  const { receipt } = readParts(receiptPath);
  const { manifest } = receipt;
  const digests = await digestFile(documentPath);
  const isOf = ({ sha256, sha512, bytes }: DocumentDigests) =>
    isDeepStrictEqual(digests, { sha256, sha512, bytes });
  if (![manifest.document, manifest.sealed_document].some((one) => one && isOf(one)))
    throw new OperatorError(`${receiptPath} is not the receipt of ${documentPath}`);
  using source = openAnyPlace(documentPath);
  const seal = await sealFor(source, receipt);
  if (
    !(await saveDocument(
      output,
      joined(firstBytes(documentPath), seal),
      isSealed(digests, encodeReceipt(receipt)),
      false,
    ))
  )
    throw new OperatorError(`${output} exists already: name another file`);
}

async function* joined(document: AsyncIterable<Uint8Array>, seal: Uint8Array): AsyncIterable<Uint8Array> {
  yield* document;
  yield seal;
}

export const receiptCommand = group(
  'receipt',
  'Writes a receipt in the formats of other tools, or into its PDF. Needs only the receipt, and no network.',
  [exportCommand, attachCommand],
);

/** The parts of a receipt or a bundle, with those that the options name. */
interface Parts {
  receipt: ReceivedReceipt;
  proof?: TlogProof;
  /** Evidence record in DER. */
  record?: Uint8Array;
  revocationLists: readonly RevocationList[];
}

const WRITERS: Record<(typeof FORMATS)[number], (path: string, parts: Parts) => string | Uint8Array> = {
  'tlog-proof': (_, { receipt, proof = proofOf(receipt) }) =>
    encodeTlogProof({ ...proof, extra: encodeManifest(receipt.manifest) }),
  ers: (path, { receipt, record }) => record ?? initialRecord(path, receipt),
  bundle(path, { receipt, proof, record, revocationLists }) {
    if (proof === undefined)
      throw new OperatorError('a bundle needs --proof <file>: download receipt.tlog-proof of the same job');
    const { extra: _, ...bare } = proof;
    const hasTime = receipt.evidence.timestamps.length > 0;
    const evidenceRecord = record ?? (hasTime ? initialRecord(path, receipt) : undefined);
    const tlogProof = encodeTlogProof(bare);
    return encodeBundle(assembleBundle({ receipt, tlogProof, evidenceRecord, revocationLists }));
  },
  receipt: (_, { receipt }) => encodeReceipt(receipt),
};

function readParts(path: string): Parts {
  const value = parseReceiptJson(readTextFile(path, BUNDLE_LENGTH_MAX));
  const bundled = parseBundle(value);
  if (bundled !== undefined && bundled.kind !== 'bundle')
    throw new OperatorError(`${path}: not a bundle: ${bundled.detail}`);
  const parsed = parseReceipt(bundled ? bundled.bundle.receipt : value);
  if (parsed.kind !== 'receipt') throw new OperatorError(`${path}: not a receipt: ${parsed.detail}`);
  if (bundled?.isIntact === false) throw new OperatorError(`${path} is damaged: its checksum does not fit`);
  const { receipt } = parsed;
  const leaf = checkReceiptLeaf(receipt, openCheckpoint(receipt.evidence.checkpoint)?.checkpoint);
  if (leaf.outcome !== 'passed') throw new OperatorError(`${path} proves nothing: ${leaf.detail}`);
  if (bundled === undefined) return { receipt, revocationLists: [] };
  const { tlogProof, evidenceRecord, revocationLists } = bundled.bundle;
  return {
    receipt,
    proof: parseProofOf(tlogProof, path, receipt),
    record: evidenceRecord,
    revocationLists,
  };
}

/** The proof in a text, which must be of this receipt. Nobody's signature is verified: `pdfseal verify` does. Throws OperatorError. */
function parseProofOf(text: string, path: string, { manifest }: ReceivedReceipt): TlogProof {
  const proof = parseTlogProof(text);
  if (proof === undefined) throw new OperatorError(`${path}: not a C2SP tlog-proof of version 1`);
  const leaf = checkLeaf(manifest, proof, openCheckpoint(proof.checkpoint)?.checkpoint);
  if (leaf.outcome !== 'passed') throw new OperatorError(`${path} is not of this receipt: ${leaf.detail}`);
  return proof;
}

/** The evidence record in a file, which must begin with the time-stamp of this receipt. Nobody is trusted here. Throws OperatorError. */
function readRecord(path: string, receipt: ReceivedReceipt): Uint8Array {
  const record = readSmallFile(path, RECORD_BYTES_MAX);
  const { finding } = checkEvidenceRecord({ record, at: systemClock() }, stampedOf(receipt), []);
  if (finding.outcome !== 'failed') return record;
  throw new OperatorError(`${path} is not an evidence record of this receipt: ${finding.detail}`);
}

function proofOf({ evidence }: ReceivedReceipt): TlogProof {
  return {
    index: evidence.leaf_index,
    proof: evidence.inclusion_proof.map(fromBase64).filter((hash) => hash !== undefined),
    checkpoint: evidence.checkpoint,
  };
}

/** The evidence record of the receipt's time-stamp, as the service serves it before any renewal. */
function initialRecord(path: string, { evidence }: ReceivedReceipt): Uint8Array {
  const { checkpoint, certificates } = evidence;
  const [timestamp] = evidence.timestamps;
  if (timestamp === undefined) throw new OperatorError(`${path} has no time-stamp for an evidence record`);
  const [token, ...pool] = [timestamp.token, ...certificates].map(fromBase64);
  const known = pool.filter((der) => der !== undefined);
  if (token === undefined || known.length < pool.length)
    throw new OperatorError(`${path} proves nothing: its evidence contains what is not Base64`);
  const record = encodeChains([{ digest: 'sha512', timestamps: [{ token }] }], certificates);
  const stamped = { checkpoint, certificates: [], tokens: [] };
  const { finding } = checkEvidenceRecord({ record, at: systemClock() }, stamped, []);
  // No authority is trusted here, so no finding is good.
  if (finding.outcome === 'failed') throw new OperatorError(`${path} proves nothing: ${finding.detail}`);
  return record;
}
