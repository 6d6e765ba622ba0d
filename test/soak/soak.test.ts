/** What `npm run soak` judges by; the soak itself takes its time. */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { COLLECTING, LEAKS } from './leaks.ts';
import { type Point, slopeOf, verdictOn } from './slope.ts';

/** A heap in MiB that a collector empties now and then, for so many hours, which grows by so much in one. */
function heap(hours: number, perHour: number): Point[] {
  return Array.from({ length: 900 }, (_, n) => {
    const at = (hours * n) / 900;
    // The same noise in every run: a confidence of 95 % is wrong at times. A burst now and then, and a long one near the end.
    const noise = createHash('sha256').update(`${n}`).digest();
    const burst = noise.readUInt8(4) < 5 || (n > 850 && n < 860) ? 300 : 0;
    return {
      hours: at,
      value: 100 + perHour * at + (n % 20) + (10 * noise.readUInt32BE()) / 2 ** 32 + burst,
    };
  });
}

const LIMIT = 16;

t.test('growth is distinguished from fluctuation', async (t) => {
  for (const [perHour, verdict] of [
    [0, 'steady'],
    [8, 'steady'],
    [-50, 'steady'],
    [30, 'GROWS'],
    [1000, 'GROWS'],
  ] as const) {
    const slope = slopeOf(heap(1, perHour));
    t.equal(verdictOn(slope, LIMIT), verdict, `${perHour} MiB: ${JSON.stringify(slope)}`);
    t.ok(Math.abs(slope.perHour - perHour) < 5, `${slope.perHour}`);
  }
});

t.test('a short run is too short to detect a slow leak', async (t) => {
  t.equal(verdictOn(slopeOf(heap(0.05, 8)), LIMIT), 'too short to tell');
  t.equal(verdictOn(slopeOf(heap(0.05, 2000)), LIMIT), 'GROWS');
});

t.test('a constant value does not grow', async (t) => {
  const flat = heap(1, 0).map(({ hours }) => ({ hours, value: 58 }));
  t.strictSame(slopeOf(flat), { perHour: 0, least: 0, most: 0 });
});

t.test('the line that each seeded leak changes exists', async (t) => {
  for (const { file, line } of [...COLLECTING, ...Object.values(LEAKS)]) {
    const path = fileURLToPath(new URL(`../../dist/${file}`, import.meta.url));
    t.equal(readFileSync(path, 'utf8').split(line).length, 2, file);
  }
});
