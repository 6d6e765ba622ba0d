/** What two administrators are shown of authorities that a planned epoch would trust with time-stamps. */

import { X509Certificate } from 'node:crypto';
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { systemClock } from '../../../src/base/clock.ts';
import { epochActsOf } from '../../../src/main/epochActs.ts';
import { sha256Of } from '../../../src/net/clientCertificate.ts';
import { EpochSeal } from '../../../src/prove/epochSeal.ts';
import { openStore } from '../../../src/store/lmdb/open.ts';
import { retiredDir } from '../../../src/tsa/installed.ts';
import { makeAuthority } from '../../support/certificates.ts';
import { openSandbox } from '../../support/sandbox.ts';
import { sampleEpochs } from '../sampleStatus.ts';
import { openTestConsole } from '../testConsole.ts';
import { look } from './everyScreen.ts';

t.test('a root that was added to the retired ones is shown with the plan', async (t) => {
  const sandbox = await openSandbox({ regions: ['eu', 'us'], quorum: 2 });
  t.teardown(() => sandbox.close());
  writeFileSync(
    sandbox.configFile,
    readFileSync(sandbox.configFile, 'utf8').replace('quorum = 2', 'quorum = 1'),
  );
  const retired = retiredDir(join(sandbox.dir, 'state', 'certificates'));
  mkdirSync(retired, { recursive: true });
  const { certificateFile } = makeAuthority(sandbox.dir, 'stranger');
  copyFileSync(certificateFile, join(retired, 'stranger.pem'));
  const store = await openStore({
    path: join(sandbox.dir, 'state', 'store'),
    clock: systemClock,
    monotonicMs: () => Math.floor(performance.now()),
  });
  t.teardown(() => store.close());
  const epochActs = epochActsOf(store, { file: sandbox.configFile, epochSeal: new EpochSeal(store) });
  const planned = await epochActs.plan({ from: systemClock() + 3_600_000, newKeys: [], suffix: '' });
  const shown = `built-in ${sha256Of(new X509Certificate(readFileSync(certificateFile)))}`;
  t.strictSame(planned.newRoots, [shown]);

  const epochs = () => sampleEpochs().slice(1, 2);
  const test = await openTestConsole(t, { store, epochActs, epochs });
  const { cookie, token } = test.signedIn('administrator', 'Anna');
  const from = new Date(systemClock() + 86_400_000).toISOString().slice(0, 16);
  await test.post('/care/epochs/propose', { act: 'plan', from, token }, { cookie });
  const page = await test.browse(t, 'administrator', 'Bert');
  await page.navigate(`${test.url}/care/epochs`);
  await page.until(`document.querySelector('main')?.textContent.includes('${shown}')`);
  await look(t, page, 'a root that is new');
});
