import t from 'tap';
import { openSandbox } from '../support/sandbox.ts';

t.test('the daemon uses the add-on where it works, unless it is told not to, and says so', async (t) => {
  const cases = { native: '', wasm: 'engine = "wasm"' };
  for (const [engine, hash] of Object.entries(cases)) {
    const sandbox = await openSandbox({ code: 'dist', tables: { hash } });
    t.teardown(() => sandbox.close());
    const daemon = await sandbox.start();
    t.match(daemon.log.at(-1), { msg: 'listening', hash_engine: engine });
    t.notOk(daemon.log.some(({ msg }) => /hash/.test(`${msg}`)));
  }
});
