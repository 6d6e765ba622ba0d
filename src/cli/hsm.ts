import { existsSync } from 'node:fs';
import { Command, Option } from 'commander';
import { AUTHORITY_ALGORITHMS } from '../asn1/algorithm.ts';
import { OperatorError } from '../base/errors.ts';
import { loadConfig } from '../config.ts';
import { KEY_ALGORITHMS, type KeyAlgorithm } from '../kms/algorithm.ts';
import { SIGNATURE_ALGORITHMS } from '../log/keys.ts';
import { kmsKeyId } from '../manifest/receipt.ts';
import { listCertificates } from './certificateList.ts';
import { certifyKey, installCertificate, parseValidityArgument, printRequest } from './hsmCertificates.ts';
import { configuredKeys, type KeyChoice, makeKey, pickKey, type WantedKey } from './hsmKeys.ts';
import { listKeys } from './hsmList.ts';
import { configOption, jsonOption, withStore } from './options.ts';
import { parseNamePart, parseSubjectArgument } from './subject.ts';
import { note, print, printJson } from './terminal.ts';

export function hsmCommand(): Command {
  const command = new Command('hsm').description(
    'The keys of an environment in their HSM partitions, and the certificates of those that stamp time. A key is named by ' +
      'its --region and --key-label in the config file; what is the only one of its kind need not be named.',
  );
  addKeyCommands(command);
  addCertificateCommands(command);
  return command;
}

function addKeyCommands(command: Command): void {
  withKey(
    command
      .command('init-key')
      .description(
        'Makes one key of the config file in its token: private, sensitive, not extractable, and checked to be so. An ' +
          'existing key is never replaced, nor is one that a log began with. `pdfseal init` makes all of them.',
      ),
  )
    .addOption(
      new Option(
        '--algorithm <name>',
        `of a log key ${SIGNATURE_ALGORITHMS.join(' or ')}, of a time-stamping key ${AUTHORITY_ALGORITHMS.join(' or ')}`,
      ).choices(KEY_ALGORITHMS),
    )
    .addOption(jsonOption())
    .addHelpText(
      'after',
      `
The algorithm, if you do not say: ed25519 for a log key, ecdsa-p256 for a time-stamping key.

Example:
  pdfseal hsm init-key --config production.toml --region eu-west --key-label tsa-2027 --algorithm rsa-3072`,
    )
    .action(initKey);
  command
    .command('list')
    .description(
      'Opens every key of the config file in its token, has it sign, and checks that the token says it cannot leave: ' +
        'CKA_TOKEN, CKA_PRIVATE, CKA_SENSITIVE, not CKA_EXTRACTABLE. A PIN that is refused is tried once.',
    )
    .addOption(configOption())
    .addOption(jsonOption())
    .addHelpText(
      'after',
      `
Exit status: 0 every key is there, signs and is protected · 1 one is not (standard error says why)

Examples:
  pdfseal hsm list --config /etc/pdfseal/production.toml
  pdfseal hsm list --config /etc/pdfseal/production.toml --json | jq -r 'select(.state != "ready") | .detail'`,
    )
    .action(listKeys);
}

function addCertificateCommands(command: Command): void {
  withKey(
    command
      .command('csr')
      .description(
        'Prints a request (PKCS#10, PEM) for the certificate of a time-stamping key, signed by that key, for the ' +
          'certificate authority of your site. It asks for the critical extended key usage timeStamping and no other.',
      ),
  )
    .requiredOption('--subject <name>', 'such as "CN=Time-stamping 1,O=Muster AG,C=DE"', parseSubjectArgument)
    .addOption(jsonOption())
    .addHelpText(
      'after',
      `
Example:
  pdfseal hsm csr --config production.toml --key-label tsa-2026 --subject "CN=Time-stamping 1,O=Muster AG" >tsa.csr`,
    )
    .action(printRequest);
  withKey(
    command
      .command('install-certificate')
      .description(
        'Installs what your certificate authority sent for a time-stamping key: its certificate and those above it up to ' +
          'the self-signed root, in one file or several, in any order, PEM or DER. Checks first that the key in the HSM is ' +
          'the certified one, that timeStamping is the only usage, and that all of them are a chain that is valid today. ' +
          'What was installed before is kept beside it.',
      )
      .argument('<file...>', 'files with certificates'),
  )
    .addOption(jsonOption())
    .addHelpText(
      'after',
      `
The running daemon goes on with the certificates it has: start it again.

Example:
  pdfseal hsm install-certificate tsa.pem site-ca.pem --config production.toml --key-label tsa-2026`,
    )
    .action(installCertificate);
  withKey(
    command
      .command('certify')
      .description(
        'For sites without a certificate authority: issues a time-stamping key a new certificate from the root that `pdfseal ' +
          'init` made in the HSM, and installs it: for a new key, or before the old certificate ends.',
      ),
  )
    .option(
      '--organization-name <name>',
      'organization (O) in the certificate (default: the root’s)',
      parseNamePart,
    )
    .option(
      '--validity <duration>',
      'how long (default 1825d, at most as long as the root)',
      parseValidityArgument,
    )
    .addOption(jsonOption())
    .addHelpText(
      'after',
      `
The running daemon goes on with the certificate it has: start it again.

Example:
  pdfseal hsm certify --config production.toml --key-label tsa-2027 --organization-name "Muster AG"`,
    )
    .action(certifyKey);
  command
    .command('certificates')
    .description(
      'Lists every certificate that time-stamps rest on, with its validity and the days left: those of the built-in ' +
        'authority and the roots of external ones. Needs no HSM.',
    )
    .addOption(configOption())
    .addOption(jsonOption())
    .addHelpText(
      'after',
      `
Exit status: 0 all are there and valid · 1 one is missing, expired or not yet valid

Example:
  pdfseal hsm certificates --config /etc/pdfseal/production.toml`,
    )
    .action(listCertificates);
}

function withKey(command: Command): Command {
  return command
    .addOption(configOption())
    .option('--region <name>', 'region of the key')
    .option('--key-label <label>', 'label of the key');
}

interface InitKeyOptions extends KeyChoice {
  config: string;
  algorithm?: KeyAlgorithm;
  json?: true;
}

async function initKey({ config: file, algorithm, json, ...choice }: InitKeyOptions): Promise<void> {
  const config = loadConfig(file);
  const wanted = pickKey(configuredKeys(config), choice);
  const suitable = wanted.purpose === 'log' ? SIGNATURE_ALGORITHMS : AUTHORITY_ALGORITHMS;
  const chosen = algorithm ?? (wanted.purpose === 'log' ? 'ed25519' : 'ecdsa-p256');
  if (!suitable.some((name) => name === chosen)) {
    throw new OperatorError(
      `--algorithm ${chosen}: a ${wanted.purpose} key must be ${suitable.join(' or ')}`,
    );
  }
  if (wanted.purpose === 'log' && existsSync(config.storeDir)) await refuseKnown(file, wanted);
  const key = await makeKey(wanted, chosen);
  if (json)
    printJson({ purpose: wanted.purpose, region: key.region, key_label: key.keyLabel, algorithm: chosen });
  else print(`key    ${kmsKeyId(key)}  ${chosen}  made`);
  if (wanted.purpose === 'time-stamp')
    note(
      'Next: have it certified, with `pdfseal hsm csr`, or `pdfseal hsm certify` where there is a root of our own',
    );
}

/** A log goes on with the keys it was begun with, or not at all: a new key of the old name would only hide the loss. */
async function refuseKnown(file: string, { token }: WantedKey): Promise<void> {
  const known = await withStore(file, 'read', async ({ identity }) =>
    identity.logKeys.some(({ region, keyLabel }) => region === token.region && keyLabel === token.keyLabel),
  );
  if (!known) return;
  throw new OperatorError(
    `the log was begun with a key ${kmsKeyId(token)}: restore that one from the HSM’s backup, no other can take its place`,
  );
}
