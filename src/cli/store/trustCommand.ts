import { Command } from 'commander';
import { fromUtf8, toHex } from '../../base/bytes.ts';
import { sha256 } from '../../base/crypto.ts';
import { trustOfStore } from '../../config/trustAnchors.ts';
import { encodeTrust } from '../../manifest/trustFile.ts';
import { actOfProcess } from '../../store/acts.ts';
import { writeFileAtomically } from '../files.ts';
import { explain } from '../help.ts';
import { configOption, withStore } from '../options.ts';
import { note, printJson } from '../terminal.ts';

export function trustCommand(): Command {
  const command = new Command('trust').description('Exports the trust file.');
  explain(
    command
      .command('export')
      .description(
        'Writes the trust file: the log, the keys and the quorum of each epoch (also of a planned one), and the time-stamp authorities. ' +
          'Give it to everyone who verifies receipts, in a way that they trust. It contains no secret.',
      )
      .addOption(configOption())
      .option('--output <path>', 'write to this file instead of standard output')
      .action(exportTrust),
    {
      examples: [
        'pdfseal trust export --config /etc/pdfseal/production.toml --output trust.json',
        'pdfseal verify contract.pdf contract.pdf.receipt.json --trust trust.json',
      ],
    },
  );
  return command;
}

async function exportTrust(options: { config: string; output?: string; json?: true }): Promise<void> {
  const { text, digest } = await withStore(options.config, 'write', async (store, config) => {
    const text = encodeTrust(await trustOfStore(store, config));
    const digest = toHex(sha256(fromUtf8(text)));
    await store.trail.append(actOfProcess('command', 'trust.export', { sha256: digest }));
    return { text, digest };
  });
  if (options.output === undefined) process.stdout.write(text);
  else {
    writeFileAtomically(options.output, text);
    if (options.json) printJson({ trust_file: options.output, sha256: digest });
    else
      note(
        `wrote ${options.output}, SHA-256 ${digest}; verifiers compare this with what pdfseal verify prints`,
      );
  }
}
