import { toHex } from './bytes.ts';

/** The y of the points of small order, little-endian. */
const SMALL_ORDER = new Set([
  '00'.repeat(32),
  `01${'00'.repeat(31)}`,
  '26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05',
  'c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a',
  `ec${'ff'.repeat(30)}7f`,
]);

/**
 * Whether 32 bytes are a point of small order, or a second spelling of another: a y that is not below 2^255 - 19 (RFC 8032,
 * section 5.1.3). A key of small order lets one signature be good for many messages, and implementations, and versions of
 * them, differ about such points: so they are refused before any is asked.
 */
export function isWeakPoint(point: Uint8Array): boolean {
  const y = Uint8Array.from(point);
  y[31] = (y[31] ?? 0) & 0x7f;
  const hex = toHex(y);
  return SMALL_ORDER.has(hex) || (/^..(ff){30}7f$/.test(hex) && (y[0] ?? 0) >= 0xed);
}
