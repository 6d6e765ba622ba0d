import { JP2_BOX_NAME, JPEG_SEGMENT_NAMES } from './packets.ts';
import { type ByteSource, Window } from './window.ts';

/** Bytes `start` to `end`, exclusive. */
export interface Extent {
  start: number;
  end: number;
}

/** Maximum number of visited segments or boxes: more than any image contains. */
const PARTS_MAX = 10_000;

/**
 * The contents of the XMP segments of a JPEG (ITU-T T.81, annex B), after marker and length. A camera may append further images to the
 * first one, so the search continues after its end.
 */
export function* jpegXmp(source: ByteSource, { start, end }: Extent): Iterable<Extent> {
  const window = new Window(source);
  const u16 = (at: number) => ((window.at(at) ?? 0) << 8) | (window.at(at + 1) ?? 0);
  let position = start;
  for (let parts = 0; position + 4 <= end && parts < PARTS_MAX; parts += 1) {
    position = nextMarker(window, position, end);
    const marker = window.at(position + 1) ?? 0;
    position += 2;
    // TEM, RSTn, SOI and EOI have no segment.
    if (marker === 0x01 || (marker >= 0xd0 && marker <= 0xd9)) continue;
    const segment = { start: position + 2, end: Math.min(end, position + u16(position)) };
    if (segment.end < segment.start) continue;
    const begins = (name: string) =>
      segment.start + name.length <= segment.end && window.holds(segment.start, name);
    if (marker === APP1 && JPEG_SEGMENT_NAMES.some(begins)) yield segment;
    position = segment.end;
  }
}

const APP1 = 0xe1;

/** Skips entropy-coded data, in which 0x00 follows 0xFF, and fill bytes. */
function nextMarker(window: Window, start: number, end: number): number {
  let position = start;
  for (; position + 1 < end; position += 1) {
    const next = window.at(position + 1);
    if (window.at(position) === 0xff && next !== 0x00 && next !== 0xff) return position;
  }
  return end;
}

/** The XMP boxes of a JPEG 2000 file (ITU-T T.800, annex I), starting at their names; only top-level boxes. */
export function* jp2Xmp(source: ByteSource, { start, end }: Extent): Iterable<Extent> {
  let position = start;
  for (let parts = 0; position + 8 <= end && parts < PARTS_MAX; parts += 1) {
    const head = Buffer.from(source.read(position, 32));
    const short = head.readUInt32BE(0);
    const [headBytes, bytes] =
      short === 1
        ? [16, head.length < 16 ? 0 : Number(head.readBigUInt64BE(8))]
        : [8, short === 0 ? end - position : short];
    const box = { start: position + headBytes, end: position + bytes };
    if (bytes < headBytes || box.end > end) return;
    const isXmp =
      head.toString('latin1', 4, 8) === 'uuid' &&
      head.subarray(headBytes, headBytes + 16).equals(JP2_BOX_NAME);
    if (isXmp) yield box;
    position = box.end;
  }
}
