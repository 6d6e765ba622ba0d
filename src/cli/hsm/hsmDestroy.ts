import { toHex } from '../../base/bytes.ts';
import { sha256 } from '../../base/crypto.ts';
import { OperatorError } from '../../base/errors.ts';
import { type Config, loadConfig } from '../../config/config.ts';
import { destroyKey, useKey } from '../../kms/keyOperations.ts';
import type { PartitionOptions } from '../../kms/partitions.ts';
import type { Epochs } from '../../log/epochs.ts';
import { kmsKeyId } from '../../log/verifierKey.ts';
import { readSynchronization } from '../../tsa/synchronization.ts';
import { argument, command, option } from '../command.ts';
import { CONFIG } from '../options.ts';
import { printResult } from '../terminal.ts';

import { actOnRecord, withStore } from '../withStore.ts';
import { keysInUse, rootBeside } from './hsmKeys.ts';

export const destroyKeyCommand = command('destroy-key', {
  summary: 'destroy a retired key in its token',
  description:
    'Destroys a key pair that you no longer need: a key of a past or cancelled epoch, or a time-stamping key that the config file ' +
    'no longer names. This cannot be undone. What the key signed stays valid. The command refuses every key that is in use or ' +
    'planned, and does not reach copies in backups of the HSM.',
  arguments: [argument('<key>', 'the key as <region>/<label>, as `pdfseal epochs list` shows it')],
  options: [
    CONFIG,
    option('--confirm <label>', 'the label of the key again, to confirm', { required: true }),
    option('--token <name>', 'label or serial number of the token, if the region has several tokens'),
  ],
  examples: [
    'pdfseal hsm destroy-key eu-west/production-e2 --config production.toml --confirm production-e2',
  ],
  misuse: (_, name) => (KEY_NAME.test(name) ? undefined : `${name}: name the key as <region>/<label>`),
  async run({ config: file, confirm, token: tokenName }, name) {
    const [, region = '', keyLabel = ''] = KEY_NAME.exec(name) ?? [];
    if (confirm !== keyLabel)
      throw new OperatorError(`--confirm ${confirm} is not the label of ${name}; nothing was done`);
    const config = loadConfig(file);
    await requireTrustedClock(config);
    const epochs = await withStore(file, 'read', (store) => store.epochs.newest());
    const inUse = keysInUse(epochs);
    const stamping = config.timestamp.keys.flatMap((key) => [key, rootBeside(key)]).map(kmsKeyId);
    if (inUse.some((key) => kmsKeyId(key) === name))
      throw new OperatorError(
        `${name} signs the log in the epoch in force or in the planned one, so it was not destroyed`,
      );
    if (stamping.includes(name))
      throw new OperatorError(
        `${name} is a key of timestamp.keys, or the root of one, so it was not destroyed`,
      );
    const token = { ...tokenOf({ region, keyLabel }, tokenName, config, epochs), keyLabel };
    const { algorithm, spki } = await useKey(token, async (found) => found);
    if (inUse.some((key) => key.spki === spki))
      throw new OperatorError(
        `${name} is a key that signs the log under another name, so it was not destroyed`,
      );
    const spkiSha256 = toHex(sha256(Buffer.from(spki, 'base64')));
    await actOnRecord(file, ['hsm.destroy_key', { key: name, algorithm, spki_sha256: spkiSha256 }], () =>
      destroyKey(token),
    );
    printResult({ destroyed: name, algorithm }, `key    ${name}  ${algorithm}  destroyed`);
  },
});

const KEY_NAME = /^([^/]+)\/(.+)$/;

/** The clock decides whether an epoch is over, and a destroyed key cannot come back. Throws OperatorError if the clock is not trusted. */
async function requireTrustedClock({ clock, timestamp }: Config): Promise<void> {
  if (timestamp.authorities.length === 0) return;
  const { synchronized, detail } = await readSynchronization(clock).catch((error: unknown) => ({
    synchronized: false,
    detail: `${clock.trust} cannot be asked: ${(error as Error).message.split('\n')[0]}`,
  }));
  if (synchronized) return;
  throw new OperatorError(
    `the clock is not trusted (${detail}), so it is not certain which epochs are over; nothing was destroyed. Synchronize the clock first; see [clock] in the config file`,
  );
}

/** The token of the key, as the log knows it, or the only one of the region. */
function tokenOf(
  key: { region: string; keyLabel: string },
  tokenName: string | undefined,
  { kms, timestamp }: Config,
  { list }: Epochs,
): PartitionOptions {
  const known = list.flatMap(({ keys }) => keys).find((each) => kmsKeyId(each) === kmsKeyId(key));
  if (known?.software)
    throw new OperatorError(
      `${kmsKeyId(key)} is a software key, so it is on no token: to destroy it, remove the file and its copies`,
    );
  const tokens = [...kms.partitions, ...timestamp.keys].filter(
    ({ region, module }) => region === key.region && module !== undefined,
  );
  const candidates = tokens.filter(
    ({ tokenLabel, tokenSerial, keyLabel }) =>
      (tokenName === undefined || tokenName === (tokenLabel ?? tokenSerial)) &&
      (tokenName !== undefined || known === undefined || known.partition === keyLabel),
  );
  const distinct = new Map(
    candidates.map((each) => [`${each.module} ${each.tokenLabel ?? ''} ${each.tokenSerial ?? ''}`, each]),
  );
  const [found, second] = distinct.values();
  if (found !== undefined && second === undefined) return found;
  const names = tokens.map(({ tokenLabel, tokenSerial }) => tokenLabel ?? tokenSerial).join(', ');
  throw new OperatorError(
    `name the token of ${kmsKeyId(key)} with --token: ${names || 'but the config file has no token in that region'}`,
  );
}
