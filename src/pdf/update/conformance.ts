/** Whether a document says that it is a kind of PDF/A, which allows no attached receipt (ISO 19005-1 to -4). */
import { NotSealable } from './notSealable.ts';

const NAMESPACE = 'http://www.aiim.org/pdfa/ns/id/';
/** Nobody needs two. */
const PREFIXES_MAX = 4;
const DECLARATION = /xmlns:([\w.-]{1,100})\s{0,100}=\s{0,100}(?:"([^"<]{0,1000})"|'([^'<]{0,1000})')/g;

/** PDF/A-1 and -2 allow no attached file that is not PDF/A, and PDF/A-4 none without its level f. Throws NotSealable. */
export function refuseConformance(metadata: Uint8Array, objectNumber: number): void {
  const xmp = withoutReferences(decoded(metadata));
  const prefixes = Array.from(xmp.matchAll(DECLARATION), ([, prefix = '', ...values]) => ({
    prefix,
    namespace: values.find((value) => value !== undefined)?.trim(),
  }));
  const own = new Set(
    prefixes.filter(({ namespace }) => namespace === NAMESPACE).map(({ prefix }) => prefix),
  );
  if (own.size > PREFIXES_MAX) throw new NotSealable('its metadata is damaged', objectNumber);
  for (const prefix of own) {
    const parts = valuesOf(xmp, prefix, 'part');
    const levels = valuesOf(xmp, prefix, 'conformance');
    const refused = parts.find(
      (part) =>
        part !== '3' &&
        (part !== '4' || levels.some((level) => level.toUpperCase() !== 'F') || levels.length === 0),
    );
    if (refused !== undefined)
      throw new NotSealable(
        `it says that it is PDF/A-${/^\d{1,2}$/.test(refused) ? refused : '?'}, which allows no attached receipt; PDF/A-3 and PDF/A-4f do`,
        objectNumber,
      );
  }
}

function decoded(data: Uint8Array): string {
  const [first, second] = data;
  const isWide = first === 0xfe || first === 0xff || first === 0 || second === 0;
  const encoding = !isWide ? 'utf-8' : first === 0xfe || first === 0 ? 'utf-16be' : 'utf-16le';
  return new TextDecoder(encoding).decode(data);
}

function withoutComments(xmp: string): string {
  const pieces: string[] = [];
  let from = 0;
  for (let start = xmp.indexOf('<!--'); start >= 0; start = xmp.indexOf('<!--', from)) {
    const end = xmp.indexOf('-->', start + 4);
    if (end < 0) break;
    pieces.push(xmp.slice(from, start));
    from = end + 3;
  }
  return pieces.join('') + xmp.slice(from);
}

/** Without comments, and with the characters that numbers stand for. */
function withoutReferences(xmp: string): string {
  return withoutComments(xmp).replaceAll(
    /&#(?:x([0-9A-Fa-f]{1,6})|(\d{1,7}));/g,
    (_, hex?: string, decimal?: string) => {
      const code = hex === undefined ? Number(decimal) : Number.parseInt(hex, 16);
      return code < 0x10000 ? String.fromCharCode(code) : '';
    },
  );
}

/** A property as an attribute or as an element, and what begins like one. */
const ATTRIBUTE =
  /[\s<]([\w.-]{1,100}):(part|conformance)(?![\w.-])(?:\s{0,100}=\s{0,100}["']\s{0,100}(\w{1,9})\s{0,100}["'])?/g;
const ELEMENT = /<([\w.-]{1,100}):(part|conformance)(?:\s[^<>]{0,1000})?>\s{0,100}(\w{1,9})\s{0,100}<\//g;

/** The values of a property. What begins like it, but has another form, has the value `?`. */
function valuesOf(xmp: string, prefix: string, property: string): string[] {
  const isOwn = ([, one, name]: RegExpExecArray) => one === prefix && name === property;
  const elements = Array.from(xmp.matchAll(ELEMENT)).filter(isOwn);
  const places = new Set(elements.map(({ index }) => index));
  const others = Array.from(xmp.matchAll(ATTRIBUTE)).filter((one) => isOwn(one) && !places.has(one.index));
  return [...elements, ...others].map(([, , , value]) => value ?? '?');
}
