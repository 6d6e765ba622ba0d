/** Every screen of the console, in the order of the menu. */
import { accessScreen } from './accessScreen.ts';
import { auditScreen } from './auditScreen.ts';
import { careScreen } from './careScreen.ts';
import { findScreen } from './findScreen.ts';
import { nowScreen } from './nowScreen.ts';
import type { Screen } from './screen.ts';
import type { Sources } from './sources.ts';

export function screensOf(sources: Sources): Screen[] {
  return [
    nowScreen(sources),
    findScreen(sources),
    auditScreen(sources),
    accessScreen(sources),
    careScreen(sources),
  ];
}
