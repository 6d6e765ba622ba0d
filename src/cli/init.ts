import { existsSync, mkdirSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { Command, Option } from 'commander';
import { systemClock } from '../base/clock.ts';
import { OperatorError } from '../base/errors.ts';
import { type Config, loadConfig } from '../config.ts';
import { SignerFailure } from '../kms/failure.ts';
import { initKey, type PartitionOptions, readKey } from '../kms/partitions.ts';
import { type LogKey, SIGNATURE_ALGORITHMS, type SignatureAlgorithm } from '../log/keys.ts';
import { kmsKeyId } from '../manifest/receipt.ts';
import { encodeTrust } from '../manifest/trust.ts';
import { createStore } from '../store/lmdb.ts';
import { acquireLock } from '../store/lock.ts';
import { writeFileAtomically } from './files.ts';
import { configOption } from './options.ts';
import { note, print } from './terminal.ts';
import { trustOf } from './trust.ts';

interface InitOptions {
  config: string;
  algorithm: SignatureAlgorithm;
  useExistingKeys?: true;
}

export function initCommand(): Command {
  return new Command('init')
    .description(
      'Makes what an environment needs, once: a signing key in every HSM partition of the config file, an empty log and ' +
        'store, and the trust file. Run it as the user the daemon runs as. Nothing that exists is ever overwritten.',
    )
    .addOption(configOption())
    .addOption(
      new Option('--algorithm <name>', 'algorithm of the keys it makes')
        .choices(SIGNATURE_ALGORITHMS)
        .default('ed25519'),
    )
    .option('--use-existing-keys', 'take the keys that partitions hold already, make those that are missing')
    .addHelpText(
      'after',
      `
Examples:
  pdfseal init --config /etc/pdfseal/sandbox.toml
  runuser -u pdfseal -- pdfseal init --config /etc/pdfseal/production.toml --algorithm ecdsa-p256`,
    )
    .action(init);
}

async function init({ config: file, algorithm, useExistingKeys }: InitOptions): Promise<void> {
  const config = loadConfig(file);
  refuseExisting(config);
  mkdirSync(config.stateDir, { recursive: true, mode: 0o700 });
  const lock = acquireLock(config.lockFile);
  try {
    const logKeys = await makeKeys(config, algorithm, useExistingKeys ?? false);
    const identity = { environment: config.environment, logOrigin: config.log.origin, logKeys };
    // The store comes last, and whole: if we stop before it, the same command (with --use-existing-keys) goes on.
    writeFileAtomically(config.trustFile, encodeTrust(trustOf(identity, config.kms.quorum)));
    await createStore({ path: config.storeDir, identity: { ...identity, createdAt: systemClock() } });
  } finally {
    lock.release();
  }
  print(`log    ${config.log.origin}`);
  print(`store  ${config.storeDir}`);
  print(`trust  ${config.trustFile}`);
  note(`Next: issue an API key:  pdfseal keys issue --config ${file} --client NAME --organization NAME`);
  note(`      and start:         pdfseald --config ${file}`);
}

function refuseExisting({ stateDir, storeDir }: Config): void {
  if (existsSync(storeDir))
    throw new OperatorError(`${storeDir} exists already: a store is never overwritten`);
  const home = existsSync(stateDir) ? stateDir : dirname(stateDir);
  if (!existsSync(home))
    throw new OperatorError(`${home} does not exist: make the folder, owned by the daemon's user`);
  const owner = statSync(home).uid;
  if (home === stateDir && owner !== process.geteuid?.()) {
    throw new OperatorError(
      `${stateDir} belongs to the user with id ${owner}: run this command as that user`,
    );
  }
}

/** The key of every partition, in the order of the config file. Looks at all of them before it makes the first. */
async function makeKeys(
  config: Config,
  algorithm: SignatureAlgorithm,
  useExisting: boolean,
): Promise<LogKey[]> {
  const { partitions } = config.kms;
  const found: (LogKey | undefined)[] = [];
  for (const partition of partitions) found.push(await findKey(partition));
  const existing = found.filter((key) => key !== undefined);
  if (existing.length > 0 && !useExisting) {
    throw new OperatorError(
      `there is a key already: ${existing.map(kmsKeyId).join(', ')}; --use-existing-keys takes it, if nothing else ever signed with it`,
    );
  }
  const keys: LogKey[] = [];
  for (const [index, partition] of partitions.entries()) {
    const key = found[index] ?? (await makeKey(partition, algorithm, keys.length > 0));
    print(`key    ${kmsKeyId(key)}  ${key.algorithm}  ${found[index] ? 'found' : 'made'}`);
    keys.push(key);
  }
  return keys;
}

async function makeKey(
  partition: PartitionOptions,
  algorithm: SignatureAlgorithm,
  othersMade: boolean,
): Promise<LogKey> {
  try {
    return await initKey(partition, algorithm);
  } catch (error) {
    if (othersMade) note('The keys above were made; repeat with --use-existing-keys once this is mended:');
    throw error;
  }
}

async function findKey(partition: PartitionOptions): Promise<LogKey | undefined> {
  try {
    return await readKey(partition);
  } catch (error) {
    const { cause } = error as OperatorError;
    if (cause instanceof SignerFailure && cause.code === 'key_not_found') return undefined;
    throw error;
  }
}
