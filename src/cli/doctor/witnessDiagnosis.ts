import { readFileSync } from 'node:fs';
import { systemClock } from '../../base/clock.ts';
import { canBeWitnessed } from '../../config/agreement.ts';
import type { Config } from '../../config/config.ts';
import { findingsOf } from '../../health/healthFindings.ts';
import { encodeCosigner } from '../../log/cosignature.ts';
import type { Epoch } from '../../log/epochs.ts';
import { encodeVkey } from '../../log/verifierKey.ts';
import { parseWitnessPolicy, WitnessPolicyError } from '../../log/witnessPolicy.ts';
import type { Store } from '../../store/store.ts';
import { isLoopback } from '../../web/address.ts';
import { type Diagnosis, diagnosisOf, good, warning } from './diagnosis.ts';

const NEW_KEY = 'plan an epoch with one: pdfseal epochs plan --algorithm ed25519';

/** Whether witnesses can accept what the keys of the epoch sign, and what the store knows of witnesses. */
export async function diagnoseWitnesses(
  { log, witness: { policy: file } }: Pick<Config, 'log' | 'witness'>,
  store: Pick<Store, 'witnessing'>,
  { keys }: Epoch,
): Promise<Diagnosis[]> {
  const isPublic = log.public && !canBeWitnessed(keys);
  const unfit =
    'no key of the epoch is an Ed25519 key: witnesses and monitors of public logs accept no other';
  if (file === undefined) return isPublic ? [warning('log keys', unfit, NEW_KEY)] : [];
  const policy = readPolicy(file);
  // The check of the configuration has said so.
  if (policy === undefined) return [];
  const listed = policy.logs.filter(({ key }) => key?.name === log.origin).map(({ vkey }) => vkey);
  const own = keys
    .filter(({ algorithm }) => algorithm === 'ed25519')
    .map((key) => encodeVkey(log.origin, key));
  const isListed = listed.length === 0 || own.some((vkey) => listed.includes(vkey));
  const detail = `${file} lists ${log.origin} with other keys than the epoch has`;
  const remedy = `have each witness add a key of the epoch, and list it in the policy: ${own.map((vkey) => `log ${vkey}`).join(', ')}`;
  const { witnesses } = await store.witnessing.get();
  const forks = Object.entries(witnesses).flatMap(([vkey, { contradiction }]) => {
    const label = policy.witnesses.find((one) => encodeCosigner(one) === vkey)?.label;
    if (label === undefined || contradiction === undefined) return [];
    return [{ name: label, state: 'contradiction' as const, tree_size: 0, detail: contradiction.detail }];
  });
  const known = { fork_alarm: forks.length > 0, can_cosign: true, by_hand: false, members: forks };
  return [
    isListed
      ? good('witness policy', `${policy.witnesses.length} witnesses in ${file}`)
      : warning('witness policy', detail, remedy),
    ...policy.witnesses
      .filter(({ url }) => url !== undefined && isForgeable(url))
      .map(({ label, url }) =>
        warning(
          `witness ${label}`,
          `its URL ${url?.href} leaves this machine without TLS: an attacker on the way can forge a refusal, which stops all sealing`,
          'put TLS before the witness and write https: in the policy, use a tunnel, or transfer the requests by file: pdfseal witness request',
        ),
      ),
    ...findingsOf({ witnesses: known }, systemClock()).map(diagnosisOf),
  ];
}

/** Nobody can forge a cosignature, but without TLS anybody on the way can answer 409 or 422. */
function isForgeable({ protocol, hostname }: URL): boolean {
  const host = hostname.replace(/^\[(.*)\]$/, '$1');
  return protocol === 'http:' && host !== 'localhost' && !isLoopback(host);
}

function readPolicy(file: string) {
  try {
    return parseWitnessPolicy(readFileSync(file, 'utf8'));
  } catch (error) {
    if (error instanceof WitnessPolicyError || (error instanceof Error && 'code' in error)) return undefined;
    throw error;
  }
}
