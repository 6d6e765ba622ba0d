/** Finds and makes the keys of the coming epoch for `pdfseal epochs plan`: opens their tokens. */
import { OperatorError } from '../../base/errors.ts';
import type { KeyChoices } from '../../kms/epochKeys.ts';
import { initKey } from '../../kms/keyOperations.ts';
import { kmsKeyId } from '../../log/verifierKey.ts';
import { actOfProcess, onRecord } from '../../store/acts.ts';
import type { TrailStore } from '../../store/trail.ts';
import { findKey } from '../hsm/hsmKeys.ts';
import { note } from '../terminal.ts';

/** Every new key is recorded on `trail`. */
export function keyMaker(trail: Pick<TrailStore, 'append'>): Pick<KeyChoices, 'find' | 'make'> {
  return {
    async find(token, kept) {
      try {
        return await findKey({ purpose: 'log', token });
      } catch (error) {
        if (kept === undefined || !(error instanceof OperatorError)) throw error;
        // A key that stays is used as the log knows it, if its token does not answer.
        note(`pdfseal: ${error.message}`);
        note(`${kmsKeyId(token)} keeps its key, as the log knows it.`);
        return kept;
      }
    },
    async make(token, algorithm, othersMade) {
      const act = actOfProcess('command', 'hsm.init_key', {
        key: kmsKeyId(token),
        algorithm,
        purpose: 'log',
      });
      try {
        return await onRecord(trail, act, () => initKey(token, algorithm));
      } catch (error) {
        if (othersMade)
          note(
            'The keys above now exist. Correct this error, then repeat the command with --use-existing-keys:',
          );
        throw error;
      }
    },
  };
}
