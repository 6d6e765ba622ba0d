import { isDeepStrictEqual } from 'node:util';
import { OperatorError } from '../../base/errors.ts';
import { MANUAL_FOLDER } from '../../base/package.ts';
import type { Config } from '../../config/config.ts';
import { BUILT_IN } from '../../config/schema.ts';
import { signerFailureOf } from '../../kms/epochKeys.ts';
import { inspectKey } from '../../kms/keyOperations.ts';
import { signerRemedy } from '../../kms/signerFailure.ts';
import type { EpochKey } from '../../log/epochs.ts';
import { encodeQuorum, meetsQuorum } from '../../log/quorum.ts';
import { kmsKeyId } from '../../log/verifierKey.ts';
import { configuredKeys, type WantedKey } from '../hsm/hsmKeys.ts';
import { bad, type Diagnosis, good, warning } from './diagnosis.ts';

const RECONNECT =
  'check that the token is connected, that its module is configured, and that token_label or token_serial is right';

/** Signs with every configured key, one after the other. For when no daemon runs. */
export async function* probeTokens(config: Config, inForce: readonly EpochKey[]): AsyncIterable<Diagnosis> {
  for (const wanted of configuredKeys(config)) yield await probe(inEpoch(wanted, inForce));
}

/** Tokens that can seal with any date: each has a time-stamping key, and log keys that meet the quorum on their own. */
export function diagnoseSeparation({ kms, timestamp }: Config): Diagnosis[] {
  const stamping = timestamp.authorities.includes(BUILT_IN) ? timestamp.keys : [];
  const isAlone = (key: Token) =>
    meetsQuorum(
      kms.quorum,
      kms.partitions.filter((one) => isSameToken(one, key)),
    );
  return stamping
    .filter((key, index) => isAlone(key) && stamping.findIndex((one) => isSameToken(one, key)) === index)
    .map(({ tokenLabel, tokenSerial, region, keyLabel }) =>
      warning(
        'separate keys',
        `the token ${tokenLabel ?? tokenSerial} has a time-stamping key and log keys that meet the quorum: anyone with this token and its PIN can backdate documents within an epoch`,
        `put the time-stamping key ${region}/${keyLabel} on a token of its own: "What is trusted for what" in the manual, ${MANUAL_FOLDER}/trust.html`,
      ),
    );
}

/** A key of which nobody asks a signature. */
export function* diagnosePostQuantum({ kms: { quorum, partitions } }: Config): Iterable<Diagnosis> {
  const key = partitions.find(({ algorithm }) => algorithm === 'mldsa44');
  if (key === undefined || quorum.postQuantum !== undefined) return;
  const rule = encodeQuorum({ ...quorum, postQuantum: 1 });
  yield warning(
    'post-quantum key',
    `${kmsKeyId(key)} signs each checkpoint, but kms.quorum does not require a post-quantum signature: receipts without it are good too`,
    `set quorum = "${rule}", and plan an epoch with it`,
  );
}

type Token = Omit<Config['kms']['partitions'][number], 'algorithm'>;

function isSameToken(one: Token, other: Token): boolean {
  const names = ({ module, tokenLabel, tokenSerial, environment }: Token) => [
    module,
    tokenLabel ?? tokenSerial,
    environment,
  ];
  return isDeepStrictEqual(names(one), names(other));
}

/** A partition keeps its name in every epoch, but each epoch may have a key of another label. */
function inEpoch(wanted: WantedKey, inForce: readonly EpochKey[]): WantedKey {
  const { purpose, token } = wanted;
  const key = inForce.find(
    ({ region, partition }) => region === token.region && partition === token.keyLabel,
  );
  if (purpose !== 'log' || key === undefined) return wanted;
  return { purpose, token: { ...token, keyLabel: key.keyLabel } };
}

async function probe({ purpose, token }: WantedKey): Promise<Diagnosis> {
  const check = `${purpose === 'log' ? 'partition' : 'time-stamping key'} ${kmsKeyId(token)}`;
  try {
    const { algorithm, exposures, software } = await inspectKey(token);
    if (software)
      return good(check, `it signs (${algorithm}); a software key: anyone who can read its file can sign`);
    if (exposures.length === 0)
      return good(check, `it signs (${algorithm}), and its key cannot leave the token`);
    const remedy = 'replace it with a key that `pdfseal hsm init-key` creates';
    return bad(check, `its private key can leave the token (${exposures.join(', ')})`, remedy);
  } catch (error) {
    const failure = signerFailureOf(error);
    if (!(error instanceof OperatorError) || failure === undefined) throw error;
    return bad(check, `${failure.detail} (${failure.code})`, signerRemedy(failure) ?? RECONNECT);
  }
}
