/** `npm run soak -- --hours H [--seed S] [--leak NAME]`: ends with 1 if something grows, with 2 if it was too short to tell. */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { buildMutant } from '../faults/mutants.ts';
import { COLLECTING, LEAKS } from './leaks.ts';
import { LIMITS, type Quantity, readQuantities } from './quantities.ts';
import { Site } from './site.ts';
import { type Point, slopeOf, type Verdict, verdictOn } from './slope.ts';

/** Of the time, before anything is judged: caches fill, compilers compile. */
const WARM_UP = 1 / 3;
const SAMPLES = 300;
const SAMPLE_MS_MIN = 1000;
const SAMPLE_MS_MAX = 10_000;
const HOUR_MS = 3_600_000;

const { values } = parseArgs({
  options: {
    hours: { type: 'string', default: '1' },
    seed: { type: 'string', default: String(Date.now() % 2 ** 31) },
    leak: { type: 'string' },
  },
});
const [hours, seed] = [Number(values.hours), Number(values.seed)];
const leak = LEAKS[values.leak ?? ''];
if (!(hours > 0) || Number.isNaN(seed) || (values.leak !== undefined && leak === undefined)) {
  console.error(`usage: npm run soak -- --hours H [--seed S] [--leak ${Object.keys(LEAKS).join('|')}]`);
  process.exit(64);
}

// A copy in any case: whoever compiles meanwhile does not disturb it.
const code = buildMutant(leak?.name ?? 'none', leak ? [...COLLECTING, leak] : COLLECTING);
const site = await Site.open(seed, code);
const series = new Map<Quantity, Point[]>();
try {
  const running = site.run();
  await watch(hours * HOUR_MS);
  site.stop();
  await running;
} finally {
  await site.close();
  rmSync(join(code.dist, '..'), { recursive: true, force: true });
}
const verdicts = printTable();
for (const fault of site.faults) console.error(fault);
if (verdicts.includes('too short to tell')) process.exitCode = 2;
if (verdicts.includes('GROWS') || site.faults.length > 0) process.exitCode = 1;

async function watch(durationMs: number): Promise<void> {
  const begun = performance.now();
  const elapsed = () => performance.now() - begun;
  const pause = Math.min(SAMPLE_MS_MAX, Math.max(SAMPLE_MS_MIN, durationMs / SAMPLES));
  while (elapsed() < durationMs) {
    if (site.daemon.child.exitCode !== null) throw new Error(`the daemon ended: ${site.daemon.stderr}`);
    const read = await readQuantities(site.sandbox, site.daemon.pid);
    for (const [name, value] of Object.entries(read) as [Quantity, number][])
      series.set(name, [...(series.get(name) ?? []), { hours: elapsed() / HOUR_MS, value }]);
    await sleep(pause);
  }
}

function printTable(): Verdict[] {
  const number = (value: number) => value.toFixed(Math.abs(value) < 100 ? 1 : 0);
  console.log(`\nseed ${seed}, ${values.hours} hours${leak ? `, ${leak.name}` : ''}\n`);
  console.log('| Quantity | First | Last | Most | Growth in an hour (95 %) | Limit | Verdict |');
  console.log('| --- | ---: | ---: | ---: | ---: | ---: | --- |');
  return [...series].map(([name, all]) => {
    const judged = all.filter(({ hours: at }) => at >= hours * WARM_UP);
    const slope = slopeOf(judged);
    const verdict = verdictOn(slope, LIMITS[name]);
    const [first, last] = [judged[0]?.value ?? 0, judged.at(-1)?.value ?? 0];
    const most = Math.max(...judged.map(({ value }) => value));
    const growth = `${number(slope.perHour)} (${number(slope.least)} to ${number(slope.most)})`;
    console.log(
      `| ${name} | ${number(first)} | ${number(last)} | ${number(most)} | ${growth} | ${LIMITS[name]} | ${verdict} |`,
    );
    return verdict;
  });
}
