import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import t from 'tap';
import { openWasm } from '../../src/hash/wasm.ts';
import { fc, tries } from '../support/seed.ts';

const hash = await openWasm();

function digests(data: Uint8Array) {
  return {
    sha256: createHash('sha256').update(data).digest('hex'),
    sha512: createHash('sha512').update(data).digest('hex'),
  };
}

function stateAfter(bytes: Uint8Array): Uint8Array {
  const hashed = hash({ bytes, last: false });
  assert('state' in hashed);
  return hashed.state;
}

t.test('the FIPS 180-4 example vectors give their digests', async (t) => {
  const [empty, abc] = ['', 'abc'].map((text) => hash({ bytes: Buffer.from(text), last: true }));
  t.match(empty, { sha256: 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855' });
  t.match(abc, {
    sha256: 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad',
    sha512:
      'ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f',
  });
});

t.test('the example vectors give the same digests in several pieces', async (t) => {
  const whole = hash({ bytes: Buffer.from('abc'), last: true });
  t.same(hash({ state: stateAfter(Buffer.from('a')), bytes: Buffer.from('bc'), last: true }), whole);
});

t.test('a document cut anywhere, interleaved with another, has the same digests', async (t) => {
  const property = fc.property(fc.uint8Array({ maxLength: 700 }), fc.nat(700), (data, at) => {
    const state = stateAfter(data.subarray(0, at));
    hash({ bytes: Buffer.from('another'), last: true });
    assert.deepEqual(hash({ state, bytes: data.subarray(at), last: true }), digests(data));
  });
  t.doesNotThrow(() => fc.assert(property, { numRuns: tries(300) }));
});

t.test('a state of another build is refused', async (t) => {
  const state = stateAfter(Buffer.from('a'));
  state[0] = (state[0] ?? 0) ^ 1;
  t.throws(() => hash({ state, bytes: Buffer.from('b'), last: true }), /incompatible/);
});
