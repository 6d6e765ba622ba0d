import t from 'tap';
import { MUTANTS } from './mutants.ts';
import { simulate } from './simulate.ts';

/** The rarest fault shows in one of about 5,000 schedules. Each run ends with the first that it shows in. */
const SCHEDULES_TO_CATCH = '200000';

for (const [mutant, { file }] of Object.entries(MUTANTS)) {
  t.test(`a daemon that ${mutant} is caught`, async (t) => {
    const options = ['--as-found', '--schedules', SCHEDULES_TO_CATCH];
    if (file.startsWith('webhook/')) options.push('--outbox');
    t.match(await simulate(options, mutant), / {2}schedule \[/);
  });
}
