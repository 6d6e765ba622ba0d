import t from 'tap';
import { WIDTHS } from '../../src/hash/calibrate.ts';
import type { AdminStatus } from '../../src/health/statusSchema.ts';
import { openSandbox } from '../support/sandbox.ts';

t.test('the daemon uses the add-on if it works and is not disabled, and says so', async (t) => {
  const cases = { native: '', wasm: 'engine = "wasm"' };
  for (const [engine, hash] of Object.entries(cases)) {
    const sandbox = await openSandbox({ code: 'dist', tables: { hash } });
    t.teardown(() => sandbox.close());
    const daemon = await sandbox.start();
    const listening = daemon.log.find(({ msg }) => msg === 'listening');
    t.match(listening, { hash_engine: engine });
    const about = daemon.log.filter(({ msg }) => /hash/.test(`${msg}`));
    const calibrated = { event: 'hash_calibrated', kernels: WIDTHS.map((streams) => ({ streams })) };
    t.match(about, engine === 'native' ? [calibrated] : []);
    t.equal(about.length, engine === 'native' ? 1 : 0);
    const { stdout } = await sandbox.pdfseal(['status', '--json', '--config', sandbox.configFile]);
    t.same(
      (JSON.parse(stdout) as AdminStatus).hash.kernels.map(({ streams }) => streams),
      engine === 'native' ? WIDTHS : [],
    );
  }
});
