/** A person in the console of a daemon that runs. */
import type { Test } from 'tap';
import type { Role } from '../../src/base/people.ts';
import { type BrowserPage, openPage } from '../page/chromium.ts';
import type { Sandbox } from '../support/sandbox.ts';

/** Opens the console with a link that root makes for that person. Its configuration has a port in `console.listen`. */
export async function browseConsole(
  t: Test,
  sandbox: Sandbox,
  name: string,
  role: Role,
): Promise<{ page: BrowserPage; show(path: string): Promise<void> }> {
  const person = ['--as', name, '--role', role];
  const made = await sandbox.pdfseal(['console', 'login', ...person, '--config', sandbox.configFile]);
  const page = await openPage(t, made.stdout.trim());
  await page.evaluate(`document.querySelector('main button').click()`);
  await page.until(`location.pathname === '/' && document.readyState === 'complete'`);
  return { page, show: (path) => page.navigate(new URL(path, made.stdout).href) };
}

/** Resolves when the page says that something was done. */
export function saysOf(page: BrowserPage, what: RegExp): Promise<void> {
  return page.until(`${what}.test(document.querySelector('[role=status]')?.textContent)`);
}
