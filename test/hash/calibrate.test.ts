import t from 'tap';
import { calibrate, WIDTHS } from '../../src/hash/calibrate.ts';
import { loadNativeAddon, type NativeAddon } from '../../src/hash/native.ts';

const addon = loadNativeAddon();
/** Enough to measure each kernel once on the busiest machine. */
const LONG_MS = 500;

/** The add-on, with what it says of a kernel's speed changed. */
function withSpeeds(change: (kernel: string, measured: number) => number): NativeAddon {
  return {
    ...addon,
    measure: (kernel, streams) => change(kernel, addon.measure(kernel, streams)),
  };
}

t.test(
  'the fastest kernel is chosen for each number of streams, and OpenSSL is in the comparison',
  async (t) => {
    const { chosen, rates, unsound } = calibrate(addon);
    t.same(unsound, []);
    t.same(
      chosen.map(({ streams }) => streams),
      WIDTHS,
    );
    for (const best of chosen) {
      const others = rates.filter(({ streams }) => streams === best.streams);
      t.ok(others.some(({ kernel }) => kernel === 'openssl'));
      t.ok(others.every(({ megabytesPerSecond }) => megabytesPerSecond <= best.megabytesPerSecond));
    }
  },
);

t.test('a kernel that is slow here is not chosen, whatever its name', async (t) => {
  for (const slow of addon.kernels()) {
    const { chosen } = calibrate(
      withSpeeds((kernel, speed) => (kernel === slow ? speed / 1000 : speed)),
      LONG_MS,
    );
    t.notOk(
      chosen.some(({ kernel }) => kernel === slow),
      slow,
    );
  }
});

t.test('if all other kernels are slow, OpenSSL is chosen', async (t) => {
  const { chosen } = calibrate(
    withSpeeds((kernel, speed) => (kernel === 'openssl' ? speed : speed / 1000)),
    LONG_MS,
  );
  t.ok(chosen.every(({ kernel }) => kernel === 'openssl'));
});

t.test('the best slice of a measurement counts, so that a disturbance does not decide', async (t) => {
  const seen = new Set<string>();
  const disturbed: NativeAddon = {
    ...addon,
    measure: (kernel, streams) => {
      const isFirst = !seen.has(`${kernel} ${streams}`);
      seen.add(`${kernel} ${streams}`);
      const speed = kernel === 'openssl' ? 100 : 50;
      return kernel === 'openssl' && isFirst ? 1 : speed;
    },
  };
  t.ok(calibrate(disturbed, LONG_MS).chosen.every(({ kernel }) => kernel === 'openssl'));
});

t.test('without time to measure, OpenSSL is chosen', async (t) => {
  const { chosen, rates } = calibrate(addon, 0);
  t.ok(chosen.every(({ kernel }) => kernel === 'openssl'));
  t.equal(rates.length, WIDTHS.length);
});

t.test('a kernel with wrong known answers is not measured', async (t) => {
  const wrong: NativeAddon = { ...addon, selfTest: (kernel) => kernel !== 'openssl' };
  const { chosen, rates, unsound } = calibrate(wrong);
  t.same(unsound, ['openssl']);
  t.notOk([...chosen, ...rates].some(({ kernel }) => kernel === 'openssl'));
  t.throws(() => calibrate({ ...addon, selfTest: () => false }), /compute wrong digests: openssl, portable/);
});
