/** Selects the language of the page, and formats dates and numbers. */
import { english } from './english.ts';

export type Words = typeof english;

/** A site adds its language here: a table of the same texts, by its primary tag (BCP 47). */
const LANGUAGES: Readonly<Record<string, Words>> = { en: english };

/** The reader's most preferred language that the page supports. */
export function wordsFor(preferred: readonly string[]): Words {
  const tags = preferred.map((tag) => tag.split('-')[0]?.toLowerCase() ?? '');
  return LANGUAGES[tags.find((tag) => Object.hasOwn(LANGUAGES, tag)) ?? 'en'] ?? english;
}

/** `21 November 2026, 23:38:51 UTC`; the seconds are truncated, not rounded. `at`: milliseconds since the Unix epoch. */
export function utcTime(at: number, { locale }: Words): string {
  return `${formatTime(at, locale, 'UTC')} UTC`;
}

/** The same in local time, with the name of the zone; undefined if that is UTC. */
export function localTime(at: number, { locale, statement }: Words): string | undefined {
  const { timeZone } = new Intl.DateTimeFormat(locale).resolvedOptions();
  if (timeZone === 'UTC') return undefined;
  return statement.local(formatTime(at, locale, timeZone), timeZone);
}

export function formatCount(count: number, { locale }: Words): string {
  return new Intl.NumberFormat(locale).format(count);
}

function formatTime(at: number, locale: string, timeZone: string): string {
  const date = new Intl.DateTimeFormat(locale, { dateStyle: 'long', timeZone }).format(at);
  return `${date}, ${new Intl.DateTimeFormat(locale, { timeStyle: 'medium', timeZone }).format(at)}`;
}
