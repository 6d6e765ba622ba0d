/** How a page of the console looks to every reader. */
import type { Test } from 'tap';
import type { BrowserPage } from '../../page/chromium.ts';
import { AXE, FOCUSED, LAYOUT, THIN_OUT, VIOLATIONS } from '../../page/looks.ts';

const SCREENS = [
  { width: 360, scheme: 'light' },
  { width: 1280, scheme: 'dark' },
  { width: 1920, scheme: 'light' },
] as const;
const WIDTHS = [320, 360, 768, 1100, 1280, 1920, 2560];

/** Holds the page that is shown to the rules of axe in both colour schemes, and its layout on every width. */
export async function look(t: Test, page: BrowserPage, name: string): Promise<void> {
  await page.evaluate(THIN_OUT);
  await page.evaluate(AXE);
  for (const { width, scheme } of SCREENS) {
    await page.emulate(width, scheme);
    t.strictSame(await page.evaluate(VIOLATIONS), [], `${name}, ${width} px, ${scheme}`);
  }
  for (const width of WIDTHS) {
    await page.emulate(width, 'light');
    t.strictSame(await page.evaluate(LAYOUT), { torn: [], wide: [] }, `${name}, ${width} px`);
  }
}

/** Presses Tab until the focus is on what has this name, and holds that the focus is seen on the way. */
export async function tabTo(t: Test, page: BrowserPage, wanted: string): Promise<void> {
  for (let n = 0; n < 60; n += 1) {
    await page.press('Tab');
    const { name, isVisible } = (await page.evaluate(FOCUSED)) as { name: string; isVisible: boolean };
    t.ok(isVisible, `the focus is seen on ${name}`);
    if (name === wanted) return;
  }
  t.fail(`no way to ${wanted}`);
}
