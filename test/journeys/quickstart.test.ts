/** `npm run quickstart`: what it prints last leads somewhere, as long as it runs. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { openPage } from '../page/chromium.ts';
import { ROOT } from '../support/manual.ts';
import { until } from '../support/until.ts';

t.test('the quickstart ends with the console, the verify page and the sealed PDF', async (t) => {
  const child = spawn(process.execPath, [join(ROOT, 'test/quickstart.ts')], {
    cwd: ROOT,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  // It stops its daemon.
  t.teardown(async () => {
    if (child.exitCode === null && child.kill('SIGINT')) await once(child, 'exit');
  });
  let said = '';
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => {
      said += text;
    });
  await until('it has told all', () => {
    if (child.exitCode !== null) throw new Error(said);
    return said.includes('Ctrl-C stops pdfseald');
  });
  const [, place = ''] = /\nIn a browser\n([\s\S]*?)\n\n/.exec(said) ?? [];
  const [link = '', url = '', document = '', receipt = '', trust = '', sealed = ''] = place
    .split('\n')
    .map((line) => line.trim().split(' ').at(-1) ?? '');

  const page = await openPage(t, link);
  t.match(await page.evaluate('document.body.innerText'), /administrator/, 'the console');
  await page.evaluate(`document.querySelector('main button').click()`);
  await page.until(`location.pathname === '/' && document.readyState === 'complete'`);

  for (const files of [
    [document, receipt, trust],
    [sealed, trust],
  ]) {
    await page.navigate('about:blank');
    await page.navigate(url);
    await page.drop(...files);
    await page.until(`document.querySelector('h1').textContent === 'Good'`);
  }

  child.kill('SIGINT');
  const [status] = (await once(child, 'exit')) as [number | null];
  t.equal(status, 0, said);
  t.notOk(existsSync(document), 'all of it is gone');
});
