import { OperatorError } from '../../base/errors.ts';
import { EpochSeal, examineEpochs } from '../../prove/epochs/epochSeal.ts';
import { actOfProcess } from '../../store/acts.ts';
import type { Store } from '../../store/store.ts';
import { command } from '../command.ts';
import { CONFIG } from '../options.ts';
import { note, print, printResult } from '../terminal.ts';
import { withStore } from '../withStore.ts';

export const repairEpochsCommand = command('repair', {
  summary: 'put the list of epochs back as the log sealed it',
  description:
    'Puts the list of epochs in the store back as the sealed records of the audit trail have it, and records this. The daemon must ' +
    'not run. The command changes nothing if the records themselves were altered, or if the log has not sealed a record that ' +
    'changes the epochs: then restore a backup.',
  options: [CONFIG],
  exit: { 0: 'the list is as the log sealed it, or is so again' },
  examples: ['pdfseal epochs repair --config /etc/pdfseal/production.toml'],
  async run({ config: file }) {
    const repaired = await withStore(file, 'alone', putBack);
    printResult({ repaired }, () => {
      for (const difference of repaired) note(`pdfseal: ${difference}`);
      const rest = 'Run `pdfseal check`, find out who changed the store, and export the trust file again';
      print(repaired.length === 0 ? 'the epochs are those that the log sealed' : `repaired. ${rest}`);
    });
  },
});

/** Puts the sealed list back. Returns the differences, in lines. */
async function putBack(store: Store): Promise<string[]> {
  const epochSeal = new EpochSeal(store);
  const { problems } = await examineEpochs(store, epochSeal);
  if (problems.length === 0) return [];
  const derived = await epochSeal.derived();
  const act = actOfProcess('command', 'index.repair', { index: 'epochs', differences: problems });
  // If we stop before this, the list is still the wrong one; after it, the right one.
  if (!(await store.epochs.change(derived.list, derived.revision, act)))
    throw new OperatorError('someone else changed the epochs at the same time: repeat the command');
  return problems;
}
