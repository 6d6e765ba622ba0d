import { toHex } from './bytes.ts';

/** The y coordinates of the points of small order, little-endian. */
const SMALL_ORDER = new Set([
  '00'.repeat(32),
  `01${'00'.repeat(31)}`,
  '26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05',
  'c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a',
  `ec${'ff'.repeat(30)}7f`,
]);

/**
 * Whether 32 bytes encode a point of small order, or a non-canonical y, which is not below 2^255 - 19 (RFC 8032, section 5.1.3). With a key
 * of small order, one signature is valid for many messages, and implementations and their versions treat such points differently. So they
 * are rejected before they reach any implementation.
 */
export function isWeakPoint(point: Uint8Array): boolean {
  const y = Uint8Array.from(point);
  y[31] = (y[31] ?? 0) & 0x7f;
  const hex = toHex(y);
  return SMALL_ORDER.has(hex) || (/^..(ff){30}7f$/.test(hex) && (y[0] ?? 0) >= 0xed);
}
