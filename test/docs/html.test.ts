/** The manual as HTML: whole by itself, found by its search, readable on any screen. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { pathToFileURL } from 'node:url';
import t, { type Test } from 'tap';
import { htmlManual } from '../../systemd/bundle/html.ts';
import { completed } from '../../systemd/bundle/sources.ts';
import { openPage } from '../page/chromium.ts';
import { MANUAL } from '../support/manual.ts';

const files = htmlManual('1.2.3');

/** The address of a page of the manual, written to a folder of the test. */
function written(t: Test): (path: string) => string {
  const dir = t.testdir();
  for (const [path, content] of files) {
    mkdirSync(dirname(join(dir, path)), { recursive: true });
    writeFileSync(join(dir, path), content);
  }
  return (path) => pathToFileURL(join(dir, path)).href;
}

t.test('every page is included, and links lead to existing headings', async (t) => {
  t.equal(files.size, MANUAL.length + 1, 'all of them, and the search');
  let links = 0;
  for (const [path, content] of files) {
    const main = content.replace(/<script.*<\/script>/s, '');
    for (const [, href = ''] of main.matchAll(/ (?:href|action)="([^"]*)"/g)) {
      if (/^https:/.test(href)) continue;
      const [to = '', anchor] = href.split('#');
      const place = to === '' ? path : normalize(join(dirname(path), to));
      // The package has the folder `docs` beside that of these pages.
      const target = place.startsWith('../docs/') ? readFileSync(place.slice(3), 'utf8') : files.get(place);
      t.ok(target !== undefined && (!anchor || target.includes(` id="${anchor}"`)), `${path}: ${href}`);
      links += 1;
    }
  }
  t.ok(links > 1000, `${links} of them`);
});

t.test('tables and alerts come from the program, and a name that nothing makes is an error', async (t) => {
  t.match(
    completed('before\n\n[Exit statuses](../src/cli/exit.ts "made")\n'),
    /\n\n\| Status \| .*\n.*\n\| 0 \| success/,
  );
  t.match(
    completed('[PdfsealdJobsWait](x.yml "made")'),
    /^`PdfsealdJobsWait`, for 1m: a job of pdfseald production /,
  );
  t.throws(() => completed('[Exit status](../src/cli/exit.ts "made")'), /asks for "Exit status"/);
  for (const [path, content] of files) t.notMatch(content, 'title="made"', path);
});

t.test(
  'pages load nothing from elsewhere, and scripts are those of the search and of copying code',
  async (t) => {
    for (const [path, content] of files) {
      t.match(content, /<meta http-equiv="Content-Security-Policy" content="default-src 'none'; /, path);
      t.notMatch(content, /<(link|iframe|object|embed)\b|@import|url\(/, path);
      for (const [, source = ''] of content.matchAll(/ src="([^"]*)"/g)) t.match(source, /^data:image\//);
      const scripts = path === 'search.html' ? 2 : content.includes('<pre>') ? 1 : 0;
      t.equal(content.includes("script-src 'none'"), scripts === 0, path);
      t.equal(content.split('<script').length - 1, scripts, path);
    }
  },
);

t.test('the search finds a page from the disk, without any request', async (t) => {
  const url = written(t);
  const page = await openPage(t, url('hsm/softhsm.html'));
  await page.evaluate(`document.querySelector('input[type=search]').value = 'partition is down'`);
  await page.evaluate(`document.querySelector('form').requestSubmit()`);
  await page.until(`location.pathname.endsWith('/search.html') && document.readyState === 'complete'`);
  const texts = `Array.from(document.querySelectorAll('#results a'), (link) => link.textContent)`;
  t.equal((await page.evaluate(`${texts}[0]`)) as string, 'Alarms: A partition is down');
  t.ok((await page.evaluate(`document.querySelectorAll('#results mark').length`)) as number);

  const search = `(words) => {
    const field = document.querySelector('input[type=search]');
    field.value = words;
    field.dispatchEvent(new Event('input'));
    return ${texts};
  }`;
  t.match(await page.evaluate(`(${search})('CKR_PIN_LOCKED')`), ['Messages of a device']);
  t.strictSame(await page.evaluate(`(${search})('no-such-word <b>')`), []);
  t.ok(await page.evaluate(`(${search})('(.*[').length >= 0`), 'it is no pattern');

  await page.evaluate(`(${search})('partition is down')`);
  await page.evaluate(`document.querySelector('#results a').click()`);
  await page.until(`location.hash === '#a-partition-is-down' && document.readyState === 'complete'`);
  const top = `document.getElementById('a-partition-is-down').getBoundingClientRect().top`;
  await page.until(`${top} < innerHeight`);
  t.strictSame(
    page.requests.filter((request) => !/^(file|data):/.test(request)),
    [],
  );
  t.strictSame(page.complaints, []);
});

t.test(
  'pictures are shown, pages stand below the headings of the start page, and code can be copied',
  async (t) => {
    const url = written(t);
    const page = await openPage(t, url('console.html'));
    const widths = `Array.from(document.images, ({ complete, naturalWidth }) => complete && naturalWidth)`;
    const illustrated = [...files].filter(([, content]) => content.includes('<img'));
    t.ok(illustrated.length >= 2);
    for (const [path] of illustrated) {
      await page.navigate(url(path));
      const seen = (await page.evaluate(widths)) as (number | false)[];
      t.ok(seen.length > 0 && seen.every((width) => width !== false && width > 0), `${path}: ${seen}`);
    }
    const groups = `Array.from(document.querySelectorAll('nav .group'), ({ textContent }) => textContent)`;
    const start = readFileSync('docs/README.md', 'utf8');
    t.strictSame(
      await page.evaluate(groups),
      Array.from(start.matchAll(/^## (.+)$/gm), ([, heading]) => heading),
    );

    await page.navigate(url('verify.html'));
    await page.evaluate(`navigator.clipboard.writeText = async (text) => { window.copied = text; }`);
    await page.evaluate(`document.querySelector('pre button').click()`);
    await page.until(`document.querySelector('pre button').textContent === 'Copied'`);
    t.match(await page.evaluate(`window.copied`), /^pdfseal verify invoice\.pdf .*\n$/);
    t.strictSame(page.complaints, []);
  },
);

t.test('pages fit every screen, light and dark', async (t) => {
  const url = written(t);
  // Not the first that is looked at: each is laid out for the screen from its beginning.
  const page = await openPage(t, url('search.html'));
  const brightness = `getComputedStyle(document.body).backgroundColor.match(/\\d+/g).reduce((a, b) => a + Number(b), 0) / 3`;
  for (const [width, scheme] of [
    [1280, 'light'],
    [390, 'dark'],
  ] as const) {
    await page.emulate(width, scheme);
    for (const path of files.keys()) {
      await page.navigate(url(path));
      t.ok(await page.evaluate(`document.documentElement.scrollWidth <= innerWidth`), `${path}: ${width}`);
      t.equal((await page.evaluate(`${brightness} > 128`)) as boolean, scheme === 'light', path);
      const contents = `getComputedStyle(document.querySelector('nav')).display`;
      t.equal(await page.evaluate(contents), width > 600 ? 'block' : 'none', path);
    }
  }
  await page.evaluate(`document.querySelector('.menu').click()`);
  await page.until(`getComputedStyle(document.querySelector('nav')).display === 'block'`);
  t.strictSame(page.complaints, []);
});
