/** Every screen of the console, in the order of the menu. */
import { type AccessSources, accessScreen } from './accessScreen.ts';
import { type AuditSources, auditScreen } from './auditScreen.ts';
import { type CareSources, careScreen } from './careScreen.ts';
import { type FindSources, findScreen } from './findScreen.ts';
import { type NowSources, nowScreen } from './nowScreen.ts';
import type { Screen } from './screen.ts';

/** What the screens read and change. */
export type ScreenSources = NowSources & FindSources & AuditSources & AccessSources & CareSources;

export function screensOf(sources: ScreenSources): Screen[] {
  return [
    nowScreen(sources),
    findScreen(sources),
    auditScreen(sources),
    accessScreen(sources),
    careScreen(sources),
  ];
}
