import { AUTHORITY_ALGORITHMS } from '../../asn1/signatureAlgorithm.ts';
import { createFileAtomically } from '../../base/atomicFile.ts';
import { OperatorError } from '../../base/errors.ts';
import { loadConfig } from '../../config/config.ts';
import { KEY_ALGORITHMS } from '../../kms/keyAlgorithm.ts';
import { initKey } from '../../kms/keyOperations.ts';
import { makeSoftwareKey } from '../../kms/softwareKey.ts';
import { kmsKeyId, SIGNATURE_ALGORITHMS } from '../../log/verifierKey.ts';
import { storeExists } from '../../store/engines.ts';
import { argument, command, group, option } from '../command.ts';
import { note, printResult } from '../terminal.ts';
import { actOnRecord, withStore } from '../withStore.ts';
import { certificatesCommand } from './certificatesCommand.ts';
import { acceptanceCommand } from './hsmAcceptance.ts';
import { certifyCommand, csrCommand, installCertificateCommand } from './hsmCertificates.ts';
import { destroyKeyCommand } from './hsmDestroy.ts';
import { drillCommand } from './hsmDrill.ts';
import { configuredKeys, KEY_OPTIONS, pickKey, type WantedKey } from './hsmKeys.ts';
import { listCommand } from './hsmList.ts';
import { resetSignersCommand } from './hsmResetSigners.ts';
import { retryPinCommand } from './hsmRetryPin.ts';
import { revokeCertificateCommand, signRevocationListCommand } from './hsmRevocation.ts';

const initKeyCommand = command('init-key', {
  summary: 'create one key of the config file in its token',
  description:
    'Creates one key of the config file in its token: private, sensitive and not extractable, and checks that. The command never ' +
    'replaces an existing key, or a key that the log knows. `pdfseal init` creates all keys.',
  options: [
    ...KEY_OPTIONS,
    option(
      '--algorithm <name>',
      `${SIGNATURE_ALGORITHMS.join(' or ')} for a log key, ${AUTHORITY_ALGORITHMS.join(' or ')} for a time-stamping key`,
      { choices: KEY_ALGORITHMS },
    ),
    option(
      '--new-label <label>',
      'create the key under this label, for `pdfseal epochs plan --use-existing-keys`',
    ),
  ],
  notes: `The default algorithm of a log key is that of its table in the config file, or else ed25519, and of a time-stamping key ecdsa-p256.`,
  examples: [
    'pdfseal hsm init-key --config production.toml --region eu-west --key-label tsa-2027 --algorithm rsa-3072',
  ],
  async run({ config: file, algorithm, newLabel, ...choice }) {
    const config = loadConfig(file);
    const { purpose, token } = pickKey(configuredKeys(config), choice);
    const wanted = { purpose, token: { ...token, keyLabel: newLabel ?? token.keyLabel } };
    const suitable = purpose === 'log' ? SIGNATURE_ALGORITHMS : AUTHORITY_ALGORITHMS;
    const chosen = algorithm ?? token.algorithm ?? (purpose === 'log' ? 'ed25519' : 'ecdsa-p256');
    if (!suitable.some((name) => name === chosen))
      throw new OperatorError(`--algorithm ${chosen}: a ${purpose} key must be ${suitable.join(' or ')}`);
    if (token.algorithm !== undefined && chosen !== token.algorithm)
      throw new OperatorError(`--algorithm ${chosen}: the config file says algorithm = "${token.algorithm}"`);
    if (token.module === undefined)
      throw new OperatorError(
        `${kmsKeyId(token)} is a software key: \`pdfseal hsm make-software-key\` creates its file`,
      );
    if (purpose === 'log' && (await storeExists(config.store))) await refuseKnown(file, wanted);
    const named = { key: kmsKeyId(wanted.token), algorithm: chosen, purpose };
    const key = await actOnRecord(file, ['hsm.init_key', named], () => initKey(wanted.token, chosen));
    printResult(
      { purpose, region: key.region, key_label: key.keyLabel, algorithm: chosen },
      `key    ${kmsKeyId(key)}  ${chosen}  made`,
    );
    if (purpose === 'time-stamp')
      note(
        'Next: certify the key, with `pdfseal hsm csr`, or with `pdfseal hsm certify` if the root is in the HSM',
      );
  },
});

const softwareKeyCommand = command('make-software-key', {
  summary: 'create a post-quantum key in a file',
  description:
    'Creates an ML-DSA-44 key in a file that only its owner can read, for a partition with software_key_file or ' +
    'software_key_credential. Use it if your HSM does not support post-quantum keys: anyone who can read the file can sign with the key, so ' +
    'every verdict names the key as `software`. The command never replaces a file.',
  arguments: [argument('<file>', 'the file to write')],
  examples: ['pdfseal hsm make-software-key /etc/pdfseal/production.pins/post-quantum'],
  run(_, file) {
    if (!createFileAtomically(file, makeSoftwareKey(), 0o600))
      throw new OperatorError(`${file} exists already, and this command never overwrites a file`);
    printResult({ file, algorithm: 'mldsa44' }, `key    ${file}  mldsa44  made`);
    note(
      'Keep a copy of the file as safe as the PINs: without it nothing is sealed while the epoch requires the key.',
    );
  },
});

export const hsmCommand = group(
  'hsm',
  'Manages the keys of an environment in their HSM partitions, and the certificates of the time-stamping keys. Name a key by its ' +
    'region and key label in the config file (--region, --key-label). You can omit options that are not ambiguous.',
  [
    initKeyCommand,
    softwareKeyCommand,
    listCommand,
    destroyKeyCommand,
    csrCommand,
    installCertificateCommand,
    certifyCommand,
    certificatesCommand,
    revokeCertificateCommand,
    signRevocationListCommand,
    acceptanceCommand,
    drillCommand,
    resetSignersCommand,
    retryPinCommand,
  ],
);

/** A name belongs to one key permanently: a new key under an old name would hide the loss of the old one. */
async function refuseKnown(file: string, { token }: WantedKey): Promise<void> {
  const epochs = await withStore(file, 'read', (store) => store.epochs.newest());
  const known = epochs.list.some(({ keys }) => keys.some((key) => kmsKeyId(key) === kmsKeyId(token)));
  if (!known) return;
  throw new OperatorError(
    `the log already has a key ${kmsKeyId(token)}: restore that key from the HSM’s backup, or plan an epoch with new keys`,
  );
}
