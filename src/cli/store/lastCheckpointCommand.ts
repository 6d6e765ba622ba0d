import { ownProcess } from '../../base/env.ts';
import type { Config } from '../../config/config.ts';
import {
  type Doubt,
  doubtOf,
  readLastCheckpoint,
  restartLastCheckpoint,
} from '../../prove/trail/lastCheckpoint.ts';
import { actOfProcess, onRecord } from '../../store/acts.ts';
import type { Store } from '../../store/store.ts';
import { command, option } from '../command.ts';
import { EXIT } from '../exit.ts';
import { forgetSigned, timeSuffix } from '../hsm/hsmResetSigners.ts';
import { CONFIG, parseSizeArgument, requireSize } from '../options.ts';
import { note, print, printResult } from '../terminal.ts';
import { withStore } from '../withStore.ts';

export const lastCheckpointCommand = command('last-checkpoint', {
  description:
    'Compares the log with its last checkpoint in the file that the daemon keeps outside the store (log.last_checkpoint_file). If the ' +
    'file is missing or damaged, or if the log contradicts it, the daemon does not start: the store can be an older copy, and a log ' +
    'that grows from an older copy contradicts receipts.\n\n' +
    'First restore the file or the newest backup, if you have one. If not, compare the log with the newest receipt that you can get ' +
    '(pdfseal check --against). With --accept-rollback, you take the responsibility that the log, as it is now, is the one to ' +
    'continue: the command sets the file aside, begins a new one, and records this on the audit trail. The daemon must not run.',
  options: [
    CONFIG,
    option(
      '--accept-rollback [leaves]',
      'continue the log in its present state; the number of its leaves is required, and shown without this option',
      parseSizeArgument,
    ),
  ],
  exit: {
    0: 'the log contains the last checkpoint, or the rollback is accepted',
    1: 'the daemon would refuse to start, and standard error says why',
  },
  examples: [
    'pdfseal last-checkpoint --config /etc/pdfseal/production.toml',
    'pdfseal last-checkpoint --config /etc/pdfseal/production.toml --accept-rollback 48213',
  ],
  async run({ config: file, acceptRollback: size }) {
    const found = await (size === undefined
      ? withStore(file, 'read', look)
      : withStore(file, 'alone', (store, config) => accept(store, config, size)));
    const { path, doubt, leaves, noted, accepted, aside } = found;
    if (doubt !== undefined && !accepted) ownProcess().exitCode = EXIT.failed;
    const shown = { file: path, tree_size: noted ?? null, leaves, doubt: doubt?.reason ?? null };
    printResult({ ...shown, accepted, kept: aside ?? null }, () => {
      if (doubt !== undefined) note(`pdfseal: ${doubt.reason}${accepted ? '' : `. ${doubt.remedy}`}`);
      if (aside !== undefined) note(`the former file is kept: ${aside}`);
      if (accepted) print(`${path}: begun again with ${leaves} leaves`);
      else if (doubt === undefined)
        print(`${path}: ${noted ?? 0} leaves; the log has ${leaves} and contains them`);
    });
  },
});

interface Found {
  /** The file of the last checkpoint. */
  path: string;
  doubt: Doubt | undefined;
  /** Size of the log. */
  leaves: number;
  /** The size in the file. */
  noted: number | undefined;
  accepted: boolean;
  aside?: string | undefined;
}

async function look(store: Store, { log: { lastCheckpointFile: path } }: Config): Promise<Found> {
  return {
    path,
    doubt: await doubtOf(store, path),
    leaves: (await store.log.head())?.treeSize ?? 0,
    noted: readLastCheckpoint(path)?.checkpoint.treeSize,
    accepted: false,
  };
}

async function accept(store: Store, config: Config, size: number | true): Promise<Found> {
  const found = await look(store, config);
  if (found.doubt === undefined) return found;
  requireSize(size, found.leaves);
  return { ...found, accepted: true, aside: await acceptRollback(store, config, found) };
}

async function acceptRollback(store: Store, config: Config, { doubt, leaves }: Found) {
  const act = actOfProcess('command', 'rollback.accept', {
    tree_size: leaves,
    rollback: doubt?.reason ?? null,
  });
  const suffix = timeSuffix();
  return onRecord(store.trail, act, () => {
    // If we stop after this, the last checkpoint still prevents the daemon from starting.
    forgetSigned(config, suffix);
    return restartLastCheckpoint(config.log.lastCheckpointFile, store, suffix);
  });
}
