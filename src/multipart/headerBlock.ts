import type { Dicer } from '@fastify/busboy';
import { malformed } from './headers.ts';

const BLOCK_BYTES_MAX = 16 * 1024;
const END_OF_BLOCK = '\r\n\r\n';
/** A field of RFC 5322, section 2.2, its continuation lines included. */
const FIELD = /^[\w!#$%&'*+.^`|~-]+:[^\r\n\0]*(?:\r\n[ \t][^\r\n\0]*)*$/;
const NEXT_FIELD = /\r\n(?![ \t])/;

/** The part of Dicer that reads headers. Not in its types, but its version is pinned, and tests tell if it changes. */
interface HeaderParser {
  /** Returns where the headers end in these bytes, if they do. */
  push(bytes: Buffer): number | undefined;
}

/**
 * Dicer leaves out, in silence, all headers of a part after a line it cannot read, and those past its limits: a
 * Content-Transfer-Encoding among them would be overlooked. This reads the same bytes after it, and tells `fail` of
 * whatever is no header.
 */
export function watchHeaders(dicer: Dicer, fail: (error: unknown) => void): void {
  const parser = (dicer as unknown as { _hparser: HeaderParser })._hparser;
  const push = parser.push.bind(parser);
  let block = '';
  parser.push = (bytes) => {
    const end = push(bytes);
    block += bytes.toString('latin1', 0, end);
    if (block.length > BLOCK_BYTES_MAX) {
      fail(malformed(`a part has more than ${BLOCK_BYTES_MAX} bytes of headers`));
      block = '';
    } else if (end !== undefined) {
      if (!isHeaderBlock(block)) fail(malformed('a part has a header that cannot be read'));
      block = '';
    }
    return end;
  };
}

/** From the end of the delimiter to the empty line, as bytes in latin1. */
function isHeaderBlock(block: string): boolean {
  const [restOfDelimiter, ...fields] = block.slice(0, -END_OF_BLOCK.length).split(NEXT_FIELD);
  return restOfDelimiter === '' && fields.every((field) => FIELD.test(field));
}
