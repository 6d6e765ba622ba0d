import { Command } from 'commander';
import type { Diagnosis } from '../doctor/diagnosis.ts';
import { showDiagnosis } from '../doctor/show.ts';
import { diagnoseStart } from '../doctor/startDiagnosis.ts';
import { EXIT } from '../exit.ts';
import { explain } from '../help.ts';
import { configOption, jsonOption } from '../options.ts';
import { print, printJson } from '../terminal.ts';

export function checkConfigCommand(): Command {
  return explain(
    new Command('check-config')
      .description(
        'Says whether the daemon would start with this configuration: reads every file that a start reads, as the user who calls it, and ' +
          'tries the addresses. Asks no HSM, and changes nothing. Through pdfseal-run it sees what the daemon would see, credentials included; ' +
          '`pdfseald --check-config` is the same.',
      )
      .addOption(configOption())
      .addOption(jsonOption())
      .action(async ({ config, json }: { config: string; json?: true }) => {
        process.exitCode = (await checkConfig(config, json)) ? EXIT.ok : EXIT.failed;
      }),
    {
      exit: { 0: 'it would start, as far as could be looked at', 1: 'it would refuse to start' },
      examples: [
        'pdfseal-run production check-config',
        'pdfseal check-config --config /etc/pdfseal/production.toml --json | jq -r \'select(.verdict != "good") | .remedy\'',
      ],
    },
  );
}

/** Prints what a start would find; whether the daemon would start. Throws OperatorError for a file with faults in it. */
export async function checkConfig(file: string, json?: true): Promise<boolean> {
  const verdicts = new Set<Diagnosis['verdict']>();
  for await (const diagnosis of diagnoseStart(file)) {
    verdicts.add(diagnosis.verdict);
    if (json) printJson(diagnosis);
    else showDiagnosis(diagnosis);
  }
  const wouldStart = !verdicts.has('bad');
  const summary = !wouldStart
    ? 'the daemon would refuse to start'
    : verdicts.has('warning')
      ? 'good, but for what is marked'
      : 'good';
  if (!json) print(`${file}: ${summary}`);
  return wouldStart;
}
