/** Devices differ where PKCS#11 lets them; the module under test behaves as their documents say. */
import { execFileSync } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import pkcs11 from 'pkcs11js';
import t, { type Test } from 'tap';
import { KEY_ALGORITHMS, verifierOf } from '../../src/kms/keyAlgorithm.ts';
import { destroyKey, initKey, inspectKey, readKey, useKey } from '../../src/kms/keyOperations.ts';
import { bytesOrder } from '../../src/kms/order.ts';
import type { PartitionOptions } from '../../src/kms/partitions.ts';
import { CLASSICAL_ALGORITHMS } from '../../src/log/verifierKey.ts';
import {
  behindFaulty,
  buildFaultyModule,
  faultsPlayed,
  loggedOut,
  logins,
  type ModuleFault,
  refusedLogins,
  setFault,
  tookParameters,
  withoutFaults,
} from '../support/faults.ts';
import { allReady, item, MESSAGE, makeSite, makeToken, statesOf } from '../support/partitions.ts';
import { editToken, findObjects } from '../support/tamper.ts';
import { until } from '../support/until.ts';

const module = buildFaultyModule(t.testdir());

/** A certificate of this public key (Base64 of the SPKI), by a key of its own: `openssl x509 -force_pubkey`. */
function certifyKey(folder: string, spki: string): X509Certificate {
  const [issuer, subject] = [join(folder, 'issuer.pem'), join(folder, 'subject.pem')];
  writeFileSync(subject, `-----BEGIN PUBLIC KEY-----\n${spki}\n-----END PUBLIC KEY-----\n`);
  const openssl = (args: string) => execFileSync('openssl', args.split(' '), { stdio: 'pipe' });
  openssl(`ecparam -name prime256v1 -genkey -noout -out ${issuer}`);
  openssl(`req -new -x509 -key ${issuer} -subj /CN=issuer -out ${issuer}.crt`);
  openssl(`req -new -key ${issuer} -subj /CN=key -out ${subject}.csr`);
  openssl(
    `x509 -req -in ${subject}.csr -CA ${issuer}.crt -CAkey ${issuer} -force_pubkey ${subject} -out ${subject}.crt`,
  );
  return new X509Certificate(readFileSync(`${subject}.crt`));
}

function makeDevice(t: Test, peculiarity: ModuleFault | undefined) {
  const token = makeToken(t.testdir(), { label: 'vault', region: 'eu-west', keyLabel: 'production' });
  const device = behindFaulty(token, module);
  if (peculiarity !== undefined) setFault(device, peculiarity);
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

for (const fault of ['one-object', { oneObject: pkcs11.CKR_KEY_HANDLE_INVALID }] as const)
  t.test(`a pair that is a single object is destroyed at once (${JSON.stringify(fault)})`, async (t) => {
    const device = makeDevice(t, fault);
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

t.test('a signature that is longer than its buffer is refused', async (t) => {
  const device = makeDevice(t, undefined);
  const key = await initKey(device, 'ed25519');
  setFault(device, { forges: 'long' });
  await t.rejects(readKey(device), { message: /CKR_BUFFER_TOO_SMALL/ });
  setFault(device, undefined);
  t.strictSame(await readKey(device), key);
});

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

const CLASSES = { public: pkcs11.CKO_PUBLIC_KEY, private: pkcs11.CKO_PRIVATE_KEY };

/** Changes attributes of half of the pair. */
function changeHalf(device: PartitionOptions, half: keyof typeof CLASSES, changed: pkcs11.Template) {
  editToken(withoutFaults(device), (module, session) => {
    for (const object of findObjects(module, session, device.keyLabel, CLASSES[half]))
      module.C_SetAttributeValue(session, object, changed);
  });
}

t.test('the public half may have another label, if it has the CKA_ID of the private one', async (t) => {
  const device = makeDevice(t, undefined);
  const key = await initKey(device, 'ed25519');
  changeHalf(device, 'public', [{ type: pkcs11.CKA_LABEL, value: 'Public Key' }]);
  t.strictSame(await readKey(device), key);
  changeHalf({ ...device, keyLabel: 'Public Key' }, 'public', [
    { type: pkcs11.CKA_ID, value: Buffer.from('x') },
  ]);
  await t.rejects(readKey(device), {
    message: /only the private key .*\(public_key_missing\).*public_key_file/,
  });
  changeHalf(device, 'private', [{ type: pkcs11.CKA_ID, value: Buffer.from('x') }]);
  await destroyKey(device);
  t.strictSame(findAll(device, 'Public Key'), [], 'and is destroyed with it');
});

function findAll(device: PartitionOptions, label: string): Buffer[] {
  let found: Buffer[] = [];
  editToken(withoutFaults(device), (module, session) => {
    found = findObjects(module, session, label);
  });
  return found;
}

t.test('of two public keys of one label, the one with the CKA_ID of the private key counts', async (t) => {
  const device = makeDevice(t, undefined);
  const key = await initKey(device, 'ed25519');
  const other = { ...device, keyLabel: 'other' };
  await initKey(other, 'ed25519');
  changeHalf(other, 'public', [{ type: pkcs11.CKA_LABEL, value: device.keyLabel }]);
  t.strictSame(await readKey(device), key);
  t.match(await initKey(other, 'ed25519').catch(String), /key_exists/);
});

t.test('a certificate on the token stands in for the public key', async (t) => {
  const device = makeDevice(t, 'no-public');
  const key = await initKey(device, 'ecdsa-p256');
  await t.rejects(readKey(device), { message: /public_key_missing/ });
  const certificate = certifyKey(t.testdirName, key.spki);
  editToken(withoutFaults(device), (module, session) => {
    const [half] = findObjects(module, session, device.keyLabel, CLASSES.private);
    const [id] = module.C_GetAttributeValue(session, half ?? Buffer.alloc(0), [{ type: pkcs11.CKA_ID }]);
    module.C_CreateObject(session, [
      { type: pkcs11.CKA_CLASS, value: pkcs11.CKO_CERTIFICATE },
      { type: pkcs11.CKA_CERTIFICATE_TYPE, value: 0 },
      { type: pkcs11.CKA_TOKEN, value: true },
      { type: pkcs11.CKA_PRIVATE, value: false },
      { type: pkcs11.CKA_LABEL, value: 'Certificate' },
      { type: pkcs11.CKA_ID, value: id?.value ?? Buffer.alloc(0) },
      { type: pkcs11.CKA_SUBJECT, value: Buffer.from('3000', 'hex') },
      { type: pkcs11.CKA_VALUE, value: certificate.raw },
    ]);
  });
  t.strictSame(await readKey(device), key);
  t.match(await inspectKey(device), { exposures: [] });
});

t.test('a file stands in for the public key, as a key or as a certificate', async (t) => {
  const device = makeDevice(t, 'no-public');
  const key = await initKey(device, 'ecdsa-p256');
  const publicKeyFile = join(t.testdirName, 'key.pem');
  const withFile = { ...device, publicKeyFile };
  writeFileSync(publicKeyFile, `-----BEGIN PUBLIC KEY-----\n${key.spki}\n-----END PUBLIC KEY-----\n`);
  t.strictSame(await readKey(withFile), key);
  writeFileSync(publicKeyFile, certifyKey(t.testdirName, key.spki).toString());
  t.strictSame(await readKey(withFile), key);
  const other = await initKey({ ...device, keyLabel: 'other' }, 'ecdsa-p256');
  writeFileSync(publicKeyFile, certifyKey(t.testdirName, other.spki).toString());
  await t.rejects(readKey(withFile), { message: /key_unpaired/ });
  writeFileSync(publicKeyFile, 'no PEM');
  await t.rejects(readKey(withFile), {
    message: /cannot read a public key from .*key\.pem.*public_key_unusable/,
  });
  await t.rejects(readKey({ ...device, publicKeyFile: '/nonexistent.pem' }), {
    message: /cannot read a public key from \/nonexistent\.pem \(no such file or directory\)/,
  });
});

t.test('a daemon needs no public key on the token: it knows that of the log', async (t) => {
  const site = await makeSite(t, 'ed25519');
  const device = behindFaulty(item(site.tokens, 0), module);
  setFault(device, 'no-public');
  const partitions = await site.open({ partitions: [device] });
  await allReady(partitions);
  t.strictSame(statesOf(partitions), ['ready']);
});

t.test('a pair without its private half is named', async (t) => {
  const device = makeDevice(t, undefined);
  await initKey(device, 'ed25519');
  setFault(device, 'no-private');
  await t.rejects(readKey(device), {
    message: /the token has only the public key of that label \(private_key_missing\); restore both halves/,
  });
});

t.test('a key that could not be made, or does not sign, leaves nothing behind', async (t) => {
  const device = makeDevice(t, 'half-made');
  await t.rejects(initKey(device, 'ed25519'), { message: /CKR_DEVICE_MEMORY/ });
  t.strictSame(findAll(device, device.keyLabel), []);
  setFault(device, { fails: 'C_Sign', with: pkcs11.CKR_DEVICE_ERROR });
  await t.rejects(initKey(device, 'ed25519'), { message: /CKR_DEVICE_ERROR/ });
  t.strictSame(findAll(device, device.keyLabel), []);
  setFault(device, undefined);
  await initKey(device, 'ed25519');
});

t.test('a key that demands the PIN for each signature gets it each time, in each session', async (t) => {
  const { device, open } = await makeCarefulSite(t);
  const partitions = await open();
  const before = logins(device);
  const signer = item(partitions.signers, 0);
  const many = await Promise.all(Array.from({ length: 6 }, () => signer.sign(bytesOrder(MESSAGE))));
  t.ok(many.every((signature) => signature !== undefined));
  t.equal(logins(device), before + 6);
  t.match(partitions.status(), [{ state: 'ready', sessions: 2, restarts: 0 }]);
});

t.test('a PIN that such a key refuses is presented once', async (t) => {
  const { device, open } = await makeCarefulSite(t);
  const partitions = await open();
  const pin = readFileSync(device.pinFile);
  writeFileSync(device.pinFile, 'wrong-pin');
  const signer = item(partitions.signers, 0);
  for (let n = 0; n < 2; n++) t.equal(await signer.sign(bytesOrder(MESSAGE)), undefined);
  await until('it is refused', () => partitions.status()[0]?.lastError === 'pin_refused');
  t.equal(refusedLogins(device), 1);
  writeFileSync(device.pinFile, pin);
  await allReady(partitions);
  t.equal(refusedLogins(device), 1);
});

async function makeCarefulSite(t: Test) {
  const site = await makeSite(t, 'ed25519');
  const device = { ...behindFaulty(item(site.tokens, 0), module), keyLabel: 'careful' };
  setFault(device, 'always-authenticate');
  const key = await initKey(device, 'ed25519');
  return { device, open: () => site.open({ partitions: [device], keys: [key] }) };
}

for (const [lacks, refusals] of [
  ['no-hashed-rsa', 0],
  ['no-plain-rsa', 1],
] as const) {
  t.test(`an RSA key signs in a token with one of the two mechanisms (${lacks})`, async (t) => {
    const device = makeDevice(t, lacks);
    const key = await initKey(device, 'rsa-2048');
    const sign = (message: Buffer) => useKey(device, (_, sign) => sign(message));
    t.ok(verifierOf(key)(MESSAGE, await sign(MESSAGE)));
    t.equal(faultsPlayed(device, 'no-mechanism'), 2 * refusals, 'each signer asks once');
  });
}
