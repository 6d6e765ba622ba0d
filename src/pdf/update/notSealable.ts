/** Thrown for a document that cannot be sealed: nothing is repaired or guessed. The message states the reason. */
export class NotSealable extends Error {
  constructor(why: string) {
    super(why);
    this.name = 'NotSealable';
  }
}
