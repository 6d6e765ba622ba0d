import { systemClock } from '../../base/clock.ts';
import { ownProcess } from '../../base/env.ts';
import { MANUAL_FOLDER } from '../../base/package.ts';
import { type Config, type LoadOptions, loadConfig } from '../../config/config.ts';
import { command } from '../command.ts';
import { EXIT } from '../exit.ts';
import { CONFIG } from '../options.ts';
import { isJson, print } from '../terminal.ts';
import { diagnoseCertificates, diagnoseServed, diagnoseTls, servedWithTls } from './certificateDiagnosis.ts';
import { askDaemon } from './daemonDiagnosis.ts';
import { diagnoseDatabase } from './databaseDiagnosis.ts';
import { badFrom, type Diagnosis, good, printDiagnoses, warning } from './diagnosis.ts';
import { diagnoseFileSystem, diagnoseFiles, diagnoseNames } from './fileDiagnosis.ts';
import { diagnoseHardening } from './hardenDiagnosis.ts';
import { diagnoseClock, diagnoseEngine, diagnoseLimits, diagnoseNode } from './hostDiagnosis.ts';
import { diagnoseStore } from './storeDiagnosis.ts';
import { diagnoseTargets } from './targetDiagnosis.ts';
import { diagnosePostQuantum, diagnoseSeparation, probeTokens } from './tokenDiagnosis.ts';
import { diagnoseUpkeep } from './upkeepDiagnosis.ts';

export const doctorCommand = command('doctor', {
  description:
    'Checks every part of an installation, and says what is wrong and what to do. If the daemon runs, the command asks the daemon. ' +
    'If not, it opens the tokens itself, one key after the other, and tries a refused PIN only once.',
  options: [CONFIG],
  exit: { 0: 'all good', 1: 'something is broken', 2: 'everything works, but something needs attention' },
  examples: [
    'pdfseal doctor --config /etc/pdfseal/production.toml',
    'pdfseal doctor --config /etc/pdfseal/production.toml --json | jq -r \'select(.verdict != "good") | .remedy\'',
  ],
  async run({ config: file }) {
    const verdicts = await printDiagnoses(diagnosesOf(file));
    const worst = verdicts.has('bad') ? EXIT.failed : verdicts.has('warning') ? EXIT.attention : EXIT.ok;
    ownProcess().exitCode = worst;
    if (isJson()) return;
    if (worst !== EXIT.ok) print(`The manual: ${MANUAL_FOLDER}/index.html`);
    print(SUMMARIES[worst]);
  },
});

const SUMMARIES = {
  [EXIT.ok]: 'all good',
  [EXIT.failed]: 'something is broken',
  [EXIT.attention]: 'everything works, but something needs attention',
} as const;

/** The results as they come: a token can be slow. */
export async function* diagnosesOf(file: string): AsyncIterable<Diagnosis> {
  yield diagnoseNode();
  const lacking: string[] = [];
  const config = tryConfig(file, { files: 'needed', tell: (line) => void lacking.push(line) });
  if ('check' in config) yield config;
  else if (lacking.length > 0)
    yield warning('config', lacking.join('\n'), 'the other partitions meet the quorum; correct this one');
  else yield good('config', config.file);
  // The other checks need no modules and no PINs.
  const usable = 'check' in config ? tryConfig(file, { files: 'unused' }) : config;
  if ('check' in usable) return;
  yield* diagnoseNames(usable);
  yield* diagnoseTargets(usable);
  yield* diagnoseFileSystem(usable);
  yield* diagnoseFiles(usable);
  yield* diagnoseDatabase(usable);
  const { diagnoses: ofStore, keys = [] } = await diagnoseStore(usable);
  yield* ofStore;
  const { diagnoses, status, running } = await askDaemon(usable);
  yield* diagnoses;
  if (!running) {
    yield diagnoseEngine(usable);
    yield* diagnoseClock(usable);
    if (usable === config) yield* probeTokens(usable, keys);
  }
  yield* diagnoseSeparation(usable);
  yield* diagnosePostQuantum(usable);
  yield* diagnoseCertificates(usable, systemClock());
  for (const served of servedWithTls(usable)) {
    yield* diagnoseTls(served, systemClock());
    yield* diagnoseServed(served, status);
  }
  yield* diagnoseHardening(usable);
  yield* diagnoseUpkeep(usable);
  yield diagnoseLimits(usable, status?.pid ?? 'self');
}

function tryConfig(file: string, options: LoadOptions): Config | Diagnosis {
  try {
    return loadConfig(file, options);
  } catch (error) {
    return badFrom('config', error, 'correct the file; pdfseald.toml(5) explains every key');
  }
}
