import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import t, { type Test } from 'tap';
import { OperatorError } from '../../src/base/errors.ts';
import { chooseEngine, type EngineChoice } from '../../src/hash/choose.ts';

function choose(choice: EngineChoice, addon?: URL) {
  const warnings: unknown[][] = [];
  const logger = { warn: (...args: unknown[]) => void warnings.push(args) };
  return { engine: chooseEngine(choice, logger, addon), warnings };
}

t.test('an add-on that works is used unless WebAssembly is asked for', async (t) => {
  t.same(choose('auto'), { engine: 'native', warnings: [] });
  t.same(choose('native'), { engine: 'native', warnings: [] });
  t.same(choose('wasm'), { engine: 'wasm', warnings: [] });
});

/** Add-ons that must not be used, in a folder of their own. */
function unusable(t: Test): [what: string, addon: URL, reason: RegExp][] {
  const dir = t.testdir({
    'other.node': 'made for another machine',
    'wrong.cjs': `module.exports = { selfTest: () => false, kernel: () => 'abacus', hash: () => [] };`,
  });
  const at = (name: string) => pathToFileURL(join(dir, name));
  return [
    ['missing', at('missing.node'), /Cannot find module/],
    ['not loadable', at('other.node'), /other\.node/],
    ['miscalculating', at('wrong.cjs'), /kernel abacus computes wrong digests/],
  ];
}

t.test('one that does not is left alone, with a warning', async (t) => {
  for (const [what, addon, reason] of unusable(t)) {
    t.match(
      choose('auto', addon),
      { engine: 'wasm', warnings: [[{ err: { message: reason } }, String]] },
      what,
    );
    t.same(choose('wasm', addon), { engine: 'wasm', warnings: [] }, what);
  }
});

t.test('or stops the start, if nothing else will do', async (t) => {
  for (const [what, addon, reason] of unusable(t)) {
    t.throws(() => choose('native', addon), OperatorError, what);
    t.throws(() => choose('native', addon), { message: reason }, what);
    t.throws(() => choose('native', addon), { message: /^hash\.engine: .*; compile it with/ }, what);
  }
});
