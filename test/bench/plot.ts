/** Draws the results of this kind of processor for docs/performance.md: `node test/bench/plot.ts`. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { bytes } from './format.ts';
import type { HttpCell } from './http.ts';
import { resultsFile } from './machine.ts';
import type { Results } from './report.ts';
import type { FillStep } from './sealer.ts';

interface Series {
  name: string;
  /** Values of the horizontal and the vertical axis. */
  points: [x: number, y: number][];
}

interface Chart {
  title: string;
  xTitle: string;
  yTitle: string;
  xTicks: number[];
  series: Series[];
  scale: typeof logScale;
}

const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [720, 360, 70, 110, 40, 50];
/** Told apart by the colour-blind too (Okabe and Ito). */
const COLOURS = ['#0072b2', '#d55e00', '#009e73', '#cc79a7', '#e69f00', '#56b4e9'];
const Y_TICKS = 5;

/** Seals per second by connections, a line for each document size. */
function throughput(cells: HttpCell[]): Chart {
  const sizes = [...new Set(cells.map(({ documentBytes }) => documentBytes))];
  return {
    scale: logScale,
    title: 'Blocking seals per second',
    xTitle: 'connections',
    yTitle: 'seals/s',
    xTicks: [...new Set(cells.map(({ connections }) => connections))],
    series: sizes.map((size) => ({
      name: bytes(size),
      points: cells
        .filter(({ documentBytes }) => documentBytes === size)
        .map(({ connections, servers }) => [connections, servers.pdfseald.sealsPerSecond]),
    })),
  };
}

/** Megabytes per second by document size, a line for each number of connections. */
function bandwidth(cells: HttpCell[]): Chart {
  const connections = [...new Set(cells.map((cell) => cell.connections))];
  return {
    scale: logScale,
    title: 'Sealed megabytes per second',
    xTitle: 'document, bytes',
    yTitle: 'MB/s',
    xTicks: [...new Set(cells.map(({ documentBytes }) => documentBytes))],
    series: connections.map((count) => ({
      name: count === 1 ? '1 connection' : `${count} connections`,
      points: cells
        .filter((cell) => cell.connections === count)
        .map(({ documentBytes, servers }) => [documentBytes, servers.pdfseald.megabytesPerSecond]),
    })),
  };
}

/** Microseconds for one receipt by the size of the log. */
function cost(fill: FillStep[]): Chart {
  const last = fill.at(-1)?.entries ?? 1;
  return {
    scale: linearScale,
    title: 'Time for one receipt as the log grows, full batches',
    xTitle: 'receipts in the log',
    yTitle: 'µs',
    xTicks: fill.map(({ entries }) => entries).filter((entries) => entries * 20 >= last),
    series: [
      { name: '', points: fill.map(({ entries, entriesPerSecond }) => [entries, 1e6 / entriesPerSecond]) },
    ],
  };
}

function svg({ title, xTitle, yTitle, xTicks, series, scale }: Chart): string {
  const points = series.flatMap((one) => one.points);
  const x = scale(
    points.map(([value]) => value),
    [LEFT, WIDTH - RIGHT],
  );
  const y = scale(
    points.map(([, value]) => value),
    [HEIGHT - BOTTOM, TOP],
  );
  const text = (at: [number, number], anchor: string, words: string) =>
    `<text x="${at[0].toFixed(1)}" y="${at[1].toFixed(1)}" text-anchor="${anchor}">${words}</text>`;
  const yTicks = Array.from({ length: Y_TICKS }, (_, n) => y.at(n / (Y_TICKS - 1)));
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" font-family="sans-serif" font-size="12">`,
    `<title>${title}</title>`,
    `<rect width="${WIDTH}" height="${HEIGHT}" fill="#fff"/>`,
    `<text x="${LEFT}" y="20" font-size="14">${title}</text>`,
    ...yTicks.flatMap((value) => [
      `<line x1="${LEFT}" x2="${WIDTH - RIGHT}" y1="${y.place(value).toFixed(1)}" y2="${y.place(value).toFixed(1)}" stroke="#ddd"/>`,
      text([LEFT - 8, y.place(value) + 4], 'end', compact(value)),
    ]),
    ...spread(xTicks, x).map((value) =>
      text([x.place(value), HEIGHT - BOTTOM + 18], 'middle', compact(value)),
    ),
    text([(LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10], 'middle', xTitle),
    text([LEFT - 8, TOP - 10], 'end', yTitle),
    ...series.flatMap(({ name, points }, n) =>
      line(
        points.map(([a, b]) => [x.place(a), y.place(b)]),
        name,
        COLOURS[n % COLOURS.length] ?? '#000',
      ),
    ),
    '</svg>',
    '',
  ].join('\n');
}

function line(points: [number, number][], name: string, colour: string): string[] {
  const path = points.map(([a, b]) => `${a.toFixed(1)},${b.toFixed(1)}`);
  const [endX, endY] = points.at(-1) ?? [0, 0];
  return [
    `<polyline points="${path.join(' ')}" fill="none" stroke="${colour}" stroke-width="2"/>`,
    ...path.map(
      (point) => `<circle cx="${point.split(',')[0]}" cy="${point.split(',')[1]}" r="3" fill="${colour}"/>`,
    ),
    `<text x="${(endX + 8).toFixed(1)}" y="${(endY + 4).toFixed(1)}" fill="${colour}">${name}</text>`,
  ];
}

/** Only ticks that have room. */
function spread(ticks: number[], scale: Scale): number[] {
  let last = -Infinity;
  return ticks.filter((tick) => {
    if (scale.place(tick) - last < 60) return false;
    last = scale.place(tick);
    return true;
  });
}

interface Scale {
  /** Where on the drawing a value is. */
  place(value: number): number;
  /** The value at a share (0..1) of the axis. */
  at(share: number): number;
}

type Ends = [from: number, to: number];

/** From the smallest value to the largest. */
function logScale(values: number[], [from, to]: Ends): Scale {
  const [low, high] = [Math.log(Math.min(...values)), Math.log(Math.max(...values))];
  return {
    place: (value) => from + ((Math.log(value) - low) / (high - low || 1)) * (to - from),
    at: (share) => Math.exp(low + share * (high - low)),
  };
}

/** From zero to the largest value. */
function linearScale(values: number[], [from, to]: Ends): Scale {
  const high = Math.max(...values);
  return { place: (value) => from + (value / high) * (to - from), at: (share) => share * high };
}

function compact(value: number): string {
  return value.toLocaleString('en-US', { notation: 'compact', maximumSignificantDigits: 2 });
}

const results = JSON.parse(readFileSync(resultsFile('results'), 'utf8')) as Results;
const { http, sealer } = results;
const charts = {
  ...(http && { connections: throughput(http), documents: bandwidth(http) }),
  ...(sealer && { log: cost(sealer.fill) }),
};
for (const [name, chart] of Object.entries(charts)) {
  writeFileSync(join(import.meta.dirname, `../../docs/images/${name}.svg`), svg(chart));
}
