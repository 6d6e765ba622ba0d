/** After the end of SHA-512, on which the time-stamps of checkpoints rest: how often a log is renewed in decades. */
import t from 'tap';
import {
  dueOf,
  firstToAnnounce,
  reasonToRenew,
  surveyTimestamps,
} from '../../../src/prove/renewal/renewalSurvey.ts';
import { BEGIN, DAY_MS } from '../../support/authority.ts';
import { MemoryLog, renew, YEAR_MS, YearlyAuthority } from '../../support/renewals.ts';

const alpha = await YearlyAuthority.make('alpha', 4);
const sunsets = [{ algorithm: 'sha512', untilMs: BEGIN + 3 * YEAR_MS, source: 'a catalogue' }];

t.test('an algorithm at its end when something is sealed is relied on until the usual renewal', (t) => {
  const strength = { digest: 'sha512', signatures: ['ed25519'], notAfter: BEGIN + 9 * YEAR_MS } as const;
  const made = { ...strength, signatures: [...strength.signatures] };
  const until = sunsets[0]?.untilMs ?? 0;
  t.match(dueOf(made, sunsets, BEGIN), {
    at: until,
    reason: /^sha512 may be relied on until then \(a catalogue\)$/,
  });
  t.match(dueOf(made, sunsets, until - 100 * DAY_MS), {
    at: until + 110 * DAY_MS,
    reason: /until \d{4}-\d\d-\d\d \(a catalogue\), and /,
  });
  t.match(dueOf(made, sunsets), { at: until }, 'a renewal is never of an algorithm at its end');
  t.match(
    dueOf({ ...made, notAfter: until }, sunsets, until),
    { at: until, algorithm: undefined },
    'certificates do not wait',
  );
  t.end();
});

t.test(
  'checkpoints whose certificate ends soon are renewed together, even if renewals hold longer',
  async (t) => {
    const brief = await YearlyAuthority.make('brief', 170 / 365);
    const memory = new MemoryLog();
    const made: number[] = [];
    const authorities = [alpha.trusted, brief.trusted];
    for (let day = 1; day < 130; day += 2) {
      const at = BEGIN + day * DAY_MS;
      await memory.seal(1, at, brief);
      const standing = await surveyTimestamps(memory.store, { authorities, sunsets: [], at: at + 60_000 });
      const ends = standing.flatMap(({ due }) => due?.at ?? []);
      t.ok(Math.min(...ends) > at + DAY_MS / 2, 'nothing ends before it is renewed');
      const announced = firstToAnnounce(standing, at);
      t.ok(
        announced === undefined || announced.renewAt <= at || announced.at > at + YEAR_MS,
        'no false alarm',
      );
      if (reasonToRenew(standing, { digest: 'sha512', former: 'sha512', at }) === undefined) continue;
      t.equal(announced?.at, BEGIN + 170 * DAY_MS, 'what is due is announced');
      await renew(memory.store, {
        digest: 'sha512',
        at: at + 60_000,
        authorities: [alpha],
        trusted: authorities,
      });
      made.push(day);
    }
    t.strictSame(made, [31, 63, 95, 127]);
  },
);
