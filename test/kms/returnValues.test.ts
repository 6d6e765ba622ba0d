import pkcs11 from 'pkcs11js';
import t from 'tap';
import { RETURN_VALUES } from '../../src/kms/returnValues.ts';
import { SIGNER_REMEDIES } from '../../src/kms/signerFailure.ts';

/** Of functions that pdfseald does not call: encryption, wrapping, one-time passwords, saved states, the security officer. */
const UNUSED =
  /^CKR_(OK|CANCEL|NO_EVENT|ENCRYPTED_\w+|FUNCTION_NOT_PARALLEL|KEY_(NOT_NEEDED|CHANGED|NEEDED|INDIGESTIBLE|NOT_WRAPPABLE|UNEXTRACTABLE)|SIGNATURE_\w+|(UN)?WRAPP\w+|RANDOM_SEED_NOT_SUPPORTED|SAVED_STATE_INVALID|INFORMATION_SENSITIVE|STATE_UNSAVEABLE|NEW_PIN_MODE|NEXT_OTP|EXCEEDED_MAX_ITERATIONS|PIN_TOO_WEAK|PUBLIC_KEY_INVALID)$/;
/** PKCS#11 3.0, which the binding does not know by name, and what it says instead. */
const NEWER = ['CKR_CURVE_NOT_SUPPORTED', 'CKR_TOKEN_RESOURCE_EXCEEDED', 'CKR_VENDOR_DEFINED'];

t.test('each return value has a meaning and a remedy, in one table', (t) => {
  const known = Object.keys(pkcs11).filter((name) => name.startsWith('CKR_'));
  const wanted = new Set([...known.filter((name) => !UNUSED.test(name)), ...NEWER]);
  t.strictSame(Object.keys(RETURN_VALUES).toSorted(), [...wanted].toSorted());
  t.strictSame(
    Object.keys(SIGNER_REMEDIES).filter((code) => code.startsWith('CKR_')),
    [],
    'and in no other',
  );
  for (const [code, { means, remedy }] of Object.entries(RETURN_VALUES))
    for (const text of [means, remedy]) t.match(text, /^[^A-Z].*[^.]$/, code);
  t.end();
});
