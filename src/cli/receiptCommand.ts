import { writeFileAtomically } from '../base/atomicFile.ts';
import { fromBase64 } from '../base/bytes.ts';
import { ownProcess } from '../base/env.ts';
import { OperatorError } from '../base/errors.ts';
import { openCheckpoint } from '../log/signedCheckpoint.ts';
import { encodeTlogProof } from '../log/tlogProof.ts';
import { encodeManifest } from '../manifest/manifest.ts';
import { parseReceipt, type ReceivedReceipt } from '../manifest/received.ts';
import { checkEvidenceRecord } from '../prove/evidenceCheck.ts';
import { checkReceiptLeaf } from '../prove/manifestCheck.ts';
import { encodeChains } from '../prove/renewals.ts';
import { parseReceiptJson, RECEIPT_BYTES_MAX } from '../prove/verify.ts';
import { argument, command, group, option } from './command.ts';
import { readTextFile } from './files.ts';

const exportCommand = command('export', {
  summary: 'write what a receipt proves in the format of other tools',
  description:
    'Writes what a receipt proves for other tools. tlog-proof: the inclusion proof, the signed checkpoint and the manifest as a ' +
    'C2SP tlog-proof, which verifiers of transparency logs read; the time-stamp is not in it. ers: the time-stamp as an evidence ' +
    'record (RFC 4998) over the signed checkpoint, which archives read and renew; renewals of the log are not in it. Keep the receipt.',
  arguments: [argument('<receipt>', 'the receipt')],
  options: [
    option('--format <name>', 'the format', { choices: ['tlog-proof', 'ers'], default: 'tlog-proof' }),
    option('--output <path>', 'write to this file instead of standard output'),
  ],
  examples: [
    'pdfseal receipt export contract.pdf.receipt.json --format tlog-proof --output contract.pdf.tlog-proof',
    'pdfseal receipt export contract.pdf.receipt.json --format ers --output contract.pdf.ers',
  ],
  run({ format, output }, path) {
    const parsed = parseReceipt(parseReceiptJson(readTextFile(path, RECEIPT_BYTES_MAX)));
    if (parsed.kind !== 'receipt') throw new OperatorError(`${path}: not a receipt: ${parsed.detail}`);
    const { receipt } = parsed;
    const { outcome, detail } = checkReceiptLeaf(
      receipt,
      openCheckpoint(receipt.evidence.checkpoint)?.checkpoint,
    );
    if (outcome !== 'passed') throw new OperatorError(`${path} proves nothing: ${detail}`);
    const content = format === 'ers' ? initialRecord(path, receipt) : tlogProof(receipt);
    if (output === undefined) ownProcess().stdout.write(content);
    else writeFileAtomically(output, content);
  },
});

export const receiptCommand = group(
  'receipt',
  'Writes a receipt in the formats of other tools. Needs only the receipt, and no network.',
  [exportCommand],
);

function tlogProof({ manifest, evidence }: ReceivedReceipt): string {
  return encodeTlogProof({
    extra: encodeManifest(manifest),
    index: evidence.leaf_index,
    proof: evidence.inclusion_proof.map(fromBase64).filter((hash) => hash !== undefined),
    checkpoint: evidence.checkpoint,
  });
}

/** The evidence record of the receipt's time-stamp, as the service gives it while nothing is renewed. */
function initialRecord(path: string, { evidence }: ReceivedReceipt): Uint8Array {
  const { checkpoint, certificates } = evidence;
  const [timestamp] = evidence.timestamps;
  if (timestamp === undefined) throw new OperatorError(`${path} has no time-stamp to make a record of`);
  const [token, ...pool] = [timestamp.token, ...certificates].map(fromBase64);
  const known = pool.filter((der) => der !== undefined);
  if (token === undefined || known.length < pool.length)
    throw new OperatorError(`${path} proves nothing: its evidence contains what is not Base64`);
  const record = encodeChains([{ digest: 'sha512', timestamps: [{ token }] }], certificates);
  const stamped = { checkpoint, certificates: [], tokens: [] };
  const { finding } = checkEvidenceRecord({ record, at: Date.now() }, stamped, []);
  // Nobody is trusted here, so that no finding is good.
  if (finding.outcome === 'failed') throw new OperatorError(`${path} proves nothing: ${finding.detail}`);
  return record;
}
