import t from 'tap';
import { nextDelayMs, parseRetryAfterMs } from '../../src/webhook/schedule.ts';

t.test('waits follow the list, at most a tenth longer, and then end', async (t) => {
  const waits = { retryDelaysMs: [5000, 300_000] };
  t.equal(
    nextDelayMs(waits, 1, 0, () => 0),
    5000,
  );
  t.equal(
    nextDelayMs(waits, 2, 0, () => 0.5),
    315_000,
  );
  t.equal(nextDelayMs(waits, 3), undefined);
  t.equal(nextDelayMs({ retryDelaysMs: [] }, 1), undefined);
  t.equal(nextDelayMs(waits, 1, 60_000), 60_000, 'Retry-After makes it longer');
  t.ok((nextDelayMs(waits, 2, 60_000) ?? 0) >= 300_000, 'never shorter');
  t.equal(nextDelayMs(waits, 3, 60_000), undefined, 'and adds no attempt');
});

t.test('Retry-After is read as seconds or a date, up to a day', async (t) => {
  const now = Date.parse('2026-01-02T03:04:05Z');
  const cases: [header: string | undefined, expected: number | undefined][] = [
    [undefined, undefined],
    ['0', 0],
    ['120', 120_000],
    ['999999999', 86_400_000],
    ['Fri, 02 Jan 2026 03:05:05 GMT', 60_000],
    ['Fri, 02 Jan 2026 03:00:00 GMT', 0],
    ['Fri, 02 Jan 2099 03:00:00 GMT', 86_400_000],
    ['Fri, 99 Jan 2026 03:00:00 GMT', undefined],
    ['-1', undefined],
    ['1.5', undefined],
    ['soon', undefined],
    ['', undefined],
  ];
  for (const [header, expected] of cases) t.equal(parseRetryAfterMs(header, now), expected, String(header));
});
