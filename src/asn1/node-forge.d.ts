/** The part of node-forge that this project uses, as a second reader of DER. Its certificate and signature functions are not used. */
declare module 'node-forge/lib/asn1.js' {
  namespace asn1 {
    interface Asn1 {
      /** Bits 8 and 7 of the identifier octet. */
      tagClass: number;
      /** Bits 5 to 1 of the identifier octet. */
      type: number;
      constructed: boolean;
      /** Content octets as a binary string, or the elements of a constructed value. */
      value: string | Asn1[];
    }
  }
  const asn1: {
    create(tagClass: number, type: number, constructed: boolean, value: string | asn1.Asn1[]): asn1.Asn1;
    /** Throws Error if the bytes are not BER. */
    fromDer(
      bytes: string,
      options: { strict: boolean; parseAllBytes: boolean; decodeBitStrings: boolean; maxDepth: number },
    ): asn1.Asn1;
    toDer(element: asn1.Asn1): { getBytes(): string };
  };
  export = asn1;
}
