import { Command } from 'commander';
import { environmentId } from '../manifest/manifest.ts';
import { encodeTrust, type TrustFile } from '../manifest/trust.ts';
import type { StoreIdentity } from '../store/store.ts';
import { writeFileAtomically } from './files.ts';
import { configOption, withStore } from './options.ts';
import { note } from './terminal.ts';

/** What a verifier of this log's receipts trusts: the keys the log was made with, and how many of them must sign. */
export function trustOf(identity: Omit<StoreIdentity, 'schema' | 'createdAt'>, quorum: number): TrustFile {
  const { environment, logOrigin, logKeys } = identity;
  return {
    timestamps: 'optional',
    logs: [{ origin: logOrigin, environment: environmentId(environment), quorum, keys: logKeys }],
  };
}

export function trustCommand(): Command {
  const command = new Command('trust').description('What verifiers need to trust this log.');
  command
    .command('export')
    .description(
      'Writes the trust file: the log, its keys and the quorum. Whoever verifies receipts pins it once, having received ' +
        'it from you in a way that they trust. It holds no secret.',
    )
    .addOption(configOption())
    .option('--output <file>', 'write here instead of standard output')
    .addHelpText(
      'after',
      `
Examples:
  pdfseal trust export --config /etc/pdfseal/production.toml --output trust.json
  pdfseal verify contract.pdf contract.pdf.receipt.json --trust trust.json`,
    )
    .action(exportTrust);
  return command;
}

async function exportTrust(options: { config: string; output?: string }): Promise<void> {
  const text = await withStore(options.config, 'read', async ({ identity }, { kms }) =>
    encodeTrust(trustOf(identity, kms.quorum)),
  );
  if (options.output === undefined) process.stdout.write(text);
  else {
    writeFileAtomically(options.output, text);
    note(`wrote ${options.output}`);
  }
}
