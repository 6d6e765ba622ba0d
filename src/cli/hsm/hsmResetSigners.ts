import { existsSync, renameSync } from 'node:fs';
import { syncName } from '../../base/atomicFile.ts';
import type { Config } from '../../config/config.ts';
import { actOfProcess, onRecord } from '../../store/acts.ts';
import { argument, command, option } from '../command.ts';
import { CONFIG, parseSizeArgument, requireSize } from '../options.ts';
import { print, printResult } from '../terminal.ts';
import { withStore } from '../withStore.ts';

export const resetSignersCommand = command('reset-signers', {
  summary: 'let the signers continue the log as it is now',
  description:
    'Has the signers of the log continue the log as it is now. Each signer remembers the newest trees that it signed, and refuses a log ' +
    'that does not contain them: the store can be an older copy, and a log that grows from an older copy contradicts receipts.\n\n' +
    'First restore the newest backup, if you have one. If not, it is your responsibility that the log, in its present state, is the one to ' +
    'continue. The command sets the records of the signers aside, and records the reason on the audit trail. The daemon must not ' +
    'run. Signers that are units of their own are reset only where you run the command by pdfseal-run.',
  arguments: [argument('<leaves>', 'the number of leaves that the log has now', parseSizeArgument)],
  options: [
    option('--reason <text>', 'why the log went back, for the audit trail', { required: true }),
    CONFIG,
  ],
  exit: { 1: 'the log has another number of leaves, or the daemon runs' },
  examples: [
    'pdfseal hsm reset-signers 48213 --reason "restored after a disk failure" --config /etc/pdfseal/production.toml',
  ],
  async run({ config: file, reason }, size) {
    const aside = await withStore(file, 'alone', async (store, config) => {
      requireSize(size, (await store.log.head())?.treeSize ?? 0);
      const act = actOfProcess('command', 'signers.reset', { tree_size: size, reason });
      return onRecord(store.trail, act, async () => forgetSigned(config, timeSuffix()));
    });
    printResult({ leaves: size, kept: aside ?? null }, () => {
      if (aside !== undefined)
        print(`the signers that the daemon starts are reset; their previous records are kept: ${aside}`);
      // pdfseal-run resets signers that are units of their own if this is the last line.
      print(`the reason is on the audit trail: the log goes on with ${size} leaves`);
    });
  },
});

/** Sets aside the memory of the signers that are children of the daemon. Returns the new name, if there was any. */
export function forgetSigned({ signersDir }: Pick<Config, 'signersDir'>, suffix: string): string | undefined {
  if (!existsSync(signersDir)) return undefined;
  const aside = `${signersDir}.${suffix}`;
  renameSync(signersDir, aside);
  syncName(aside);
  return aside;
}

/** Suffix for the names of folders that are set aside. */
export function timeSuffix(): string {
  return new Date().toISOString().replaceAll(':', '');
}
