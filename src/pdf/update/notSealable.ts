/** Thrown if a receipt cannot be attached to a document with certainty. The message says why, and names the object if there is one. */
export class NotSealable extends Error {
  override readonly name = 'NotSealable';
  readonly code = 'pdf_not_sealable';
  readonly objectNumber: number | undefined;

  constructor(message: string, objectNumber?: number) {
    super(message);
    this.objectNumber = objectNumber;
  }
}
