/** The digests of the last hashed document, kept while the tab is open, because its receipt is on another page. */
import type { Hashed } from './fileDrop.ts';

const KEY = 'lastFile';

export function remember(hashed: Hashed): void {
  sessionStorage.setItem(KEY, JSON.stringify(hashed));
}

export function remembered(): Hashed | undefined {
  const text = sessionStorage.getItem(KEY);
  return text === null ? undefined : JSON.parse(text);
}
