import { crc32 } from 'node:zlib';
import t from 'tap';
import { hashApiKey, isApiKey, newApiKey } from '../../src/job/apikey.ts';
import { fc } from '../support/seed.ts';

const environments = ['sandbox', 'production', 'a', 'eu-west-1'];

t.test('a new key has the published form, and is accepted only in its environment', async (t) => {
  for (const environment of environments) {
    const key = newApiKey(environment);
    t.match(key, new RegExp(`^seal_${environment}_[0-9A-Za-z]{36}$`));
    for (const other of environments)
      t.equal(isApiKey(key, other), other === environment, `${key} in ${other}`);
  }
});

t.test('new keys are unique', async (t) => {
  const keys = Array.from({ length: 1000 }, () => newApiKey('sandbox'));
  t.equal(new Set(keys).size, keys.length);
});

t.test('the last six digits are the CRC-32 of those before them', async (t) => {
  const digits = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
  const key = newApiKey('sandbox');
  const value = [...key.slice(-6)].reduce((sum, digit) => sum * 62 + digits.indexOf(digit), 0);
  t.equal(value, crc32(key.slice(0, -6)));
});

t.test('one changed character is noticed', async (t) => {
  const key = newApiKey('sandbox');
  const position = fc.integer({ min: 0, max: key.length - 1 });
  const character = fc.constantFrom(...'0Aaz9_- é');
  fc.assert(
    fc.property(position, character, (at, other) => {
      const changed = key.slice(0, at) + other + key.slice(at + 1);
      return changed === key || !isApiKey(changed, 'sandbox');
    }),
  );
  t.pass();
});

t.test('text that is not a key is refused', async (t) => {
  const key = newApiKey('sandbox');
  for (const text of [
    '',
    'seal_sandbox_',
    key.slice(1),
    key.slice(0, -1),
    `${key}0`,
    ` ${key}`,
    key.toUpperCase(),
  ]) {
    t.notOk(isApiKey(text, 'sandbox'), JSON.stringify(text));
  }
});

t.test('the store gets only the SHA-256 of a key', async (t) => {
  t.equal(hashApiKey('abc'), 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad');
});
