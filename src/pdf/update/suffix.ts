/**
 * The revision that attaches a receipt to a document, `pdfseal-suffix/1`. The same plan, receipt and time give the same bytes, for as long
 * as there are verifiers: another form gets another name. Nothing in it is compressed, because compressors differ between versions.
 */
import { concatBytes, fromBinary, toHex } from '../../base/bytes.ts';

export const SUFFIX_FORMAT = 'pdfseal-suffix/1';

/**
 * What must be kept of a document so that its suffix can be made without the document: plain JSON of at most {@link PLAN_BYTES_MAX} bytes.
 * Each character of its texts stands for one byte.
 */
export interface AttachmentPlan {
  format: typeof SUFFIX_FORMAT;
  /** How long the document is: the suffix begins there. */
  bytes: number;
  /** The name under which readers show the receipt. */
  name: string;
  /** A line end, if the document ends without one. */
  lead: '' | '\n';
  /** The catalog with its new entries: the only object of the document that gets a new definition. */
  catalog: { number: number; generation: number; text: string };
  /** The number of the receipt's stream. Those of the other new objects follow. */
  first: number;
  objects: string[];
  /** The same kind as the newest section of the document has. */
  section: 'table' | 'stream';
  /** The entries of the trailer, except `/Size`. */
  trailer: string;
}

/** The plan of each waiting job is in memory. Ordinary documents take a tenth. */
export const PLAN_BYTES_MAX = 6 << 10;
/** More than any receipt has, and its plan. Offsets up to so far behind the document can be written. */
export const SUFFIX_BYTES_MAX = 64 << 20;
/** The bytes of an offset in a cross-reference stream. */
const OFFSET_BYTES = 5;

/** How the object of a receipt begins: what follows is its length. */
export const RECEIPT_MARK = '<< /Type /EmbeddedFile /Subtype /application#2Fjson /Params << /Size ';
/** What follows the mark, up to the digits of the receipt. */
export const RECEIPT_HEAD =
  /^(\d{1,8}) \/ModDate \(D:\d{14}Z\) >> \/Filter \/ASCIIHexDecode \/Length \d{1,9} >>\nstream\n/;

/** The bytes to append to the document. */
export function suffixOf(plan: AttachmentPlan, receipt: Uint8Array, sealedAtMs: number): Uint8Array {
  const { catalog, first } = plan;
  const pieces = [fromBinary(plan.lead)];
  let offset = plan.bytes + plan.lead.length;
  const places: Place[] = [];
  const write = (number: number, generation: number, ...content: Uint8Array[]) => {
    places.push({ number, generation, offset });
    const head = fromBinary(`${number} ${generation} obj\n`);
    for (const piece of [head, ...content, fromBinary('\nendobj\n')]) {
      pieces.push(piece);
      offset += piece.length;
    }
  };
  write(catalog.number, catalog.generation, fromBinary(catalog.text));
  const { length } = receipt;
  // Hexadecimal, because a reader that repairs would take what a receipt quotes for objects.
  const digits = `${toHex(receipt)}>`;
  const date = dateOf(sealedAtMs);
  const entries = `${length} /ModDate (${date}) >> /Filter /ASCIIHexDecode /Length ${digits.length} >>`;
  write(first, 0, fromBinary(`${RECEIPT_MARK}${entries}\nstream\n${digits}\nendstream`));
  for (const [n, text] of plan.objects.entries()) write(first + 1 + n, 0, fromBinary(text));
  const start = offset;
  const next = first + 1 + plan.objects.length;
  if (plan.section === 'stream') {
    const rows = concatBytes([...places, { number: next, generation: 0, offset }].map(row));
    const index = `/Index [${catalog.number} 1 ${first} ${next - first + 1}]`;
    const dictionary = `<< /Type /XRef /W [1 ${OFFSET_BYTES} 2] ${index} /Size ${next + 1} ${plan.trailer} /Length ${rows.length} >>`;
    write(next, 0, fromBinary(`${dictionary}\nstream\n`), rows, fromBinary('\nendstream'));
  } else {
    const [own = '', ...others] = places.map(line);
    const table = `xref\n${catalog.number} 1\n${own}${first} ${others.length}\n${others.join('')}`;
    pieces.push(fromBinary(`${table}trailer\n<< /Size ${next} ${plan.trailer} >>\n`));
  }
  pieces.push(fromBinary(`startxref\n${start}\n%%EOF\n`));
  return concatBytes(pieces);
}

interface Place {
  number: number;
  generation: number;
  offset: number;
}

function line({ offset, generation }: Place): string {
  return `${String(offset).padStart(10, '0')} ${String(generation).padStart(5, '0')} n \n`;
}

/** Not with bit operations: an offset has 40 bits. */
function row({ offset, generation }: Place): Uint8Array {
  const bytes = Array.from(
    { length: OFFSET_BYTES },
    (_, n) => Math.floor(offset / 256 ** (OFFSET_BYTES - 1 - n)) % 256,
  );
  return Uint8Array.of(1, ...bytes, generation >> 8, generation & 255);
}

/** `D:20261128101500Z` (ISO 32000-2, 7.9.4). */
function dateOf(ms: number): string {
  return `D:${new Date(ms).toISOString().replaceAll(/[-:T]|\.\d+/g, '')}`;
}
