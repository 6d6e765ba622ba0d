import { encode, renderSVG, renderUnicodeCompact } from 'uqr';
import { OperatorError } from '../base/errors.ts';

/** Bytes in the largest code, 40-L (ISO/IEC 18004, table 7). */
const BYTES_MAX = 2953;
/** Light modules around the code that every reader needs (ISO/IEC 18004, clause 9.1). */
const BORDER = 4;
/** The lowest error correction, so that the modules are as large as possible: a screen has no stains. */
const FORM = { ecc: 'L', border: BORDER } as const;

/** Light characters on a dark ground, whatever the terminal's colours are (ECMA-48). */
const WHITE_ON_BLACK = '\u001b[97;40m';
const RESET = '\u001b[0m';

/** Lines written below the code, and the line of the prompt. */
const LINES_BELOW = 3;

/** The text as one QR code for a terminal of this size, with two modules in each character. Throws OperatorError if it does not fit. */
export function qrForTerminal(text: string, columns?: number, rows?: number): string {
  assertFits(text);
  const { size } = encode(text, FORM);
  const lines = renderUnicodeCompact(text, FORM).split('\n');
  const height = lines.length + LINES_BELOW;
  // A terminal that does not report its size has 0.
  if ((columns && size > columns) || (rows && height > rows))
    throw new OperatorError(
      `the QR code takes ${size} columns and ${height} rows, and this terminal has ${columns || 'unknown'} and ${rows || 'unknown'}`,
      { remedy: 'make the terminal larger or its letters smaller, or use --svg' },
    );
  return lines.map((line) => `${WHITE_ON_BLACK}${line}${RESET}\n`).join('');
}

/** The text as one QR code, as an SVG document. Throws OperatorError if it does not fit. */
export function qrAsSvg(text: string): string {
  assertFits(text);
  return `${renderSVG(text, FORM)}\n`;
}

function assertFits(text: string): void {
  const bytes = Buffer.byteLength(text);
  if (bytes <= BYTES_MAX) return;
  throw new OperatorError(
    `a QR code holds ${BYTES_MAX} bytes, and this request has ${bytes}, because of its post-quantum or many signatures`,
    { remedy: 'carry the file: leave out --qr and --svg, or list one Ed25519 key of the log in the policy' },
  );
}
