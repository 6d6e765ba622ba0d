/** The tables of keys in the configuration: `[[kms.partitions]]` and `[[timestamp.keys]]`. */
import * as z from 'zod';
import { NAME_PATTERN } from '../base/names.ts';
import { SIGNATURE_ALGORITHMS } from '../log/verifierKey.ts';
import { choice, credential, omissible, path, pemFile, table, text, variables } from './keys.ts';

const module = path('the vendor\'s PKCS#11 module, such as "/usr/lib/softhsm/libsofthsm2.so"', {
  expected: 'the PKCS#11 module, readable to this user',
});

const UNIT_CREDENTIAL =
  'a systemd credential of this unit (LoadCredential=); outside of systemd set CREDENTIALS_DIRECTORY to its folder';

/** A key on a token. */
export const token = {
  region: text('a region name such as "eu-west" (lower case, digits, dashes)', NAME_PATTERN),
  module,
  tokenLabel: omissible(
    text('the label of the token (1 to 32 characters)', /^.{1,32}$/u),
    'set by token_serial',
  ),
  tokenSerial: omissible(
    text('the serial number of the token (1 to 16 characters)', /^.{1,16}$/u),
    'set by token_label',
  ),
  keyLabel: text(
    'a key label such as "seal-2026" (letters, digits, dots, dashes, underscores)',
    /^[\w.-]{1,64}$/,
  ),
  pinFile: omissible(
    path('the file that holds the PIN and nothing else', {
      expected: 'a file that holds the PIN and nothing else, readable to this user',
    }),
    'set by pin_credential',
  ),
  pinCredential: omissible(credential('the PIN', UNIT_CREDENTIAL), 'set by pin_file'),
  publicKeyFile: omissible(
    pemFile('the public key, or a certificate of it'),
    'the token has the public key, or a certificate of it',
  ),
  environment: omissible(variables),
  libraryParameters: omissible(
    text('the text that the module takes when it is initialised, as NSS does', /^[^\0]{1,4096}$/),
  ),
};

/** A key of the log: on a token, or in a file if the HSM has no post-quantum keys. */
export const partition = {
  ...token,
  module: omissible(module, 'the key is a software key'),
  algorithm: omissible(
    choice(`one of ${SIGNATURE_ALGORITHMS.join(', ')}`, SIGNATURE_ALGORITHMS),
    'set by --algorithm when a key is created, ed25519 or ecdsa-p256',
  ),
  softwareKeyFile: omissible(
    path('the file that holds a software key, created by `pdfseal hsm make-software-key`', {
      expected: 'a file that holds a software key and nothing else, readable to this user',
    }),
    'the key is on a token',
  ),
  softwareKeyCredential: omissible(credential('a software key', UNIT_CREDENTIAL), 'set by software_key_file'),
};

/** At most sixteen tables of that shape; `expected` describes them to people. */
export function partitions<S extends Record<string, z.ZodType>>(shape: S, expected: string, min: number) {
  const [header] = /\[\[[\w.]+\]\]/.exec(expected) ?? [];
  return z
    .array(table(shape), { error: expected })
    .min(min, { error: `${expected}, at least one` })
    .max(16, { error: `at most 16 ${header} tables` });
}
