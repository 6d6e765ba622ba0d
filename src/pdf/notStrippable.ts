/** XMP of a document cannot be removed in place, or cannot be told to be all; the message says why. */
export class NotStrippable extends Error {
  constructor(why: string) {
    super(why);
    this.name = 'NotStrippable';
  }
}

/** What one object holds cannot be told. The message says why, of the object, without naming it. */
export class Undecodable extends NotStrippable {}
