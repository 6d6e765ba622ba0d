/** Devices differ where PKCS#11 lets them; the module under test behaves as their documents say. */
import pkcs11 from 'pkcs11js';
import t, { type Test } from 'tap';
import { KEY_ALGORITHMS } from '../../src/kms/keyAlgorithm.ts';
import { destroyKey, initKey, inspectKey, readKey } from '../../src/kms/keyOperations.ts';
import { CLASSICAL_ALGORITHMS } from '../../src/log/verifierKey.ts';
import {
  behindFaulty,
  buildFaultyModule,
  faultsPlayed,
  loggedOut,
  type Peculiarity,
  setFault,
  tookParameters,
} from '../support/faults.ts';
import { makeToken } from '../support/partitions.ts';

const module = buildFaultyModule(t.testdir());

function makeDevice(t: Test, peculiarity: Peculiarity) {
  const token = makeToken(t.testdir(), { label: 'vault', region: 'eu-west', keyLabel: 'production' });
  const device = behindFaulty(token, module);
  setFault(device, peculiarity);
  return device;
}

t.test('a token that knows Ed25519 only by name makes such a key', async (t) => {
  const device = makeDevice(t, 'named-curve');
  const key = await initKey(device, 'ed25519');
  t.equal(key.algorithm, 'ed25519');
  t.equal(faultsPlayed(device, 'named-curve'), 1, 'it was asked by the object identifier first');
  t.strictSame(await readKey(device), key);
  await t.rejects(initKey({ ...device, keyLabel: 'other' }, 'ecdsa-p256'), {
    message: /PKCS#11 failed with 0x140 \(CKR_VENDOR_DEFINED\)/,
  });
});

for (const algorithm of CLASSICAL_ALGORITHMS) {
  t.test(`${algorithm}: a token that gives CKA_ID itself keeps the key`, async (t) => {
    const device = makeDevice(t, 'fixed-id');
    const key = await initKey(device, algorithm);
    t.equal(faultsPlayed(device, 'fixed-id'), 1);
    t.strictSame(await readKey(device), key);
  });
}

t.test('a pair that is a single object is destroyed at once', async (t) => {
  const device = makeDevice(t, 'one-object');
  await initKey(device, 'ed25519');
  await destroyKey(device);
  t.equal(faultsPlayed(device, 'one-object'), 1);
  await t.rejects(readKey(device), { message: /key_not_found/ });
});

t.test('CKA_PRIVATE counts only if the token has a log-in', async (t) => {
  const device = makeDevice(t, 'no-login');
  await initKey(device, 'ecdsa-p256');
  t.match(await inspectKey(device), { exposures: [], wasAlwaysInside: true });
  setFault(device, 'not-private');
  t.match(await inspectKey(device), { exposures: ['CKA_PRIVATE = false'] });
  await t.rejects(initKey({ ...device, keyLabel: 'other' }, 'ecdsa-p256'), { message: /key_unprotected/ });
  await t.rejects(readKey({ ...device, keyLabel: 'other' }), { message: /key_not_found/ }, 'and it is gone');
});

t.test('a slot with a foreign card is skipped', async (t) => {
  const device = makeDevice(t, 'foreign-card');
  const key = await initKey(device, 'ed25519');
  t.strictSame(await readKey(device), key);
  t.ok(faultsPlayed(device, 'foreign-card') > 1);
  await t.rejects(readKey({ ...device, tokenLabel: 'gone' }), {
    message:
      /no such token \(.+\); there is "vault" \(serial \w+\), one that cannot be read \(CKR_TOKEN_NOT_RECOGNIZED\) \(token_not_found\)/,
  });
});

t.test('a module that does not start without locks starts also for one session', async (t) => {
  const device = makeDevice(t, 'locks-only');
  const key = await initKey(device, 'ed25519');
  t.strictSame(await readKey(device), key);
});

t.test('a module that starts neither with locks nor without reports its first code', async (t) => {
  const device = makeDevice(t, 'no-start');
  await t.rejects(readKey(device), { message: /refuses to start.*\(CKR_NEED_TO_CREATE_THREADS\)/ });
  t.equal(faultsPlayed(device, 'no-start'), 2);
});

t.test('a module that refuses for another reason than locks is asked once', async (t) => {
  const device = makeDevice(t, 'no-start');
  setFault(device, { fails: 'C_Initialize', with: pkcs11.CKR_DEVICE_ERROR });
  await t.rejects(readKey(device), { message: /refuses to start.*\(CKR_DEVICE_ERROR\)/ });
  t.equal(faultsPlayed(device, 'C_Initialize'), 1);
});

t.test('parameters arrive to the last character', async (t) => {
  const device = makeDevice(t, 'parameters');
  const libraryParameters = "configdir='/with a blank/ü' flags=all";
  await initKey({ ...device, libraryParameters }, 'ed25519');
  t.ok(tookParameters(device, libraryParameters));
});

for (const algorithm of KEY_ALGORITHMS.filter((one) => one !== 'mldsa44')) {
  t.test(`${algorithm}: a module that wants a buffer as long as the signature signs`, async (t) => {
    const device = makeDevice(t, 'exact-output');
    await initKey(device, algorithm);
    t.equal(faultsPlayed(device, 'exact-output'), 0);
  });
}

t.test('a module with another instance for each list of functions is asked for one', async (t) => {
  const device = makeDevice(t, 'instances');
  const key = await initKey(device, 'ed25519');
  t.strictSame(await readKey(device), key);
  t.equal(faultsPlayed(device, 'instances'), 0);
});

t.test('a token that another program has logged in to is used, and nobody is logged out', async (t) => {
  const device = makeDevice(t, 'logged-in');
  const key = await initKey(device, 'ed25519');
  t.strictSame(await readKey(device), key);
  t.equal(faultsPlayed(device, 'logged-in'), 2, 'both log-ins were answered so');
  t.notOk(loggedOut(device));
});

t.test('a token is found whose label and serial number are padded with NUL', async (t) => {
  const device = makeDevice(t, 'nul-padding');
  const key = await initKey(device, 'ed25519');
  const refusal = await readKey({ ...device, tokenLabel: 'gone' }).then(String, String);
  const [, tokenSerial] = /there is "vault" \(serial ([0-9a-f]{12})\)/.exec(refusal) ?? [];
  t.ok(tokenSerial, 'messages name them without the padding');
  const { tokenLabel: _, ...unlabelled } = device;
  t.strictSame(await readKey({ ...unlabelled, tokenSerial }), key);
});
