/**
 * How fast documents are kept: `node test/bench/spool.ts [--beside FOLDER] [--documents BYTES] [--at-once N] [--rounds N] [--round-ms N]
 * [--dir FOLDER]`. Spools documents into a folder of `src/copy`, so many at once, and removes the folder after each round. With `--beside`,
 * the `src/copy` of another checkout is measured in turns with this one.
 */
import { randomBytes } from 'node:crypto';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { openCopies } from '../../src/copy/copies.ts';
import { number, ratio, table } from './format.ts';
import { describeMachine } from './machine.ts';
import { medianOf } from './stats.ts';
import { Workspace } from './workspace.ts';

const { values } = parseArgs({
  options: {
    beside: { type: 'string' },
    documents: { type: 'string', default: '10000' },
    'at-once': { type: 'string', default: '64' },
    rounds: { type: 'string', default: '5' },
    'round-ms': { type: 'string', default: '3000' },
    dir: { type: 'string', default: '/var/tmp' },
  },
});
const [AT_ONCE, ROUNDS, ROUND_MS] = [values['at-once'], values.rounds, values['round-ms']].map(Number) as [
  number,
  number,
  number,
];
const DOCUMENT = randomBytes(Number(values.documents));

interface Round {
  perSecond: number;
  /** Processor time of this process and the kernel for a document, in milliseconds. */
  cpuMs: number;
}

type Open = typeof openCopies;

const workspace = new Workspace(values.dir);
try {
  const cases: [string, Open][] = [['this checkout', openCopies]];
  if (values.beside !== undefined) {
    const other = pathToFileURL(resolve(values.beside, 'src/copy/copies.ts')).href;
    cases.push([values.beside, ((await import(other)) as { openCopies: Open }).openCopies]);
  }
  const rounds = cases.map((): Round[] => []);
  for (let round = 0; round < ROUNDS; round++)
    for (const n of cases.keys()) {
      const which = (n + round) % cases.length;
      const [, open = openCopies] = cases[which] ?? [];
      rounds[which]?.push(await spoolFor(open, join(workspace.dir, `${round}-${which}`)));
    }
  const medians = rounds.map(medianOf);
  const { cpu, flushP50Ms } = describeMachine(workspace.dir);
  console.log(`${cpu}, fdatasync of 4 KiB: ${number(flushP50Ms)} ms`);
  console.log(
    `Documents of ${DOCUMENT.length} bytes, ${AT_ONCE} at once; medians of ${ROUNDS} rounds of ${ROUND_MS} ms\n`,
  );
  console.log(
    table(
      ['', 'documents/s', 'processor, ms for each', 'of this checkout'],
      medians.map(({ perSecond, cpuMs }, n) => [
        cases[n]?.[0] ?? '',
        number(perSecond),
        number(cpuMs),
        ratio(perSecond, medians[0]?.perSecond ?? Number.NaN),
      ]),
    ),
  );
} finally {
  await workspace.close();
}

async function spoolFor(open: Open, path: string): Promise<Round> {
  const copies = await open({ path, freeBytesMin: 0, workers: 1 }, []);
  let count = 0;
  const cpu = process.cpuUsage();
  const startMs = performance.now();
  const endMs = startMs + ROUND_MS;
  await Promise.all(
    Array.from({ length: AT_ONCE }, async () => {
      while (performance.now() < endMs) {
        const spool = copies.spool();
        await spool.update(DOCUMENT);
        await spool.end();
        // A document arrives in a turn of its own.
        await new Promise(setImmediate);
        count += 1;
      }
    }),
  );
  const perSecond = (1000 * count) / (performance.now() - startMs);
  const { user, system } = process.cpuUsage(cpu);
  await copies.close();
  return { perSecond, cpuMs: (user + system) / 1000 / count };
}
