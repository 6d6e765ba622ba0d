/** DER that something has happened to: bytes, or elements in the right lengths. */
import { type Element, parseDer, primitive } from '../../src/asn1/der.ts';
import { random, randomBytes } from './seed.ts';

const below = (count: number): number => Math.floor(random() * count);
const oneOf = <T>(list: readonly T[]): T => list[below(list.length)] as T;

/** The element and all within it. */
function all(element: Element): Element[] {
  return [element, ...(element.elements ?? []).flatMap(all)];
}

/** Changes one of the encodings, with parts of any of them. */
export function mutationsOf(encodings: readonly Uint8Array[]): (der: Uint8Array) => Uint8Array {
  const parts = encodings.flatMap((der) => all(parseDer(der)).map((element) => element.der));
  return (der) => {
    let changed = der;
    do changed = random() < 0.3 ? changeBytes(der) : changeElement(parseDer(der), parts);
    while (Buffer.compare(changed, der) === 0);
    return changed;
  };
}

function changeBytes(der: Uint8Array): Uint8Array {
  const at = below(der.length);
  const put = oneOf([
    randomBytes(1),
    Buffer.of((der[at] ?? 0) ^ (1 << below(8))),
    Buffer.of(0),
    Buffer.alloc(0),
    randomBytes(2),
  ]);
  return Buffer.concat([der.subarray(0, at), put, der.subarray(at + below(3))]);
}

/** One element of the tree removed, doubled, replaced, moved, emptied, retagged, or its content changed. */
function changeElement(root: Element, parts: readonly Uint8Array[]): Uint8Array {
  const target = pick(root);
  const { der, tag, content, elements } = target;
  const change = oneOf<() => Uint8Array[]>([
    () => [],
    () => [der, der],
    () => [oneOf(parts)],
    () => [der, oneOf(parts)],
    () => [oneOf(parts), der],
    () => [oneOf(all(root)).der],
    () => [primitive(tag, new Uint8Array(0))],
    () => [primitive(oneOf([0x30, 0x31, 0x04, 0x02, 0x05, 0xa0, 0xa1, 0xa2, 0x80, tag ^ 0x20]), content)],
    () => [primitive(tag, elements === undefined ? randomBytes(content.length) : shuffled(elements))],
    () => [primitive(tag, Buffer.concat([content, randomBytes(1)]))],
    () => [primitive(tag, content.subarray(1))],
  ]);
  return Buffer.concat(rebuilt(root, target, change()));
}

/** An element at any depth: one near the top as often as one deep within a token. */
function pick(element: Element): Element {
  const { elements = [] } = element;
  return elements.length === 0 || random() < 0.12 ? element : pick(oneOf(elements));
}

function shuffled(elements: readonly Element[]): Uint8Array {
  const order = elements.map(({ der }) => ({ der, key: random() })).sort((a, b) => a.key - b.key);
  return Buffer.concat(order.map(({ der }) => der));
}

function rebuilt(element: Element, target: Element, change: Uint8Array[]): Uint8Array[] {
  if (element === target) return change;
  if (element.elements === undefined || element.end < target.end) return [element.der];
  return [
    primitive(element.tag, Buffer.concat(element.elements.flatMap((one) => rebuilt(one, target, change)))),
  ];
}
