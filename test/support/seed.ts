/**
 * Where all that tests leave to chance comes from: one seed, printed, so that what failed can be tried again as it was.
 * Secrets, and names that must be unlike those of any other process, are not left to it.
 */
import { createCipheriv, createHash, randomInt } from 'node:crypto';
import { relative } from 'node:path';
import fc from 'fast-check';

const SEED_MAX = 2 ** 31;

const seed = Number(process.env.PDFSEALD_SEED ?? randomInt(SEED_MAX));
if (!Number.isInteger(seed)) throw new Error('PDFSEALD_SEED must be a whole number');

const program = relative(process.cwd(), process.argv[1] ?? '');
console.error(`# PDFSEALD_SEED=${seed} ${program}`);
process.on('exit', (code) => {
  if (code !== 0) console.error(`# ${program} failed; again, with the same choices: PDFSEALD_SEED=${seed}`);
});

fc.configureGlobal({ ...fc.readConfigureGlobal(), seed, numRuns: tries(100) });
const keystream = createCipheriv(
  'aes-128-ctr',
  createHash('sha256').update(`${seed}`).digest().subarray(16),
  Buffer.alloc(16),
);

export { fc };

/** How many random inputs a property tries: `usual`, or the share of them that the quick tier tries. */
export function tries(usual: number): number {
  return Math.ceil(usual * Number(process.env.PDFSEALD_SHARE ?? 1));
}

/** How many changed inputs a test tries: as many as a long run wants of each test, else a tenth of that or more, as {@link tries} says. */
export function mutations(usual = 10_000): number {
  return Number(process.env.PDFSEALD_MUTATIONS ?? tries(usual));
}

/** The text with some characters changed, removed, doubled or swapped for a part from elsewhere in it. */
export function change(text: string): fc.Arbitrary<string> {
  const step = fc.record({
    at: fc.nat(text.length),
    removed: fc.constantFrom(0, 0, 1, 1, 1, 2, 40),
    added: fc.oneof(
      fc.constantFrom('', '\n', '\n\n', '\r', '\0', ' ', '—', '— ', '=', '0', '\ud800', '\ufeff'),
      fc.string({ maxLength: 2, unit: 'grapheme' }),
      fc.tuple(fc.nat(text.length), fc.nat(60)).map(([from, length]) => text.slice(from, from + length)),
    ),
  });
  const steps = fc.array(step, { minLength: 1, maxLength: 3 });
  return steps.map((all) =>
    all.reduce((now, { at, removed, added }) => now.slice(0, at) + added + now.slice(at + removed), text),
  );
}

/** Bytes that the seed gives, other ones with every call. */
export function randomBytes(length: number): Buffer<ArrayBuffer> {
  return Buffer.from(keystream.update(Buffer.alloc(length)));
}

/** A number from 0 inclusive to 1 exclusive, that the seed gives. */
export function random(): number {
  return randomBytes(4).readUInt32LE() / 2 ** 32;
}
