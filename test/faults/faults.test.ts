/** The part of `npm run faults` that every run of the tests repeats: one daemon that is killed, and one that breaks a promise. */
import t from 'tap';
import { random } from '../support/seed.ts';
import { FAULTS, type Fault } from './faults.ts';

function faultNamed(name: string): Fault {
  const fault = FAULTS.find((one) => one.name === name);
  if (fault === undefined) throw new Error(`there is no fault "${name}"`);
  return fault;
}

for (const name of ['killed three times under load', 'tells nobody of jobs that are sealed together']) {
  t.test(name, async (t) => {
    const { ending, against } = await faultNamed(name).run(Math.floor(random() * 2 ** 31));
    t.strictSame(against, [], ending);
  });
}
