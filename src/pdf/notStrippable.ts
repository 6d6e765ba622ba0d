/** Thrown if XMP cannot be removed in place, or if it is not certain that all XMP was found. The message says why. */
export class NotStrippable extends Error {
  constructor(why: string) {
    super(why);
    this.name = 'NotStrippable';
  }
}

/** Thrown if the content of an object cannot be determined. The message says why, without naming the object. */
export class Undecodable extends NotStrippable {}
