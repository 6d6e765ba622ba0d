import { ownProcess } from '../../base/env.ts';
import { command, option } from '../command.ts';
import { printDiagnoses } from '../doctor/diagnosis.ts';
import { diagnoseReload, diagnoseStart } from '../doctor/startDiagnosis.ts';
import { EXIT } from '../exit.ts';
import { CONFIG } from '../options.ts';
import { isJson, print } from '../terminal.ts';

export const checkConfigCommand = command('check-config', {
  description:
    'Checks whether the daemon would start with this configuration: reads every file that a start reads, as the user who runs the ' +
    'command, and tries the addresses. Does not use the HSM, and changes nothing. With pdfseal-run, it reads the files and credentials ' +
    'as the daemon does. `pdfseald --check-config` does the same.',
  options: [
    CONFIG,
    option(
      '--reload',
      'check only what a running daemon reads anew: the file, and the certificates and keys of TLS',
    ),
  ],
  exit: {
    0: 'the daemon would start, as far as could be checked',
    1: 'the daemon would refuse to start, or with --reload, to use what is new',
  },
  examples: [
    'pdfseal-run production check-config',
    'pdfseal check-config --config /etc/pdfseal/production.toml --json | jq -r \'select(.verdict != "good") | .remedy\'',
  ],
  async run({ config, reload }) {
    if (reload) {
      const verdicts = await printDiagnoses(diagnoseReload(config));
      ownProcess().exitCode = verdicts.has('bad') ? EXIT.failed : EXIT.ok;
    } else ownProcess().exitCode = (await checkConfig(config)) ? EXIT.ok : EXIT.failed;
  },
});

/** Prints the findings of a start. Returns whether the daemon would start. Throws OperatorError if the config file is not valid. */
export async function checkConfig(file: string): Promise<boolean> {
  const verdicts = await printDiagnoses(diagnoseStart(file));
  const wouldStart = !verdicts.has('bad');
  const summary = !wouldStart
    ? 'the daemon would refuse to start'
    : verdicts.has('warning')
      ? 'good, except for the warnings above'
      : 'good';
  if (!isJson()) print(`${file}: ${summary}`);
  return wouldStart;
}
