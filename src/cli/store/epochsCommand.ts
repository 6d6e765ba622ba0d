import { InvalidArgumentError } from 'commander';
import { systemClock, toRfc3339 } from '../../base/clock.ts';
import { OperatorError } from '../../base/errors.ts';
import { canBeWitnessed } from '../../config/agreement.ts';
import { loadConfig } from '../../config/config.ts';
import { assertPlannable, cancelEpoch, changeEpochs, planEpoch } from '../../config/epochPlan.ts';
import { type KeyChoices, keysForEpoch } from '../../kms/epochKeys.ts';
import type { Epoch, Epochs } from '../../log/epochs.ts';
import { CLASSICAL_ALGORITHMS, describeKey, kmsKeyId } from '../../log/verifierKey.ts';
import { presentEpochs } from '../../ops/presentEpochs.ts';
import { EpochSeal, examineEpochs } from '../../prove/epochs/epochSeal.ts';
import { actorOfProcess } from '../../store/acts.ts';
import type { Store } from '../../store/store.ts';
import { command, group, option } from '../command.ts';
import { CONFIG, parseDateArgument } from '../options.ts';
import { isJson, note, print, printResult, printRows } from '../terminal.ts';
import { forPeople } from '../times.ts';
import { withStore } from '../withStore.ts';
import { keyMaker } from './keyMaker.ts';
import { repairEpochsCommand } from './repairEpochs.ts';

/** Time for the daemon to open the keys, and for the administrator to cancel. */
const LEAD_MS_DEFAULT = 300_000;
const MINUTE_MS = 60_000;

const listCommand = command('list', {
  summary: 'list the past epochs, the one in force and the planned one',
  options: [CONFIG],
  examples: ['pdfseal epochs list --config /etc/pdfseal/production.toml'],
  async run({ config }) {
    const { epochs, problems } = await withStore(config, 'read', async (store) => ({
      epochs: await store.epochs.newest(),
      problems: await problemsOf(store),
    }));
    printRows(presentEpochs(epochs, systemClock()), {
      EPOCH: ({ epoch }) => String(epoch),
      STATE: ({ state }) => state,
      FROM: ({ from }) => forPeople(from),
      QUORUM: ({ quorum }) => String(quorum),
      'TIME-STAMPS': ({ timestamps }) => timestamps,
      KEYS: ({ keys }) =>
        keys.map(({ key_label: keyLabel, ...key }) => describeKey({ ...key, keyLabel })).join(', '),
    });
    for (const problem of problems) note(`pdfseal: ${problem}`);
  },
});

const planCommand = command('plan', {
  summary: 'plan the next epoch: new keys, another quorum, other partitions',
  description:
    'Plans the next epoch: creates the new keys in their tokens, checks how the tokens protect them, signs with each, and records ' +
    'from when on they sign. Partitions, kms.quorum and time-stamps come from the config file: edit the file first to change ' +
    'them. The daemon can keep running.',
  options: [
    CONFIG,
    option(
      '--from <date>',
      'when the epoch begins, such as 2027-01-01 or 2027-01-01T06:00:00Z (default: in 5 minutes)',
      parseDateArgument,
    ),
    option(
      '--new-keys <which>',
      'partitions that get a new key: all, none, or <region>/<key_label> with commas between them',
      { parse: parseWhich, default: 'all' },
    ),
    option(
      '--suffix <text>',
      'end of the labels of new keys (default: e and the number of the epoch)',
      parseSuffix,
    ),
    option('--algorithm <name>', 'algorithm of new classical keys (default: that of the key they replace)', {
      choices: CLASSICAL_ALGORITHMS,
    }),
    option('--use-existing-keys', 'use keys that already exist under these labels'),
  ],
  notes: `The label of a new key is "<key_label>-<suffix>". You can cancel a planned epoch until a few seconds before it begins.`,
  examples: [
    'pdfseal epochs plan --config production.toml --from 2027-01-01',
    'pdfseal epochs plan --config production.toml --new-keys eu-west/production     one key only, in 5 minutes',
    'pdfseal epochs plan --config production.toml --new-keys none --from 2027-01-01  another quorum or partition',
  ],
  async run({ config: file, ...options }) {
    const config = loadConfig(file);
    const tell = isJson() ? note : print;
    await withStore(file, 'write', async (store) => {
      const { epochs: before } = await new EpochSeal(store).read();
      const inForce = assertPlannable(before, options.from);
      const suffix = options.suffix ?? `e${before.list.length + 1}`;
      const keys = await keysForEpoch(config.kms.partitions, before.list, inForce, {
        ...options,
        suffix,
        ...keyMaker(store.trail),
        tell,
      });
      const from = options.from ?? Math.ceil((systemClock() + LEAD_MS_DEFAULT) / MINUTE_MS) * MINUTE_MS;
      const change = await planEpoch(store, config, { before, from, keys });
      for (const root of change.newRoots) tell(`root   ${root}  trusted from this epoch on`);
      if (config.log.public && !canBeWitnessed(keys))
        note(
          'No key of this epoch is an Ed25519 key: witnesses and monitors of public logs accept no other.',
        );
      await changeEpochs(store, config, change, actorOfProcess('command'));
      report(await store.epochs.newest());
      tellNext(file, inForce, change.epoch);
    });
  },
});

const cancelCommand = command('cancel', {
  summary: 'cancel the planned epoch',
  description:
    'Cancels the planned epoch. Its keys stay in their tokens: destroy them, or plan again with --use-existing-keys. Replace ' +
    'trust files that you exported after you planned the epoch.',
  options: [CONFIG],
  examples: ['pdfseal epochs cancel --config /etc/pdfseal/production.toml'],
  asks: () => 'The planned epoch will be cancelled, and the trust files with it are wrong.',
  async run({ config: file }) {
    await withStore(file, 'write', async (store, config) => {
      const { epochs: before } = await new EpochSeal(store).read();
      const change = await cancelEpoch(store, before);
      const { epoch: coming, after } = change;
      await changeEpochs(store, config, change, actorOfProcess('command'));
      const from = toRfc3339(coming.from);
      printResult({ cancelled: from }, `cancelled  the epoch from ${from}`);
      const unused = coming.keys.filter(
        ({ spki }) => !after.some(({ keys }) => keys.some((key) => key.spki === spki)),
      );
      for (const key of unused)
        note(
          key.software
            ? `Its key ${describeKey(key)} still exists; to destroy it, remove the file and its copies`
            : `Its key still exists; to destroy it:  pdfseal hsm destroy-key ${kmsKeyId(key)} --config ${file} --confirm ${key.keyLabel}`,
        );
    });
  },
});

export const epochsCommand = group(
  'epochs',
  'Manages the epochs of the log. An epoch says which keys sign the log, from when, and by which rules. You plan an epoch for a time ' +
    'in the future; the running daemon opens the keys before that time and changes over at that time. Receipts of every epoch stay valid.',
  [listCommand, planCommand, cancelCommand, repairEpochsCommand],
);

async function problemsOf(store: Store): Promise<string[]> {
  try {
    return (await examineEpochs(store)).problems;
  } catch (error) {
    if (!(error instanceof OperatorError)) throw error;
    return [error.message]; // the log is damaged; the list can still be shown
  }
}

function report(epochs: Epochs): void {
  const row = presentEpochs(epochs, systemClock()).at(-1);
  if (row === undefined) return;
  printResult(
    row,
    `epoch  ${row.epoch}  planned from ${row.from}  quorum ${row.quorum}  time-stamps ${row.timestamps}`,
  );
}

function tellNext(file: string, inForce: Epoch, epoch: Epoch): void {
  const known = inForce.keys.map(({ region, partition }) => `${region}/${partition}`);
  const added = epoch.keys.some(({ region, partition }) => !known.includes(`${region}/${partition}`));
  if (added || (epoch.timestamps === 'required' && inForce.timestamps === 'none'))
    note('Next: restart pdfseald before the epoch begins, so that it knows the new partition or authority');
  note(`Next: give verifiers the new trust file:  pdfseal trust export --config ${file} --output trust.json`);
}

function parseWhich(text: string): KeyChoices['newKeys'] {
  return text === 'all' || text === 'none' ? text : text.split(',').map((name) => name.trim());
}

function parseSuffix(text: string): string {
  if (/^[\w.-]{1,32}$/.test(text)) return text;
  throw new InvalidArgumentError('Expected at most 32 letters, digits, dots, dashes or underscores.');
}
