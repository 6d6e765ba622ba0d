import { parseWitnessAnswer, type WitnessAnswer } from '../log/addCheckpoint.ts';
import { parseCount } from '../log/checkpoint.ts';
import { parseSignatureLines } from '../log/note.ts';

/** A witness's answer that was carried here by hand. */
export interface CarriedAnswer {
  answer: WitnessAnswer;
  /** Whether it is an HTTP answer that is provably complete: only such an answer can prove that a witness refuses. */
  isWhole: boolean;
}

/** Maximum interim answers (RFC 9110, section 15.2) before an answer. */
const INTERIM_MAX = 8;

/**
 * Reads signature lines, the size known to the witness, or a complete HTTP answer as written by `curl --include`. Line ends, blanks around
 * lines, empty lines and the dash of a signature line may be as a scanner reproduces them: the signature decides. Undefined for anything
 * else. Any input is safe, and takes linear time.
 */
export function readCarriedAnswer(carried: string): CarriedAnswer | undefined {
  let text = carried.replace(/^\uFEFF/, '').trimStart();
  for (let interim = 0; interim <= INTERIM_MAX && text.startsWith('HTTP/'); interim++) {
    const { status, headers, body } = splitAnswer(text);
    if (status === undefined) return undefined;
    if (status >= 200) {
      const isWhole = parseCount(headers.get('content-length') ?? '') === Buffer.byteLength(body);
      const lines = status === 200 ? signatureLines(body) : linesOf(body);
      const answer = parseWitnessAnswer(status, headers.get('content-type') ?? '', joined(lines));
      // Witnesses that do not return a size answer 409 without a body. Any other text comes from another server.
      const isForeign = status === 409 && answer.kind === 'contradiction' && lines.length > 0;
      const foreign = { kind: 'fault', message: 'answered with status 409 and no size' } as const;
      return { answer: isForeign ? foreign : answer, isWhole };
    }
    text = body;
  }
  const [first = '', ...more] = linesOf(text);
  const size = more.length === 0 ? parseCount(first) : undefined;
  if (size !== undefined) return { answer: { kind: 'other_size', size }, isWhole: false };
  const lines = parseSignatureLines(joined(signatureLines(text)));
  return lines && { answer: { kind: 'cosigned', lines }, isWhole: false };
}

/** The part before the first empty line, and the part after it: an answer truncated before that line does not have a length. */
function splitAnswer(text: string) {
  const border = /\r?\n\r?\n/.exec(text);
  const [first = '', ...fields] = (border ? text.slice(0, border.index) : text).split(/\r?\n/);
  const [, digits] = /^HTTP\/[0-9.]{1,3} ([1-9][0-9]{2})(?: |$)/.exec(first) ?? [];
  const headers = new Map(
    (border ? fields : []).map((field) => {
      const colon = field.indexOf(':');
      return [field.slice(0, Math.max(0, colon)).toLowerCase(), field.slice(colon + 1).trim()] as const;
    }),
  );
  const body = border ? text.slice(border.index + border[0].length) : '';
  return { status: digits === undefined ? undefined : Number(digits), headers, body };
}

function linesOf(text: string): string[] {
  const lines = text.split(/[\r\n]/).map((line) => line.trim());
  return lines.filter((line) => line !== '');
}

function joined(lines: readonly string[]): string {
  return lines.map((line) => `${line}\n`).join('');
}

/** The dash cannot be typed on a keyboard: something else precedes the name, or nothing. */
function signatureLines(text: string): string[] {
  return linesOf(text).map((line) => {
    const items = line.split(/[ \t]+/);
    const isMarked = items.length === 3 && /^[^0-9A-Za-z]{1,3}$/.test(items[0] ?? '');
    return `— ${(isMarked ? items.slice(1) : items).join(' ')}`;
  });
}
