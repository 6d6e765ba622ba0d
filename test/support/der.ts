import { parseDer } from '../../src/asn1/der.ts';

/** DER of each element of a constructed value. */
export function partsOf(der: Uint8Array): Uint8Array[] {
  return (parseDer(der).elements ?? []).map((element) => element.der);
}
