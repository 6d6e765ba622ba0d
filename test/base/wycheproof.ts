/** Wycheproof's signatures, judged by Node's primitives and by the browser's. */
import { readFileSync } from 'node:fs';
import type { Test } from 'tap';
import { parseDer } from '../../src/asn1/der.ts';
import { readPublicKey } from '../../src/asn1/publicKey.ts';
import * as browser from '../../src/base/crypto.browser.ts';
import * as node from '../../src/base/crypto.ts';

/** Both must have the same functions, of the same types. */
const IMPLEMENTATIONS: Record<string, typeof node> = { node, browser };

type Vectors = { spki: string; tests: [number, string, string, 'valid' | 'invalid' | 'acceptable'][] }[];

export const bytes = (hex: string) => Buffer.from(hex, 'hex');

export function keyOf(spki: Uint8Array): node.PublicKey {
  const key =
    spki.length === 44
      ? ({ type: 'ed25519', point: spki.subarray(12) } as const)
      : readPublicKey(parseDer(spki));
  if (key === undefined) throw new Error(`no key: ${Buffer.from(spki).toString('hex')}`);
  return key;
}

/** Holds that both judge each signature of the file as it is published. */
export function judgeAll(t: Test, name: string, digest: node.DigestName): void {
  const file = new URL(`../vectors/wycheproof/${name}.json`, import.meta.url);
  const groups: Vectors = JSON.parse(readFileSync(file, 'utf8'));
  for (const { spki, tests } of groups) {
    const key = keyOf(bytes(spki));
    for (const [number, message, signature, result] of tests) {
      const found = Object.values(IMPLEMENTATIONS).map(({ verify }) =>
        verify(key, digest, bytes(message), bytes(signature)),
      );
      // "Acceptable" is what only leniency takes.
      const expected = result === 'valid';
      if (found.some((each) => each !== expected)) t.strictSame(found, [expected, expected], `${number}`);
    }
  }
  t.ok(groups.length > 0);
}
