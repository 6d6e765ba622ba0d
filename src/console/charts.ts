/** Charts as SVG. The shapes stretch with the page; their labels do not. */
import { type Html, html } from './html.ts';

/** One value for each interval, oldest first; undefined if there is none. */
export type Series = readonly (number | undefined)[];

export interface Chart {
  /** Text alternative for users who cannot see the chart. */
  summary: string;
  /** The upper end of the scale, and its label. */
  top: number;
  topLabel: string;
  /** Labels below the chart, from left to right. */
  times: readonly string[];
  /** Tooltip of each interval. */
  tips: readonly string[];
}

const HEIGHT = 100;

/** A bar for the amount in each interval. */
export function barChart(series: Series, chart: Chart): Html {
  const bars = series.map((value = 0, n) => {
    const height = heightOf(value, chart.top);
    return height === 0 ? '' : `M${n + 0.1} ${HEIGHT}v-${round(height)}h.8V${HEIGHT}z`;
  });
  return frame(series.length, html`<path class="bars" d="${bars.join('')}"/>`, chart);
}

/** A line for each series. An interval without a value breaks the line. */
export function lineChart(series: readonly Series[], chart: Chart): Html {
  const lines = series.map((values, n) => {
    const path = values.map((value, at) => {
      if (value === undefined) return '';
      const y = round(HEIGHT - heightOf(value, chart.top));
      // A move without a line would be invisible, so an isolated value is drawn as a dot.
      return values[at - 1] === undefined ? `M${at + 0.5} ${y}h.01` : `L${at + 0.5} ${y}`;
    });
    return html`<path class="line series-${n + 1}" d="${path.join('')}"/>`;
  });
  return frame(series[0]?.length ?? 1, lines, chart);
}

function frame(width: number, shapes: Html | Html[], { summary, topLabel, times, tips }: Chart): Html {
  const areas = tips.map(
    (tip, n) => html`<rect class="tip" x="${n}" width="1" height="${HEIGHT}"><title>${tip}</title></rect>`,
  );
  return html`<div class="plot">
<svg class="chart" viewBox="0 0 ${width} ${HEIGHT}" preserveAspectRatio="none" role="img" aria-label="${summary}">
<path class="grid" d="M0 0H${width}M0 50H${width}M0 100H${width}"/>
${shapes}
${areas}
</svg>
<span class="top small" aria-hidden="true">${topLabel}</span>
<div class="axis small" aria-hidden="true">${times.map((time) => html`<span>${time}</span>`)}</div>
</div>`;
}

/** A share of a whole, as a bar. */
export function meter(share: number, kind: 'good' | 'warning' | 'bad', summary: string): Html {
  const width = round(Math.max(0, Math.min(1, share)) * 100);
  return html`<svg class="meter ${kind}" viewBox="0 0 100 4" preserveAspectRatio="none" role="img" aria-label="${summary}"><path class="track" d="M0 0h100v4H0z"/><path class="fill" d="M0 0h${width}v4H0z"/></svg>`;
}

/** A time line from 0 to 1, with a mark for each event. */
export function timeLine(
  marks: readonly { at: number; kind: string }[],
  months: readonly { at: number; label: string }[],
  summary: string,
): Html {
  const line = ({ at }: { at: number }) => `M${round(at * 1000)} `;
  return html`<div class="plot">
<svg class="chart strip" viewBox="0 0 1000 40" preserveAspectRatio="none" role="img" aria-label="${summary}">
<path class="grid" d="M0 30H1000${months.map((month) => `${line(month)}26V34`).join('')}"/>
${marks.map((mark) => html`<path class="event ${mark.kind}" d="${line(mark)}4V30"/>`)}
</svg>
<div class="axis small" aria-hidden="true">${months.map(({ label }) => html`<span>${label}</span>`)}</div>
</div>`;
}

function heightOf(value: number, top: number): number {
  return top === 0 ? 0 : Math.min(1, value / top) * HEIGHT;
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}

/** The next higher of 1, 2, 5, 10, 20, 50 and so on: a round upper end for a scale. */
export function niceTop(value: number): number {
  if (value <= 0) return 1;
  const unit = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((step) => step * unit).find((top) => top >= value) ?? value;
}
