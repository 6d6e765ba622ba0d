import { Command, Option } from 'commander';
import { fromBase64 } from '../base/bytes.ts';
import { OperatorError } from '../base/errors.ts';
import { openCheckpoint } from '../log/signedCheckpoint.ts';
import { encodeTlogProof } from '../log/tlogProof.ts';
import { encodeManifest } from '../manifest/manifest.ts';
import { parseReceipt } from '../manifest/received.ts';
import { checkReceiptLeaf } from '../prove/manifestCheck.ts';
import { parseReceiptJson, RECEIPT_BYTES_MAX } from '../prove/verify.ts';
import { readTextFile, writeFileAtomically } from './files.ts';
import { explain } from './help.ts';

export function receiptCommand(): Command {
  return new Command('receipt')
    .description('Writes a receipt in the formats of other tools. Needs only the receipt, and no network.')
    .addCommand(exportCommand());
}

function exportCommand(): Command {
  return explain(
    new Command('export')
      .summary('write what a receipt proves in the format of other tools')
      .description(
        'Writes the inclusion proof, the signed checkpoint and the manifest of a receipt as a C2SP tlog-proof, which verifiers of ' +
          'transparency logs read. The time-stamp stays in the receipt: keep the receipt.',
      )
      .argument('<receipt>', 'the receipt')
      .addOption(new Option('--format <name>', 'the format').choices(['tlog-proof']).default('tlog-proof'))
      .option('--output <path>', 'write to this file instead of standard output')
      .action(exportReceipt),
    {
      examples: [
        'pdfseal receipt export contract.pdf.receipt.json --format tlog-proof --output contract.pdf.tlog-proof',
      ],
    },
  );
}

function exportReceipt(path: string, { output }: { output?: string }): void {
  const parsed = parseReceipt(parseReceiptJson(readTextFile(path, RECEIPT_BYTES_MAX)));
  if (parsed.kind !== 'receipt') throw new OperatorError(`${path}: not a receipt: ${parsed.detail}`);
  const { manifest, evidence } = parsed.receipt;
  const { outcome, detail } = checkReceiptLeaf(
    parsed.receipt,
    openCheckpoint(evidence.checkpoint)?.checkpoint,
  );
  if (outcome !== 'passed') throw new OperatorError(`${path} proves nothing: ${detail}`);
  const text = encodeTlogProof({
    extra: encodeManifest(manifest),
    index: evidence.leaf_index,
    proof: evidence.inclusion_proof.map(fromBase64).filter((hash) => hash !== undefined),
    checkpoint: evidence.checkpoint,
  });
  if (output === undefined) process.stdout.write(text);
  else writeFileAtomically(output, text);
}
