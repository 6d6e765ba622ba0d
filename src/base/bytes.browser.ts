/** Browser implementation of `bytes.ts`, without Node. */

export function toBase64(data: Uint8Array): string {
  return btoa(toBinary(data));
}

export function fromBase64(text: string): Uint8Array | undefined {
  try {
    const binary = atob(text);
    return btoa(binary) === text ? fromBinary(binary) : undefined;
  } catch {
    // A character outside the alphabet.
    return undefined;
  }
}

export function toHex(data: Uint8Array): string {
  return Array.from(data, (octet) => octet.toString(16).padStart(2, '0')).join('');
}

export function fromHex(text: string): Uint8Array {
  return Uint8Array.from(text.match(/../g) ?? [], (octet) => Number.parseInt(octet, 16));
}

export function toBinary(data: Uint8Array): string {
  return Array.from(data, (octet) => String.fromCharCode(octet)).join('');
}

export function fromBinary(text: string): Uint8Array {
  return Uint8Array.from(text, (character) => character.charCodeAt(0));
}

export function fromUtf8(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

export function concatBytes(parts: readonly Uint8Array[]): Uint8Array {
  const whole = new Uint8Array(parts.reduce((length, part) => length + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

export function bytesEqual(a: Uint8Array, b: Uint8Array): boolean {
  return compareBytes(a, b) === 0;
}

export function compareBytes(a: Uint8Array, b: Uint8Array): number {
  const differing = a.findIndex((octet, i) => octet !== b[i]);
  return differing < 0 || differing >= b.length
    ? a.length - b.length
    : (a[differing] ?? 0) - (b[differing] ?? 0);
}
