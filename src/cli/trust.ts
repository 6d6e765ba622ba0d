import { existsSync } from 'node:fs';
import { Command } from 'commander';
import type { Certificate } from '../asn1/certificate.ts';
import { toBase64 } from '../base/bytes.ts';
import { BUILT_IN } from '../config/consistency.ts';
import type { Config } from '../config.ts';
import { environmentId } from '../manifest/manifest.ts';
import { encodeTrust, type TrustedAuthority, type TrustFile } from '../manifest/trust.ts';
import type { StoreIdentity } from '../store/store.ts';
import { certificateFile, readInstalled, readRetiredRoots } from '../tsa/installed.ts';
import { readCertificates } from '../tsa/pki.ts';
import { readSmallFile, writeFileAtomically } from './files.ts';
import { configOption, withStore } from './options.ts';
import { note } from './terminal.ts';

const ROOTS_BYTES_MAX = 1 << 20;

/** The part of the configuration that verifiers have to agree with. */
type TrustConfig = Pick<Config, 'kms' | 'timestamp' | 'certificatesDir'>;

/**
 * What a verifier of this log's receipts trusts: the keys the log was made with, how many of them must sign, and who may stamp.
 * Throws OperatorError when the certificates of an authority are not there.
 */
export function trustOf(
  { environment, logOrigin, logKeys, createdAt }: Omit<StoreIdentity, 'schema'>,
  config: TrustConfig,
): TrustFile {
  const timestamps = config.timestamp.authorities.length > 0 ? 'required' : 'none';
  const epoch = { notBefore: createdAt, quorum: config.kms.quorum, timestamps, keys: logKeys } as const;
  return {
    timestampAuthorities: authoritiesOf(config),
    logs: [{ origin: logOrigin, environment: environmentId(environment), epochs: [epoch] }],
  };
}

/** All that are configured, in use or not, and the roots of our own that were replaced: old receipts rest on them. */
function authoritiesOf({ timestamp, certificatesDir }: TrustConfig): TrustedAuthority[] {
  const isBuiltInUsed = timestamp.authorities.includes(BUILT_IN);
  const installed = timestamp.keys
    .filter((key) => isBuiltInUsed || existsSync(certificateFile(certificatesDir, key)))
    .flatMap((key) => readInstalled(certificatesDir, key).chain.slice(-1));
  const remotes = Object.entries(timestamp.remotes).map(([name, { rootsFile }]): [string, Certificate[]] => [
    name,
    readCertificates(readSmallFile(rootsFile, ROOTS_BYTES_MAX), rootsFile),
  ]);
  return [[BUILT_IN, [...installed, ...readRetiredRoots(certificatesDir)]] as const, ...remotes].flatMap(
    ([name, roots]) => distinct(roots).map((root) => ({ name, root })),
  );
}

function distinct(certificates: readonly Certificate[]): Certificate[] {
  return [...new Map(certificates.map((each) => [toBase64(each.der), each])).values()];
}

export function trustCommand(): Command {
  const command = new Command('trust').description('What verifiers need to trust this log.');
  command
    .command('export')
    .description(
      'Writes the trust file: the log, its keys, the quorum and the time-stamp authorities. Whoever verifies receipts pins it once, having received ' +
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
  const text = await withStore(options.config, 'read', async ({ identity }, config) =>
    encodeTrust(trustOf(identity, config)),
  );
  if (options.output === undefined) process.stdout.write(text);
  else {
    writeFileAtomically(options.output, text);
    note(`wrote ${options.output}`);
  }
}
