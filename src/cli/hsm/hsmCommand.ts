import { existsSync } from 'node:fs';
import { Command, Option } from 'commander';
import { AUTHORITY_ALGORITHMS } from '../../asn1/signatureAlgorithm.ts';
import { OperatorError } from '../../base/errors.ts';
import { loadConfig } from '../../config/config.ts';
import { KEY_ALGORITHMS, type KeyAlgorithm } from '../../kms/keyAlgorithm.ts';
import { initKey } from '../../kms/keyOperations.ts';
import { kmsKeyId, SIGNATURE_ALGORITHMS } from '../../log/verifierKey.ts';
import { explain } from '../help.ts';
import { actOnRecord, jsonOption, withStore } from '../options.ts';
import { note, print, printJson } from '../terminal.ts';
import { certificatesCommand } from './certificatesCommand.ts';
import { certifyCommand, csrCommand, installCertificateCommand } from './hsmCertificates.ts';
import { destroyKeyCommand } from './hsmDestroy.ts';
import { drillCommand } from './hsmDrill.ts';
import { configuredKeys, type KeyChoice, pickKey, type WantedKey, withKeyOptions } from './hsmKeys.ts';
import { listCommand } from './hsmList.ts';

export function hsmCommand(): Command {
  return new Command('hsm')
    .description(
      'The keys of an environment in their HSM partitions, and the certificates of those that stamp time. A key is named by ' +
        'its --region and --key-label in the config file; what is the only one of its kind need not be named.',
    )
    .addCommand(initKeyCommand())
    .addCommand(listCommand())
    .addCommand(destroyKeyCommand())
    .addCommand(csrCommand())
    .addCommand(installCertificateCommand())
    .addCommand(certifyCommand())
    .addCommand(certificatesCommand())
    .addCommand(drillCommand());
}

function initKeyCommand(): Command {
  return explain(
    withKeyOptions(new Command('init-key'))
      .summary('make one key of the config file in its token')
      .description(
        'Makes one key of the config file in its token: private, sensitive, not extractable, and checked to be so. An ' +
          'existing key is never replaced, nor is one that a log began with. `pdfseal init` makes all of them.',
      )
      .addOption(
        new Option(
          '--algorithm <name>',
          `of a log key ${SIGNATURE_ALGORITHMS.join(' or ')}, of a time-stamping key ${AUTHORITY_ALGORITHMS.join(' or ')}`,
        ).choices(KEY_ALGORITHMS),
      )
      .option('--new-label <label>', 'make it under this label, to be taken by `pdfseal epochs plan`')
      .addOption(jsonOption())
      .action(makeKey),
    {
      notes: `The algorithm, if you do not say: ed25519 for a log key, ecdsa-p256 for a time-stamping key.`,
      examples: [
        'pdfseal hsm init-key --config production.toml --region eu-west --key-label tsa-2027 --algorithm rsa-3072',
      ],
    },
  );
}

interface InitKeyOptions extends KeyChoice {
  config: string;
  algorithm?: KeyAlgorithm;
  newLabel?: string;
  json?: true;
}

async function makeKey({
  config: file,
  algorithm,
  newLabel,
  json,
  ...choice
}: InitKeyOptions): Promise<void> {
  const config = loadConfig(file);
  const { purpose, token } = pickKey(configuredKeys(config), choice);
  const wanted = { purpose, token: { ...token, keyLabel: newLabel ?? token.keyLabel } };
  const suitable = wanted.purpose === 'log' ? SIGNATURE_ALGORITHMS : AUTHORITY_ALGORITHMS;
  const chosen = algorithm ?? (wanted.purpose === 'log' ? 'ed25519' : 'ecdsa-p256');
  if (!suitable.some((name) => name === chosen)) {
    throw new OperatorError(
      `--algorithm ${chosen}: a ${wanted.purpose} key must be ${suitable.join(' or ')}`,
    );
  }
  if (wanted.purpose === 'log' && existsSync(config.storeDir)) await refuseKnown(file, wanted);
  const named = { key: kmsKeyId(wanted.token), algorithm: chosen, purpose };
  const key = await actOnRecord(file, ['hsm.init_key', named], () => initKey(wanted.token, chosen));
  if (json)
    printJson({ purpose: wanted.purpose, region: key.region, key_label: key.keyLabel, algorithm: chosen });
  else print(`key    ${kmsKeyId(key)}  ${chosen}  made`);
  if (wanted.purpose === 'time-stamp')
    note(
      'Next: have it certified, with `pdfseal hsm csr`, or `pdfseal hsm certify` where there is a root of our own',
    );
}

/** A name stands for one key for ever: a new key of the old name would only hide the loss. */
async function refuseKnown(file: string, { token }: WantedKey): Promise<void> {
  const epochs = await withStore(file, 'read', (store) => store.epochs.newest());
  const known = epochs.list.some(({ keys }) => keys.some((key) => kmsKeyId(key) === kmsKeyId(token)));
  if (!known) return;
  throw new OperatorError(
    `the log knows a key ${kmsKeyId(token)}: restore that one from the HSM’s backup, or plan an epoch with new keys`,
  );
}
