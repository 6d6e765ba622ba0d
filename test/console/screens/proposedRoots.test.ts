/** What two administrators are shown of authorities that a planned epoch would trust with time-stamps. */
import { X509Certificate } from 'node:crypto';
import { appendFileSync, readFileSync } from 'node:fs';
import t from 'tap';
import { sha256Of } from '../../../src/asn1/x509Names.ts';
import { systemClock } from '../../../src/base/clock.ts';
import { makeAuthority } from '../../support/certificates.ts';
import { openConsole, PLAN } from '../proposingPeople.ts';
import { look } from './everyScreen.ts';

t.test('a root that a new authority brings is shown with the plan', async (t) => {
  const { sandbox, epochActs, send, test } = await openConsole(t);
  const { certificateFile } = makeAuthority(sandbox.dir, 'acme');
  appendFileSync(sandbox.configFile, `\n[timestamp.remotes.acme]\nroots_file = "${certificateFile}"\n`);
  const planned = await epochActs.plan({ from: systemClock() + 3_600_000, newKeys: [], suffix: '' });
  const shown = `acme ${sha256Of(new X509Certificate(readFileSync(certificateFile)))}`;
  t.strictSame(planned.newRoots, [shown]);
  await send('Anna', 'propose', PLAN);
  const page = await test.browse(t, 'administrator', 'Bert');
  await page.navigate(`${test.url}/care/epochs`);
  await page.until(`document.querySelector('main')?.textContent.includes('${shown}')`);
  await look(t, page, 'a root that is new');
});
