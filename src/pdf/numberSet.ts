/** The highest valid object number (ISO 32000-2, annex C). */
const OBJECT_NUMBER_MAX = 8_388_607;

/** A set of object numbers, with one bit for each number up to the highest: at most 1 MiB. */
export class NumberSet {
  #bits = new Uint8Array(64);

  /** Ignores invalid object numbers. */
  add(number: number): void {
    if (!isObjectNumber(number)) return;
    const index = number >> 3;
    if (index >= this.#bits.length) {
      const larger = new Uint8Array(Math.min(2 * (index + 1), (OBJECT_NUMBER_MAX + 1) / 8));
      larger.set(this.#bits);
      this.#bits = larger;
    }
    this.#bits[index] = (this.#bits[index] ?? 0) | (1 << (number & 7));
  }

  has(number: number): boolean {
    return isObjectNumber(number) && ((this.#bits[number >> 3] ?? 0) & (1 << (number & 7))) !== 0;
  }

  /** The numbers in both sets. */
  *intersection(other: NumberSet): Iterable<number> {
    for (let index = 0; index < this.#bits.length; index += 1) {
      const both = (this.#bits[index] ?? 0) & (other.#bits[index] ?? 0);
      for (let bit = 0; both >> bit > 0; bit += 1) if ((both >> bit) & 1) yield index * 8 + bit;
    }
  }
}

export function isObjectNumber(number: number): boolean {
  return Number.isInteger(number) && number >= 0 && number <= OBJECT_NUMBER_MAX;
}
