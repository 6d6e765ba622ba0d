import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import t, { type Test } from 'tap';
import { OperatorError } from '../../src/base/errors.ts';
import { WIDTHS } from '../../src/hash/calibrate.ts';
import { chooseEngine, type EngineChoice } from '../../src/hash/choose.ts';

function choose(choice: EngineChoice, addon?: URL) {
  const infos: unknown[][] = [];
  const warnings: unknown[][] = [];
  const logger = {
    info: (...args: unknown[]) => void infos.push(args),
    warn: (...args: unknown[]) => void warnings.push(args),
  };
  const { engine, calibration } = chooseEngine(choice, logger, addon);
  return { engine, calibration, infos, warnings };
}

t.test('a working add-on is used unless WebAssembly is configured', async (t) => {
  for (const choice of ['auto', 'native'] as const) {
    const { engine, calibration, infos, warnings } = choose(choice);
    t.equal(engine, 'native');
    t.same(
      calibration?.chosen.map(({ streams }) => streams),
      WIDTHS,
    );
    t.match(infos, [[{ event: 'hash_calibrated', kernels: calibration?.chosen }, String]]);
    t.same(warnings, []);
  }
  t.match(choose('wasm'), { engine: 'wasm', calibration: undefined, infos: [], warnings: [] });
});

t.test('a kernel that computes wrong digests is left out, and named', async (t) => {
  const dir = t.testdir({
    'half.cjs': `module.exports = {
      kernels: () => ['abacus', 'slide-rule'], selfTest: (kernel) => kernel !== 'abacus', measure: () => 1 };`,
  });
  const { engine, calibration, warnings } = choose('native', pathToFileURL(join(dir, 'half.cjs')));
  t.equal(engine, 'native');
  t.ok(calibration?.chosen.every(({ kernel }) => kernel === 'slide-rule'));
  t.match(warnings, [[{ kernels: ['abacus'] }, /wrong digests/]]);
});

/** Add-ons that must not be used, in a folder of their own. */
function unusable(t: Test): [what: string, addon: URL, reason: RegExp][] {
  const dir = t.testdir({
    'other.node': 'made for another machine',
    'wrong.cjs': `module.exports = { selfTest: () => false, kernels: () => ['abacus'], measure: () => 1 };`,
  });
  const at = (name: string) => pathToFileURL(join(dir, name));
  return [
    ['missing', at('missing.node'), /Cannot find module/],
    ['not loadable', at('other.node'), /other\.node/],
    ['miscalculating', at('wrong.cjs'), /kernels compute wrong digests: abacus/],
  ];
}

t.test('an add-on that does not work is not used, with a warning', async (t) => {
  for (const [what, addon, reason] of unusable(t)) {
    t.match(
      choose('auto', addon),
      { engine: 'wasm', warnings: [[{ err: { message: reason } }, String]] },
      what,
    );
    t.match(choose('wasm', addon), { engine: 'wasm', warnings: [] }, what);
  }
});

t.test('an add-on that does not work stops the start if it is required', async (t) => {
  for (const [what, addon, reason] of unusable(t)) {
    t.throws(() => choose('native', addon), OperatorError, what);
    t.throws(() => choose('native', addon), { message: reason }, what);
    t.throws(() => choose('native', addon), { message: /^hash\.engine: .*; compile it with/ }, what);
  }
});
