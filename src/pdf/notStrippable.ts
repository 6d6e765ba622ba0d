/** XMP of a document cannot be removed in place, or cannot be told to be all; the message says why. */
export class NotStrippable extends Error {
  constructor(why: string) {
    super(why);
    this.name = 'NotStrippable';
  }
}
