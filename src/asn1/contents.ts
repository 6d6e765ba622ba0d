/**
 * Why the content octets from `start` to `end` cannot be the DER of a value of the type with this identifier octet; undefined if they can.
 * Content that no reader uses is checked too. An implicit tag can hide any type: for such a tag, only content that is invalid for every
 * type is rejected.
 */
export function contentFault(tag: number, bytes: Uint8Array, start: number, end: number): string | undefined {
  const type = tag & 0x1f;
  const isConstructed = (tag & 0x20) !== 0;
  if (!isConstructed && type === 0x02 && !isShortest(bytes, start, end)) return 'BER, but not DER';
  if (!isConstructed && type === 0x1e && (end - start) % 2 === 1) return 'not DER: half a character';
  if (tag >= 0x40) return undefined;
  // SEQUENCE and SET are the only universal types that DER constructs (X.690, section 10.2).
  if (isConstructed !== (type === 0x10 || type === 0x11)) return 'not DER: a type in another form';
  return isConstructed || isValue(type, bytes, start, end) ? undefined : 'not DER: not a value of its type';
}

/** Whether the content octets are a value of the universal type with that number (X.680, section 8.4). */
function isValue(type: number, bytes: Uint8Array, start: number, end: number): boolean {
  const length = end - start;
  const first = length === 0 ? 0xff : (bytes[start] ?? 0xff);
  switch (type) {
    case 0x01: // BOOLEAN
      return length === 1;
    case 0x02: // INTEGER
      return length > 0;
    case 0x03: // BIT STRING: the first octet counts the unused bits of the last one.
      return first === 0 || (first < 8 && length > 1);
    case 0x05: // NULL
      return length === 0;
    case 0x06: // OBJECT IDENTIFIER
      return isOid(bytes.subarray(start, end));
    case 0x0a: // ENUMERATED
      return length > 0 && isShortest(bytes, start, end);
    case 0x17: // UTCTime
    case 0x18: // GeneralizedTime
      return (
        length > 10 && bytes.subarray(start, start + 10).every((octet) => octet >= 0x30 && octet <= 0x39)
      );
    default:
      // OCTET STRING and the string types: the only others in structures of this service and in certificates.
      return type === 0x04 || type === 0x0c || (type >= 0x12 && type <= 0x1e);
  }
}

/** An INTEGER must not have more octets than its value needs (X.690, section 8.3.2). */
function isShortest(bytes: Uint8Array, start: number, end: number): boolean {
  return end - start < 2 || bytes[start] !== ((bytes[start + 1] ?? 0) < 0x80 ? 0 : 0xff);
}

/** Each number must be complete, and must not begin with a zero digit (X.690, section 8.19.2). */
function isOid(content: Uint8Array): boolean {
  const starts = (index: number) => index === 0 || (content[index - 1] ?? 0) < 0x80;
  return (content.at(-1) ?? 0x80) < 0x80 && content.every((octet, index) => octet !== 0x80 || !starts(index));
}
