/** Three significant digits and thousands separators: what a figure of a benchmark is worth. */
export function number(value: number): string {
  return value.toLocaleString('en-US', { maximumSignificantDigits: 3 });
}

export function bytes(count: number): string {
  return count < 1e6 ? `${count / 1e3} kB` : `${count / 1e6} MB`;
}

/** A quotient as `3.21×`. */
export function ratio(value: number, to: number): string {
  return `${(value / to).toFixed(2)}×`;
}

/** Columns wide enough for their content: the first to the left, the others to the right. */
export function table(header: string[], rows: string[][]): string {
  const widths = header.map((title, n) => Math.max(title.length, ...rows.map((row) => row[n]?.length ?? 0)));
  const line = (cells: string[]) =>
    cells
      .map((cell, n) => (n === 0 ? cell.padEnd(widths[n] ?? 0) : cell.padStart(widths[n] ?? 0)))
      .join('  ');
  return [line(header), widths.map((width) => '-'.repeat(width)).join('  '), ...rows.map(line)].join('\n');
}
