import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject, sign } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { createFileAtomically } from '../base/atomicFile.ts';
import { fromEnvironment } from '../base/env.ts';
import { OperatorError } from '../base/errors.ts';
import { systemReason } from '../base/systemReason.ts';
import type { Cosigner } from '../log/cosignature.ts';
import { isKeyName } from '../log/note.ts';
import type { CosigningKey } from './witness.ts';

/** Precedes the key in PEM; PEM readers skip it. The key is useless under another name. */
const NAME_LINE = 'name: ';

/**
 * A key in a file: a line `name: <name of the witness>`, then Ed25519 in PKCS#8 and PEM, as written by `openssl genpkey -algorithm
 * ed25519`. Throws OperatorError.
 */
export function openKeyFile(path: string): CosigningKey {
  const text = readPrivateFile(path);
  const [first = ''] = text.split('\n', 1);
  if (!first.startsWith(NAME_LINE))
    throw new OperatorError(`${path}: the first line must be \`name: <name of the witness>\``);
  let key: KeyObject;
  try {
    key = createPrivateKey(text);
  } catch (cause) {
    throw new OperatorError(`${path} holds no private key in PEM`, { cause });
  }
  const cosigner = cosignerOf(first.slice(NAME_LINE.length).trim(), createPublicKey(key));
  return { cosigner, sign: async (message) => sign(null, message, key) };
}

/** Creates a new key. Throws OperatorError if the file exists. */
export function createKeyFile(path: string, name: string): Cosigner {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519');
  const cosigner = cosignerOf(name, publicKey);
  const pem = privateKey.export({ format: 'pem', type: 'pkcs8' });
  if (!createFileAtomically(path, `${NAME_LINE}${name}\n${pem}`, 0o600))
    throw new OperatorError(`cannot write ${path} (file already exists)`);
  return cosigner;
}

function readPrivateFile(path: string): string {
  try {
    // systemd controls who can read a credential; if it uses an access control list, the mode does not show that.
    const isCredential = dirname(path) === fromEnvironment('CREDENTIALS_DIRECTORY');
    const isOpenToOthers = !isCredential && (statSync(path).mode & 0o077) !== 0;
    if (isOpenToOthers) throw new OperatorError(`other users can read ${path}: run chmod 600 ${path}`);
    return readFileSync(path, 'utf8');
  } catch (cause) {
    if (cause instanceof OperatorError) throw cause;
    throw new OperatorError(`cannot read ${path} (${systemReason(cause)})`, { cause });
  }
}

/** The witness of that name with that public key. Throws OperatorError. */
export function cosignerOf(name: string, key: KeyObject): Cosigner {
  requireName(name);
  if (key.asymmetricKeyType !== 'ed25519')
    throw new OperatorError(`the key of a witness must be Ed25519, not ${key.asymmetricKeyType}`);
  const { x = '' } = key.export({ format: 'jwk' });
  return { name, algorithm: 'ed25519', key: Buffer.from(x, 'base64url') };
}

/** Throws OperatorError if notes cannot be signed under that name. */
export function requireName(name: string): void {
  if (/^[\x21-\x7e]+$/.test(name) && isKeyName(name)) return;
  throw new OperatorError(
    `the name ${JSON.stringify(name)} is empty, or has spaces, a plus or other than visible ASCII characters`,
  );
}
