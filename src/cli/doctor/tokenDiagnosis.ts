import { OperatorError } from '../../base/errors.ts';
import type { Config } from '../../config/config.ts';
import { inspectKey } from '../../kms/keyOperations.ts';
import { signerRemedy } from '../../kms/signerFailure.ts';
import type { EpochKey } from '../../log/epochs.ts';
import { kmsKeyId } from '../../log/verifierKey.ts';
import { configuredKeys, signerFailureOf, type WantedKey } from '../hsm/hsmKeys.ts';
import { bad, type Diagnosis, good } from './diagnosis.ts';

const RECONNECT = 'check that the token is connected and that its module is configured';

/** Signs with every configured key, one after the other. For when no daemon runs. */
export async function probeTokens(config: Config, inForce: readonly EpochKey[]): Promise<Diagnosis[]> {
  const diagnoses: Diagnosis[] = [];
  for (const wanted of configuredKeys(config)) {
    diagnoses.push(await probe(inEpoch(wanted, inForce)));
  }
  return diagnoses;
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
    const { algorithm, exposures } = await inspectKey(token);
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
