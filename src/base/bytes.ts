// Browser bundles use `bytes.browser.ts` instead of this file (package.json, "browser").

/** Standard Base64 with padding (RFC 4648, section 4). */
export function toBase64(data: Uint8Array): string {
  return view(data).toString('base64');
}

/** Decodes canonical Base64 with padding (RFC 4648, section 4); undefined for anything else. */
export function fromBase64(text: string): Uint8Array | undefined {
  const data = Buffer.from(text, 'base64');
  return data.toString('base64') === text ? data : undefined;
}

/** Lower-case hexadecimal. */
export function toHex(data: Uint8Array): string {
  return view(data).toString('hex');
}

/** Decodes hexadecimal written by pdfseald, which is well-formed. */
export function fromHex(text: string): Uint8Array {
  return Buffer.from(text, 'hex');
}

/** A character from U+0000 to U+00FF for each byte. */
export function toBinary(data: Uint8Array): string {
  return view(data).toString('latin1');
}

/** The inverse of {@link toBinary}; characters beyond U+00FF lose their high bits. */
export function fromBinary(text: string): Uint8Array {
  return Buffer.from(text, 'latin1');
}

/** UTF-8; a lone surrogate becomes U+FFFD. */
export function fromUtf8(text: string): Uint8Array {
  return Buffer.from(text, 'utf8');
}

export function concatBytes(parts: readonly Uint8Array[]): Uint8Array {
  return Buffer.concat(parts);
}

export function bytesEqual(a: Uint8Array, b: Uint8Array): boolean {
  return compareBytes(a, b) === 0;
}

/** Negative, zero or positive: compares octet by octet, then by length. */
export function compareBytes(a: Uint8Array, b: Uint8Array): number {
  return Buffer.compare(a, b);
}

function view(data: Uint8Array): Buffer {
  return Buffer.isBuffer(data) ? data : Buffer.from(data.buffer, data.byteOffset, data.byteLength);
}
