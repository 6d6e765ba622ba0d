/** Thrown if XMP cannot be removed in place, or if it is uncertain whether all XMP was found. The message states the reason. */
export class NotStrippable extends Error {
  override readonly name = 'NotStrippable';
}

/** Thrown if the content of an object cannot be determined. The message states the reason, without naming the object. */
export class Undecodable extends NotStrippable {}
