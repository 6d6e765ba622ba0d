import { createPublicKey, verify } from 'node:crypto';
import pkcs11 from 'pkcs11js';
import t from 'tap';
import { EC_PARAMS, encodeRsaSpki } from '../../src/kms/encoding.ts';
import { parsePublicKey } from '../../src/kms/keyAlgorithm.ts';
import { initKey, inspectKey, readKey, useKey } from '../../src/kms/keyOperations.ts';
import { bytesOrder } from '../../src/kms/order.ts';
import { openPartitions } from '../../src/kms/partitions.ts';
import { item, makeSite, makeToken } from '../support/partitions.ts';
import { editToken, findObjects, mismatchHalves } from '../support/tamper.ts';

const NAMES = { label: 'vault', region: 'eu-west-1', keyLabel: 'authority-2026' };
const MESSAGE = Buffer.from('a structure in DER');

t.test(
  'an RSA key of 3072 bits is made, proven, signs for a moment, and cannot leave the token',
  async (t) => {
    const token = makeToken(t.testdir(), NAMES);
    const key = await initKey(token, 'rsa-3072');
    t.match(key, { region: 'eu-west-1', keyLabel: 'authority-2026', algorithm: 'rsa-3072' });
    const signature = await useKey(token, async (found, sign) => {
      t.strictSame(found, key);
      return sign(MESSAGE);
    });
    const publicKey = createPublicKey({ key: Buffer.from(key.spki, 'base64'), format: 'der', type: 'spki' });
    t.equal(publicKey.asymmetricKeyDetails?.modulusLength, 3072);
    t.ok(verify('sha256', MESSAGE, publicKey, signature));

    await t.rejects(
      readKey(token),
      { name: 'OperatorError', message: /key_unsupported/ },
      'but signs no log',
    );
    await t.rejects(initKey(token, 'rsa-3072'), { message: /key_exists/ });
    editToken(token, (module, session) => {
      const privateKey = item(findObjects(module, session, token.keyLabel, pkcs11.CKO_PRIVATE_KEY), 0);
      t.throws(
        () => module.C_GetAttributeValue(session, privateKey, [{ type: pkcs11.CKA_PRIVATE_EXPONENT }]),
        {
          message: 'CKR_ATTRIBUTE_SENSITIVE',
        },
      );
    });
  },
);

t.test('a failure of the key is distinguished from an error of its user', async (t) => {
  const token = makeToken(t.testdir(), NAMES);
  await initKey(token, 'ecdsa-p256');
  const mistake = new RangeError('of the user');
  await t.rejects(
    useKey(token, async () => {
      throw mistake;
    }),
    mistake,
  );
  await initKey({ ...token, keyLabel: 'other' }, 'ecdsa-p256');
  mismatchHalves(token, 'other');
  await t.rejects(
    useKey(token, async () => t.fail('used')),
    { name: 'OperatorError', message: /key_unpaired/ },
  );
});

t.test('an RSA key of another size is refused', async (t) => {
  const token = makeToken(t.testdir(), NAMES);
  editToken(token, (module, session) => {
    const label = { type: pkcs11.CKA_LABEL, value: token.keyLabel };
    const common = [label, { type: pkcs11.CKA_TOKEN, value: true }];
    const size = { type: pkcs11.CKA_MODULUS_BITS, value: 2560 };
    const exponent = { type: pkcs11.CKA_PUBLIC_EXPONENT, value: Buffer.from([1, 0, 1]) };
    const mechanism = { mechanism: pkcs11.CKM_RSA_PKCS_KEY_PAIR_GEN };
    module.C_GenerateKeyPair(session, mechanism, [...common, size, exponent], common);
  });
  await t.rejects(
    useKey(token, async () => t.fail('used')),
    { message: /an RSA key of 2560 bits.*RSA of 2048, 3072 or 4096 bits/ },
  );
  t.throws(() => parsePublicKey(encodeRsaSpki(Buffer.alloc(0), Buffer.from([1, 0, 1]))), RangeError);
});

t.test('each partition of an authority signs by itself', async (t) => {
  const site = await makeSite(t, 'ecdsa-p256', 'ecdsa-p256');
  const rsa = { ...item(site.tokens, 0), keyLabel: 'authority' };
  const key = await initKey(rsa, 'rsa-3072');
  const partitions = await openPartitions({
    partitions: [rsa, item(site.tokens, 1)],
    keys: [key, { ...item(site.keys, 1), algorithm: 'ecdsa-p256' as const }],
    quorum: { needed: 1 },
    duties: { anything: true },
    sessions: 2,
    signTimeoutMs: 60_000,
    logger: site.logger,
  });
  t.teardown(() => partitions.close());
  for (const signer of partitions.signers) {
    t.ok(signer.ready);
    const signature = (await signer.sign(bytesOrder(MESSAGE))) ?? Buffer.alloc(0);
    const publicKey = createPublicKey({
      key: Buffer.from(signer.key.spki, 'base64'),
      format: 'der',
      type: 'spki',
    });
    t.ok(verify('sha256', MESSAGE, publicKey, signature), signer.key.algorithm);
  }
  await partitions.close();
  t.equal(await item(partitions.signers, 0).sign(bytesOrder(MESSAGE)), undefined, 'none once closed');
});

t.test('the protection of a key is reported as the token states it', async (t) => {
  const token = makeToken(t.testdir(), NAMES);
  const key = await initKey(token, 'ecdsa-p256');
  t.strictSame(await inspectKey(token), { ...key, exposures: [], wasAlwaysInside: true });

  const open = { ...token, keyLabel: 'open' };
  editToken(token, (module, session) => {
    const common = [
      { type: pkcs11.CKA_LABEL, value: 'open' },
      { type: pkcs11.CKA_TOKEN, value: true },
    ];
    const curve = { type: pkcs11.CKA_EC_PARAMS, value: EC_PARAMS['ecdsa-p256'] };
    module.C_GenerateKeyPair(
      session,
      { mechanism: pkcs11.CKM_EC_KEY_PAIR_GEN },
      [...common, curve],
      [
        ...common,
        { type: pkcs11.CKA_SIGN, value: true },
        { type: pkcs11.CKA_SENSITIVE, value: false },
        { type: pkcs11.CKA_EXTRACTABLE, value: true },
      ],
    );
  });
  t.match(await inspectKey(open), {
    keyLabel: 'open',
    algorithm: 'ecdsa-p256',
    exposures: ['CKA_SENSITIVE = false', 'CKA_EXTRACTABLE = true'],
    wasAlwaysInside: false,
  });
  await t.rejects(inspectKey({ ...token, keyLabel: 'none' }), {
    name: 'OperatorError',
    message: /key_not_found/,
  });
});
