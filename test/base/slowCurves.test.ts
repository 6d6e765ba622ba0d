/** The published answers for the larger curves and digests: a signature takes the browser's primitives some milliseconds. */
import t from 'tap';
import { judgeAll } from './wycheproof.ts';

for (const [name, digest] of [
  ['ecdsa-p256-sha512', 'sha512'],
  ['ecdsa-p384-sha384', 'sha384'],
  ['ecdsa-p521-sha512', 'sha512'],
] as const)
  t.test(`Wycheproof: ${name}`, async (t) => judgeAll(t, name, digest));
