import { loadConfig } from '../../config/config.ts';
import { forgetRefusedPins } from '../../kms/keyOperations.ts';
import { kmsKeyId } from '../../log/verifierKey.ts';
import { command } from '../command.ts';
import { CONFIG } from '../options.ts';
import { note, print, printResult } from '../terminal.ts';
import { configuredKeys } from './hsmKeys.ts';

export const retryPinCommand = command('retry-pin', {
  summary: 'allow a PIN that a token refused to be presented again',
  description:
    'Allows a PIN that a token refused to be presented again. A token locks itself after a few wrong PINs, so each PIN that a token refuses is ' +
    'remembered, and no start and no command presents it again: a PIN file that is corrected needs no command. Use this command if ' +
    'the refused PIN is right now, for example because the PIN was reset or unlocked in the token. The command itself presents no ' +
    'PIN. A running daemon tries again within seconds. PINs of signers that are units of their own are forgotten only where you run the ' +
    'command by pdfseal-run.',
  options: [CONFIG],
  exit: { 1: 'the records of refused PINs cannot be changed' },
  examples: [
    'pdfseal-run production hsm retry-pin',
    'pdfseal hsm retry-pin --config /etc/pdfseal/sandbox.toml',
  ],
  async run({ config: file }) {
    const tokens = configuredKeys(loadConfig(file, { files: 'unused' }))
      .map(({ token }) => token)
      .filter(({ module }) => module !== undefined);
    const forgotten: string[] = [];
    for (const token of tokens) if (await forgetRefusedPins(token)) forgotten.push(kmsKeyId(token));
    const away = tokens.filter(({ signer }) => signer !== undefined).map(kmsKeyId);
    printResult({ forgotten }, () => {
      print(
        forgotten.length > 0
          ? `the next log-in presents the PIN in its file, whatever it is: ${forgotten.join(', ')}`
          : 'no refused PIN is remembered',
      );
    });
    if (away.length > 0)
      note(
        `signers of their own, whose PINs this command does not see without pdfseal-run: ${away.join(', ')}`,
      );
  },
});
