import t from 'tap';
import { formatBytes, formatDuration, parseBytes, parseDurationMs } from '../../src/base/units.ts';

t.test('durations are read with their unit, and other text is refused', async (t) => {
  const cases: [string, number | undefined][] = [
    ['250ms', 250],
    ['30s', 30_000],
    ['5m', 300_000],
    ['24h', 86_400_000],
    ['90d', 7_776_000_000],
    ['0s', 0],
    ['30', undefined],
    ['30 s', undefined],
    ['-1s', undefined],
    ['1.5h', undefined],
    ['1w', undefined],
    ['1h30m', undefined],
    ['9999999999s', undefined],
    ['', undefined],
    ['constructor', undefined],
  ];
  for (const [text, milliseconds] of cases) t.equal(parseDurationMs(text), milliseconds, text);
});

t.test('sizes are read with their unit, and other text is refused', async (t) => {
  const cases: [string, number | undefined][] = [
    ['512B', 512],
    ['64KiB', 65_536],
    ['20MiB', 20_971_520],
    ['1GiB', 2 ** 30],
    ['1TiB', 2 ** 40],
    ['1GB', undefined],
    ['1gib', undefined],
    ['1024', undefined],
    ['999999999TiB', undefined],
  ];
  for (const [text, bytes] of cases) t.equal(parseBytes(text), bytes, text);
});

t.test('sizes are written for people', async (t) => {
  t.strictSame([0, 512, 1536, 2 ** 20, 2 ** 30 * 4].map(formatBytes), [
    '0 B',
    '512 B',
    '1.5 KiB',
    '1 MiB',
    '4 GiB',
  ]);
});

t.test('durations are written as they are read', async (t) => {
  const written: [number, string][] = [
    [1, '1ms'],
    [1_500, '1500ms'],
    [90_000, '90s'],
    [60_000, '1m'],
    [3_600_000, '1h'],
    [90 * 86_400_000, '90d'],
  ];
  for (const [ms, text] of written) {
    t.equal(formatDuration(ms), text);
    t.equal(parseDurationMs(text), ms);
  }
});
