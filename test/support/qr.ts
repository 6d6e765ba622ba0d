import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Rows of modules; true for a dark one. */
type Modules = boolean[][];

const PIXELS = 4;
const CHARACTERS: Record<string, [upper: boolean, lower: boolean]> = {
  ' ': [true, true],
  '▀': [false, true],
  '▄': [true, false],
  '█': [false, false],
};

/** What a camera before the terminal sees: two modules in each character, white on black. */
export function modulesOnTerminal(text: string): Modules {
  const lines = text.split('\n').slice(0, -1);
  return lines.flatMap((line) => {
    // biome-ignore lint/suspicious/noControlCharactersInRegex: colours begin with one
    const [, characters = ''] = /^\u001b\[97;40m([^\u001b]+)\u001b\[0m$/.exec(line) ?? [];
    const pairs = [...characters].map((one) => CHARACTERS[one]);
    if (pairs.length === 0 || pairs.includes(undefined)) throw new Error(`no line of a code: ${line}`);
    return [0, 1].map((half) => pairs.map((pair) => pair?.[half] === true));
  });
}

/** What a browser draws of the SVG: dark squares of ten units on a white ground. */
export function modulesOfSvg(text: string): Modules {
  const [, width] =
    /^<svg xmlns="http:\/\/www\.w3\.org\/2000\/svg" viewBox="0 0 (\d+) \1"><rect fill="white" width="\1" height="\1"\/><path fill="black" d="[^"]+"\/><\/svg>\n$/.exec(
      text,
    ) ?? [];
  const size = Number(width) / 10;
  const modules: Modules = Array.from({ length: size }, () => Array.from({ length: size }, () => false));
  for (const [, x, y] of text.matchAll(/M(\d+),(\d+)h10v10h-10z/g)) {
    const row = modules[Number(y) / 10];
    if (row) row[Number(x) / 10] = true;
  }
  return modules;
}

/** Decodes a picture of the modules with zbar, a program of others. */
export function decodeQr(modules: Modules): Buffer {
  const dir = mkdtempSync(join(tmpdir(), 'pdfseal-qr-'));
  try {
    const [rows, columns] = [modules.length * PIXELS, (modules[0]?.length ?? 0) * PIXELS];
    const pixels = Buffer.alloc(rows * columns);
    for (let y = 0; y < rows; y++)
      for (let x = 0; x < columns; x++)
        pixels[y * columns + x] = modules[Math.floor(y / PIXELS)]?.[Math.floor(x / PIXELS)] ? 0 : 255;
    const file = join(dir, 'code.pgm');
    writeFileSync(file, Buffer.concat([Buffer.from(`P5\n${columns} ${rows}\n255\n`), pixels]));
    const options = ['--quiet', '--raw', '--oneshot', '-Sdisable', '-Sqrcode.enable', '-Sbinary', '--nodbus'];
    return execFileSync('zbarimg', [...options, file]);
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}
