import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject, sign } from 'node:crypto';
import { toBase64 } from '../base/bytes.ts';
import type { TokenPublicKey } from './keyAlgorithm.ts';
import { readSoftwareKey } from './pinFile.ts';
import type { KeyProtection, OpenedSessions, TokenOptions } from './protocol.ts';
import { SignerFailure } from './signerFailure.ts';

/** Makes a new ML-DSA-44 key: PKCS#8 in PEM, with the seed (RFC 9881, section 6). */
export function makeSoftwareKey(): string {
  const { privateKey } = generateKeyPairSync('ml-dsa-44');
  return privateKey.export({ format: 'pem', type: 'pkcs8' }).toString();
}

/**
 * A post-quantum key in a file, for an HSM without such keys: replaces a token, and a session that has logged in. Lives in the signer's
 * process only, so the key never enters the process that talks to the network.
 */
export class SoftwareToken {
  readonly opened: OpenedSessions;
  readonly #options: TokenOptions;
  #key: SoftwareKey | undefined;

  /** Signs as many messages at the same time as the tokens do: each takes a millisecond. */
  constructor(options: TokenOptions, sessions: number) {
    this.opened = { sessions };
    this.#options = options;
  }

  /** Reads the file. Throws SignerFailure `key_file_…`. */
  logIn(): void {
    const { pinFile, pinSource = pinFile } = this.#options;
    const text = readSoftwareKey(pinFile, pinSource);
    const key = parsePrivateKey(text);
    if (key?.asymmetricKeyType !== 'ml-dsa-44')
      throw new SignerFailure('key_file_invalid', `${pinSource} holds no ML-DSA-44 key (PKCS#8 in PEM)`);
    this.#key = new SoftwareKey(key);
  }

  findKey(): SoftwareKey {
    if (this.#key === undefined) throw new SignerFailure('key_not_found', 'the file was not read');
    return this.#key;
  }

  describe(): never {
    throw new SignerFailure('key_in_file', 'a software key is in no token');
  }

  generateKey(): never {
    throw new SignerFailure('key_in_file', 'software keys cannot be created here');
  }

  destroyKey(): never {
    throw new SignerFailure('key_in_file', 'a software key is not destroyed here');
  }

  close(): void {
    this.#key = undefined;
  }
}

/** The counterpart of TokenKey for a software key. */
export class SoftwareKey {
  readonly publicKey: TokenPublicKey;
  readonly #privateKey: KeyObject;

  constructor(privateKey: KeyObject) {
    this.#privateKey = privateKey;
    const spki = createPublicKey(privateKey).export({ format: 'der', type: 'spki' });
    this.publicKey = { algorithm: 'mldsa44', spki: toBase64(spki), software: true };
  }

  /** The key is labelled `software` wherever it is named, so there is nothing more to report here. */
  inspect(): KeyProtection {
    return { exposures: [], wasAlwaysInside: false };
  }

  async sign(message: Uint8Array): Promise<Uint8Array> {
    return sign(null, message, this.#privateKey);
  }
}

function parsePrivateKey(text: string): KeyObject | undefined {
  try {
    return createPrivateKey(text);
  } catch {
    return undefined; // not PEM, or encrypted
  }
}
