/** What a vendor's module prints is shown, and cannot flood the log. */
import t from 'tap';
import { readKey } from '../../src/kms/keyOperations.ts';
import { OutputLimit } from '../../src/kms/outputLimit.ts';
import { behindFaulty, buildFaultyModule, setFault } from '../support/faults.ts';
import { item, makeSite } from '../support/partitions.ts';
import { until } from '../support/until.ts';

const module = buildFaultyModule(t.testdir());

t.test('the words of a module are in the log, and in the message of a command', async (t) => {
  const site = await makeSite(t, 'ed25519');
  const token = behindFaulty(item(site.tokens, 0), module);
  setFault(token, { prints: 7 });
  await site.open({ partitions: [token] });
  await until('both streams', () => /signer output/.test(site.log()) && /appliance 2"/.test(site.log()));
  t.match(site.log(), /"output":"vendor: cannot reach appliance 1"/);

  const words = [/CKR_GENERAL_ERROR/, /often misses its configuration|environment/];
  const error = await readKey(token).catch((thrown: Error) => thrown.message);
  for (const one of words) t.match(error, one);
  const lines = String(error).split('\n');
  t.equal(lines.length, 6, 'the last five');
  t.ok(lines.slice(1).every((line) => /^signer output: vendor: cannot reach appliance \d$/.test(line)));
});

t.test('a module that prints without end', (t) => {
  let now = 0;
  const passed: string[] = [];
  const output = new OutputLimit(
    (line) => passed.push(line),
    () => now,
  );
  for (let n = 0; n < 1000; n++) output.add(`line ${n}`);
  t.equal(passed.length, 30);
  now = 60_000;
  output.add('later');
  t.strictSame(passed.slice(30), ['(970 lines are missing here)', 'later']);
  t.end();
});
