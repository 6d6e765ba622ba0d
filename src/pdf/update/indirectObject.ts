/** An object at an offset of the file, and the data of a stream (ISO 32000-2, 7.3.8 and 7.3.10). */
import { concatBytes, fromBinary, toBinary } from '../../base/bytes.ts';
import type { FileText } from './fileText.ts';
import { NotSealable } from './notSealable.ts';
import { isNamed, type Node, naturalOf, stringOf } from './strictSyntax.ts';

export interface PdfObject {
  number: number;
  generation: number;
  /** The text that the places of the value are in. */
  text: string;
  value: Node;
  /** If it is a stream, where its data begins in the file. */
  data?: number;
  /** Where it ends in the file; of a stream, its dictionary. */
  end: number;
}

const HEAD = /(\d{1,10})[\0\t\n\f\r ]{1,20}(\d{1,10})[\0\t\n\f\r ]{1,20}obj(?![^\0\t\n\f\r ()<>[\]{}/%])/y;
const END = /endobj(?![^\0\t\n\f\r ()<>[\]{}/%])/y;
const STREAM = /stream(?:\r\n|\n)/y;
const END_OF_STREAM = /[\0\t\n\f\r ]{0,20}endstream(?![^\0\t\n\f\r ()<>[\]{}/%])/y;

/** Reads the object at an offset, which must end as objects do. Throws NotSealable. */
export function readObject(
  file: FileText,
  offset: number,
  what: { name: string; number?: number },
): Promise<PdfObject> {
  return file.parse(offset, what, (parser, piece) => {
    parser.skipBlank();
    if (/[^\0\t\n\f\r ()<>[\]{}/%]/.test(parser.text[parser.position - 1] ?? ' '))
      parser.refuse('begins within a word');
    const [, number = 0, generation = 0] = parser.expect(HEAD).map(Number);
    const value = parser.value();
    parser.skipSpace();
    const object = { number, generation, text: piece.text, value };
    const isStream = value.kind === 'dictionary' && parser.take(STREAM) !== undefined;
    if (!isStream) parser.expect(END);
    const end = piece.offset + parser.position;
    return isStream ? { ...object, data: end, end } : { ...object, end };
  });
}

/** Where a stream ends in the file, whose data must end where its length says. Throws NotSealable. */
export function endOfStream(
  file: FileText,
  { number, data = 0 }: PdfObject,
  length: number,
): Promise<number> {
  const what = { name: `the stream of object ${number}`, number };
  return file.parse(data + length, what, (parser, piece) => {
    if (parser.take(END_OF_STREAM) === undefined) parser.refuse('does not end where its /Length says');
    parser.skipSpace();
    parser.expect(END);
    return piece.offset + parser.position;
  });
}

/** The data of a stream without its filter. Throws NotSealable for a filter that no cross-references, objects or metadata need. */
export async function streamData(file: FileText, object: PdfObject, length: number): Promise<Uint8Array> {
  const { number, value, data = 0 } = object;
  const name = `the stream of object ${number}`;
  if (value.kind !== 'dictionary') throw new NotSealable(`${name} is damaged`, number);
  if (length > file.unpackedBytesLeft)
    throw new NotSealable(`${name} is larger than any needs to be`, number);
  await endOfStream(file, object, length);
  const raw = await file.bytes(data, length, name);
  const filter = single(value.entries.get('Filter'));
  const parameters = single(value.entries.get('DecodeParms'));
  if (value.entries.has('F') || (parameters !== undefined && parameters.kind !== 'dictionary'))
    throw new NotSealable(`${name} is damaged`, number);
  const unpacked = await unfiltered(file, raw, { filter, name, number });
  file.unpackedBytesLeft -= unpacked.length;
  if (parameters === undefined || !isNamed(filter, 'FlateDecode')) return unpacked;
  const rows = withoutPredictor(unpacked, parameters.entries);
  if (rows === undefined) throw new NotSealable(`${name} has a predictor that cannot be reversed`, number);
  return rows;
}

/** The only item of an array, or the value itself; undefined for null and an empty array. An array of more items is returned as it is. */
function single(node: Node | undefined): Node | undefined {
  const only = node?.kind === 'array' && node.items.length < 2 ? node.items[0] : node;
  return only?.kind === 'null' ? undefined : only;
}

async function unfiltered(
  file: FileText,
  data: Uint8Array,
  { filter, name, number }: { filter: Node | undefined; name: string; number: number },
): Promise<Uint8Array> {
  if (filter === undefined) return data;
  if (isNamed(filter, 'ASCIIHexDecode')) return fromBinary(stringOf(`<${toBinary(data).split('>', 1)[0]}>`));
  if (!isNamed(filter, 'FlateDecode'))
    throw new NotSealable(`${name} has a filter that nothing like it needs`, number);
  const inflate = file.reader.inflate ?? inflateInBrowser;
  try {
    return await inflate(data, file.unpackedBytesLeft);
  } catch {
    throw new NotSealable(`${name} is damaged, or larger than any needs to be`, number);
  }
}

/** Unlike others, a browser refuses a line end after the data. */
async function inflateInBrowser(data: Uint8Array, bytesMax: number): Promise<Uint8Array> {
  const end = data.findLastIndex((byte) => byte !== 0x0a && byte !== 0x0d) + 1;
  for (const length of new Set([data.length, end])) {
    const pieces: Uint8Array[] = [];
    let bytes = 0;
    try {
      const stream = new Blob([data.slice(0, length)])
        .stream()
        .pipeThrough(new DecompressionStream('deflate'));
      for await (const piece of stream) {
        bytes += piece.length;
        if (bytes > bytesMax) throw new RangeError('too large');
        pieces.push(piece);
      }
      return concatBytes(pieces);
    } catch (error) {
      if (error instanceof RangeError || length === end) throw error;
    }
  }
  throw new RangeError('no data');
}

/** Reverses a predictor (7.4.4.4); undefined for what no cross-reference or object stream has. */
function withoutPredictor(data: Uint8Array, parameters: ReadonlyMap<string, Node>): Uint8Array | undefined {
  const of = (key: string, otherwise: number) => {
    const node = parameters.get(key);
    return node === undefined ? otherwise : naturalOf(node);
  };
  const predictor = of('Predictor', 1);
  const columns = of('Columns', 1);
  if (predictor === 1) return data;
  const isPng = predictor !== undefined && predictor >= 10 && predictor <= 15;
  if ((!isPng && predictor !== 2) || of('Colors', 1) !== 1 || of('BitsPerComponent', 8) !== 8)
    return undefined;
  // Each row of PNG begins with the number of the filter that was applied to it.
  const head = isPng ? 1 : 0;
  if (columns === undefined || columns < 1 || columns > 1 << 16 || data.length % (columns + head) !== 0)
    return undefined;
  const rows = new Uint8Array((data.length / (columns + head)) * columns);
  let above = new Uint8Array(columns);
  for (let from = 0, to = 0; from < data.length; from += columns + head, to += columns) {
    const row = rows.subarray(to, to + columns);
    row.set(data.subarray(from + head, from + head + columns));
    if (!undo(isPng ? data[from] : 1, row, above)) return undefined;
    above = row;
  }
  return rows;
}

function undo(filter: number | undefined, row: Uint8Array, above: Uint8Array): boolean {
  for (let n = 0, left = 0, corner = 0; n < row.length; n += 1) {
    const up = above[n] ?? 0;
    const predicted = predict(filter, left, up, corner);
    if (predicted === undefined) return false;
    left = ((row[n] ?? 0) + predicted) & 255;
    corner = up;
    row[n] = left;
  }
  return true;
}

function predict(filter: number | undefined, left: number, up: number, corner: number): number | undefined {
  if (filter === 0) return 0;
  if (filter === 1) return left;
  if (filter === 2) return up;
  if (filter === 3) return (left + up) >> 1;
  if (filter !== 4) return undefined;
  const [a, b, c] = [Math.abs(up - corner), Math.abs(left - corner), Math.abs(left + up - 2 * corner)];
  return a <= b && a <= c ? left : b <= c ? up : corner;
}
