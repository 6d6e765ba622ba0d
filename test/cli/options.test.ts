import t from 'tap';
import { parseDurationArgument, parseWaitArgument } from '../../src/cli/options.ts';

t.test('a wait that is longer than a timer can run is refused', async (t) => {
  t.equal(parseWaitArgument('24d'), 24 * 86_400_000);
  t.throws(() => parseWaitArgument('25d'), /at most 24d/);
  t.throws(() => parseWaitArgument('soon'), /Expected a duration/);
  t.equal(parseDurationArgument('365d'), 365 * 86_400_000, 'what is not waited for may be');
});
