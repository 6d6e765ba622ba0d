import { chmodSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import pkcs11 from 'pkcs11js';
import t from 'tap';
import { OperatorError } from '../../src/base/errors.ts';
import { initKey, readKey } from '../../src/kms/keyOperations.ts';
import { CLASSICAL_ALGORITHMS } from '../../src/log/verifierKey.ts';
import { findModule, makeToken } from '../support/partitions.ts';
import { destroyKey, editToken, findObjects, mismatchHalves } from '../support/tamper.ts';

const NAMES = { label: 'vault', region: 'eu-west-1', keyLabel: 'log-2026' };

for (const algorithm of CLASSICAL_ALGORITHMS) {
  t.test(`${algorithm}: a key is made once, read back, and cannot leave the token`, async (t) => {
    const token = makeToken(t.testdir(), NAMES);
    const key = await initKey(token, algorithm);
    t.match(key, { region: 'eu-west-1', keyLabel: 'log-2026', algorithm, spki: /^M[A-Za-z0-9+/]+=*$/ });
    t.strictSame(await readKey(token), key);

    await t.rejects(initKey(token, algorithm), { name: 'OperatorError', message: /key_exists/ });
    t.strictSame(await readKey(token), key, 'and the first one is still there');

    editToken(token, (module, session) => {
      const [key] = findObjects(module, session, 'log-2026', pkcs11.CKO_PRIVATE_KEY);
      if (key === undefined) throw new Error('no private key');
      const [sensitive, extractable] = module.C_GetAttributeValue(session, key, [
        { type: pkcs11.CKA_SENSITIVE },
        { type: pkcs11.CKA_EXTRACTABLE },
      ]);
      t.strictSame([sensitive?.value[0], extractable?.value[0]], [1, 0]);
      t.throws(() => module.C_GetAttributeValue(session, key, [{ type: pkcs11.CKA_VALUE }]), {
        message: 'CKR_ATTRIBUTE_SENSITIVE',
      });
    });
  });
}

t.test('a token can be named by its serial number', async (t) => {
  const { tokenLabel: _, ...token } = makeToken(t.testdir(), NAMES);
  let serial = '';
  editToken({ ...token, tokenLabel: 'vault' }, (module) => {
    const [slot] = module.C_GetSlotList(true);
    if (slot !== undefined) serial = module.C_GetTokenInfo(slot).serialNumber.trimEnd();
  });
  const key = await initKey({ ...token, tokenSerial: serial }, 'ed25519');
  t.strictSame(await readKey({ ...token, tokenSerial: serial, tokenLabel: 'vault' }), key);
  await t.rejects(readKey({ ...token, tokenSerial: '0000' }), { message: /serial 0000.*token_not_found/ });
  await t.rejects(readKey({ ...token, tokenSerial: serial, tokenLabel: 'other' }), {
    message: /token_not_found/,
  });
});

t.test('an error that needs an administrator names region, label and remedy', async (t) => {
  const token = makeToken(t.testdir(), NAMES);
  await initKey(token, 'ed25519');
  const pin = readFileSync(token.pinFile);

  const refuses = async (what: string, options: typeof token, expected: RegExp) => {
    const error: unknown = await readKey(options).catch((error) => error);
    if (!(error instanceof OperatorError)) throw new Error(`${what}: not refused`, { cause: error });
    t.match(error.message, expected, what);
    t.match(
      error.message,
      /^HSM partition eu-west-1 \(token "[a-z]+", key "[a-z0-9-]+"\)/,
      'names the partition',
    );
    t.notOk(error.message.includes(pin.toString().trim()), 'without the PIN');
  };

  await refuses(
    'module',
    { ...token, module: '/nonexistent.so' },
    /module_unusable.*kms\.partitions\.module/,
  );
  await refuses('no PKCS#11', { ...token, module: '/bin/true' }, /module_unusable/);
  await refuses('token', { ...token, tokenLabel: 'gone' }, /token_not_found/);
  await refuses('key', { ...token, keyLabel: 'log-2027' }, /key_not_found.*key_label/);
  await refuses('configuration', { ...token, environment: { SOFTHSM2_CONF: '/x' } }, /CKR_GENERAL_ERROR/);
  await refuses(
    'PIN file',
    { ...token, pinFile: `${token.pinFile}.gone` },
    /cannot open the PIN file \S*\.gone .*pin_file_unreadable.*correct the path/,
  );

  chmodSync(token.pinFile, 0o644);
  await refuses('open PIN file', token, /pin_file_exposed.*chmod/);
  chmodSync(token.pinFile, 0o600);

  writeFileSync(token.pinFile, 'wrong-pin');
  await refuses('wrong PIN', token, /CKR_PIN_INCORRECT.*no start and no command presents/);
  writeFileSync(token.pinFile, '1');
  await refuses('short PIN', token, /CKR_PIN_(INCORRECT|LEN_RANGE).*no start and no command presents/);
  writeFileSync(token.pinFile, pin);

  destroyKey(token);
  await refuses('destroyed key', token, /key_not_found.*backup/);
});

t.test('a module can be named by a symbolic link', async (t) => {
  const dir = t.testdir({ 'module.so': t.fixture('symlink', findModule()) });
  const token = makeToken(dir, NAMES);
  const key = await initKey(token, 'ed25519');
  t.strictSame(await readKey({ ...token, module: join(dir, 'module.so') }), key);
});

t.test('two tokens or two keys with the same name are refused', async (t) => {
  const dir = t.testdir();
  const token = makeToken(dir, NAMES);
  await initKey(token, 'ed25519');
  await initKey({ ...token, keyLabel: 'other' }, 'ecdsa-p256');
  editToken(token, (module, session) => {
    for (const object of findObjects(module, session, 'other')) {
      module.C_SetAttributeValue(session, object, [{ type: pkcs11.CKA_LABEL, value: 'log-2026' }]);
    }
  });
  await t.rejects(readKey(token), { name: 'OperatorError', message: /key_ambiguous.*unique/ });

  rmSync(token.pinFile);
  const again = makeToken(dir, NAMES);
  await t.rejects(readKey(again), { name: 'OperatorError', message: /token_ambiguous.*token_serial/ });
});

t.test('halves that do not belong together are detected by a signature', async (t) => {
  const token = makeToken(t.testdir(), NAMES);
  await initKey(token, 'ed25519');
  await initKey({ ...token, keyLabel: 'other' }, 'ed25519');
  mismatchHalves(token, 'other');
  await t.rejects(readKey(token), { name: 'OperatorError', message: /key_unpaired/ });
});
