import { bytesEqual } from '../../base/bytes.ts';
import { OperatorError } from '../../base/errors.ts';
import type { Config } from '../../config/config.ts';
import { trustOfStore } from '../../config/trustAnchors.ts';
import type { TrustedAuthority } from '../../manifest/trustFile.ts';
import { fullestLevel } from '../../prove/renewal/recordLimits.ts';
import { missingRoots } from '../../prove/renewal/renewalCheck.ts';
import { waysNow } from '../../prove/renewal/renewalPath.ts';
import { DamagedTimestamp } from '../../prove/renewal/renewals.ts';
import { describeTheft, knownThefts, TAKE_BACK, type Theft } from '../../prove/renewal/thefts.ts';
import type { Store } from '../../store/store.ts';
import { bad, type Diagnosis, good, warning } from './diagnosis.ts';

/**
 * Whether verifiers can know the authorities of all renewals, whose keys were stolen, and whether evidence records become too large. Certificates
 * that cannot be read are another finding.
 */
export async function diagnoseRenewals(config: Config, store: Store): Promise<Diagnosis[]> {
  try {
    const { timestampAuthorities: authorities } = await trustOfStore(store, config);
    const missing = await missingRoots(store, authorities);
    const asked = authorities.filter(({ name }) => config.timestamp.authorities.includes(name));
    return [
      ...missing.map(({ detail, remedy }) => bad('renewals', detail, remedy)),
      ...(await knownThefts(store)).map((theft) => judgeTheft(theft, asked)),
      ...(await diagnoseSize(store)),
    ];
  } catch (error) {
    if (!(error instanceof OperatorError)) throw error;
    return error instanceof DamagedTimestamp ? [bad('renewals', error.message, error.remedy)] : [];
  }
}

function judgeTheft(theft: Theft, asked: readonly TrustedAuthority[]): Diagnosis {
  const detail = describeTheft(theft);
  return asked.some(({ root }) => bytesEqual(root.der, theft.root.der))
    ? warning('renewals', `${detail}, and timestamp.authorities has it`, `name another one; ${TAKE_BACK}`)
    : good('renewals', detail);
}

/** A warning begins where evidence records have so much of what verifiers take. */
const LEVEL_WARNING = 0.8;

/** Warns years before `pdfseal renew` refuses another renewal. */
export async function diagnoseSize({ log, renewals }: Pick<Store, 'log' | 'renewals'>): Promise<Diagnosis[]> {
  const runs = await renewals.runs();
  const digest = runs.at(-1)?.digest ?? 'sha512';
  const level = await fullestLevel(log, runs, { digest, ...waysNow(runs) });
  if (level === undefined || level.count + level.next < LEVEL_WARNING * level.max) return [];
  const { count, what, max, remedy } = level;
  const detail = `an evidence record has ${count} ${what}, and verifiers accept at most ${max}`;
  return [warning('renewals', detail, remedy)];
}
