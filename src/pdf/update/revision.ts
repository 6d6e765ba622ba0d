/** One revision, appended to a file: objects that are new or changed, and where they are (ISO 32000-2, 7.5.6). */
import { isObjectNumber } from '../numberSet.ts';
import type { XrefSection } from './crossReferences.ts';
import { NotSealable } from './notSealable.ts';
import type { PdfFile, PdfObject } from './pdfFile.ts';
import type { Node } from './syntaxTree.ts';

/** A table has ten digits for an offset. */
const TABLE_BYTES_MAX = 10 ** 10 - 1;
/** As long as a cross-reference stream of ours has for an offset: a terabyte. */
const OFFSET_BYTES = 5;

interface Insertion {
  at: number;
  /** What it replaces, up to here. */
  to: number;
  text: string;
}

/** Collects what changes. Objects keep their own bytes, except where something is put in. */
export class Revision {
  readonly #file: PdfFile;
  readonly #changed = new Map<number, { object: PdfObject; insertions: Insertion[] }>();
  readonly #added: { number: number; text: Buffer }[] = [];
  #next: number;

  constructor(file: PdfFile) {
    this.#file = file;
    this.#next = file.size;
  }

  /** Adds an object, and returns a reference to it. */
  add(...text: (string | Uint8Array)[]): string {
    const number = this.#next;
    this.#next += 1;
    if (!isObjectNumber(number)) throw new NotSealable('it has as many objects as a document can have');
    this.#added.push({
      number,
      text: Buffer.concat(text.map((part) => Buffer.from(part as string, 'latin1'))),
    });
    return `${number} 0 R`;
  }

  /** Puts text into an object, at a place of its source, instead of what reaches to `to`. */
  put(object: PdfObject, at: number, text: string, to = at): void {
    const changed = this.#changed.get(object.number) ?? { object, insertions: [] };
    changed.insertions.push({ at, to, text });
    this.#changed.set(object.number, changed);
  }

  /** Puts text before the bracket that closes a dictionary or an array. */
  append(object: PdfObject, { kind, end }: Node, text: string): void {
    this.put(object, end - (kind === 'dictionary' ? 2 : 1), ` ${text}`);
  }

  /** The bytes to append to the file. */
  bytes(): Buffer {
    const { source, sections, trailer } = this.#file;
    const newest = sections[0] as XrefSection;
    const pieces: Buffer[] = [];
    let offset = source.bytes;
    const write = (piece: Buffer) => {
      pieces.push(piece);
      offset += piece.length;
    };
    if (!/[\r\n]/.test(source.read(source.bytes - 1, 1).toString('latin1'))) write(Buffer.from('\n'));
    const places: { number: number; generation: number; offset: number }[] = [];
    const objects = [
      ...[...this.#changed.values()].map(({ object, insertions }) => ({
        ...object,
        text: edited(object, insertions),
      })),
      ...this.#added.map((one) => ({ ...one, generation: 0 })),
    ].sort((a, b) => a.number - b.number);
    for (const { number, generation, text } of objects) {
      places.push({ number, generation, offset });
      write(Buffer.concat([Buffer.from(`${number} ${generation} obj\n`), text, Buffer.from('\nendobj\n')]));
    }
    const start = offset;
    const own =
      newest.form === 'stream' ? places.concat({ number: this.#next, generation: 0, offset }) : places;
    const size = newest.form === 'stream' ? this.#next + 1 : this.#next;
    const kept = ['Root', 'Info', 'ID'].flatMap((key) => {
      const value = trailer.get(key);
      return value === undefined ? [] : [`/${key} ${textOf(source, value)}`];
    });
    const entries = `/Size ${size} ${kept.join(' ')} /Prev ${newest.at}`;
    if (newest.form === 'stream') write(stream(this.#next, own, entries));
    else if (start > TABLE_BYTES_MAX)
      throw new NotSealable('it is larger than its cross-reference tables can say');
    else write(table(own, entries));
    write(Buffer.from(`startxref\n${start}\n%%EOF\n`));
    return Buffer.concat(pieces);
  }
}

type Places = readonly { number: number; generation: number; offset: number }[];

function edited({ source, value }: PdfObject, insertions: readonly Insertion[]): Buffer {
  const pieces: Buffer[] = [];
  let from = value.start;
  for (const { at, to, text } of insertions.toSorted((a, b) => a.at - b.at)) {
    pieces.push(source.read(from, at - from), Buffer.from(text, 'latin1'));
    from = to;
  }
  return Buffer.concat([...pieces, source.read(from, value.end - from)]);
}

function textOf(source: PdfFile['source'], { start, end }: Node): string {
  return source.read(start, end - start).toString('latin1');
}

/** Runs of numbers that follow each other. */
function runsOf(places: Places): Places[] {
  const runs: (typeof places)[number][][] = [];
  for (const place of places) {
    const run = runs.at(-1);
    if (run !== undefined && run.at(-1)?.number === place.number - 1) run.push(place);
    else runs.push([place]);
  }
  return runs;
}

function table(places: Places, entries: string): Buffer {
  const lines = runsOf(places).map((run) => {
    const rows = run.map(
      ({ offset, generation }) =>
        `${String(offset).padStart(10, '0')} ${String(generation).padStart(5, '0')} n \n`,
    );
    return `${run[0]?.number} ${run.length}\n${rows.join('')}`;
  });
  return Buffer.from(`xref\n${lines.join('')}trailer\n<< ${entries} >>\n`, 'latin1');
}

/** Not compressed: what compresses gives other bytes in another version. */
function stream(number: number, places: Places, entries: string): Buffer {
  const rows = places.map(({ offset, generation }) => {
    const row = Buffer.alloc(1 + OFFSET_BYTES + 2, 1);
    row.writeUIntBE(offset, 1, OFFSET_BYTES);
    row.writeUInt16BE(generation, 1 + OFFSET_BYTES);
    return row;
  });
  const index = runsOf(places).map((run) => `${run[0]?.number} ${run.length}`);
  const data = Buffer.concat(rows);
  const head = `${number} 0 obj\n<< /Type /XRef /W [1 ${OFFSET_BYTES} 2] /Index [${index.join(' ')}] ${entries} /Length ${data.length} >>\nstream\n`;
  return Buffer.concat([Buffer.from(head, 'latin1'), data, Buffer.from('\nendstream\nendobj\n')]);
}
