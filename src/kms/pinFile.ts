import { readFileSync } from 'node:fs';
import { type SecretFault, withSecretFile } from '../base/secretFile.ts';
import { systemReason } from '../base/systemReason.ts';
import type { TokenOptions } from './protocol.ts';
import { SignerFailure } from './signerFailure.ts';

/** The name of a file with a secret in messages, and its maximum length: a wrong path is not read whole. */
interface SecretKind {
  code: 'pin_file' | 'key_file';
  name: string;
  bytesMax: number;
}

/** The limit is more than any token's ulMaxPinLen. */
const PIN: SecretKind = { code: 'pin_file', name: 'the PIN file', bytesMax: 1024 };
/** PKCS#8 in PEM has at most 3.7 kB. */
const SOFTWARE_KEY: SecretKind = { code: 'key_file', name: 'the file of the software key', bytesMax: 8192 };

/**
 * Lets `use` read the PIN in `path` from the open file; `source` names the file to administrators. Throws SignerFailure
 * `pin_file_unreadable`, `pin_file_exposed` (others than owner and group have any access) or `pin_file_invalid`. Only the signer calls
 * this: the PIN never enters the process that talks to the network.
 */
export function withPinFile<Result>(path: string, source: string, use: (file: number) => Result): Result {
  return withSecret(path, source, PIN, use);
}

/** The error of {@link withPinFile} for an empty file, and for one whose text is not a PIN. */
export function pinFileUnfit(source: string, why: string): SignerFailure {
  return unfit(source, PIN, why);
}

/**
 * Returns the text of a software key, PKCS#8 in PEM. Throws like {@link withPinFile}, but `key_file_unreadable` and so on. Only the signer
 * calls this.
 */
export function readSoftwareKey(path: string, source = path): string {
  return withSecret(path, source, SOFTWARE_KEY, (file) => readFileSync(file, 'utf8'));
}

/** Throws the same errors as {@link withPinFile}, or {@link readSoftwareKey}, as far as they can be found without reading the file. */
export function inspectSecretFile({ module, pinFile, pinSource = pinFile }: TokenOptions): void {
  withSecret(pinFile, pinSource, module === undefined ? SOFTWARE_KEY : PIN, () => {});
}

function withSecret<Result>(
  path: string,
  source: string,
  kind: SecretKind,
  use: (file: number) => Result,
): Result {
  const { code, name, bytesMax } = kind;
  const failures: Record<SecretFault, (cause?: unknown) => SignerFailure> = {
    unreadable: (cause) =>
      new SignerFailure(`${code}_unreadable`, `cannot open ${name} ${source} (${systemReason(cause)})`),
    empty: () => unfit(source, kind, 'is empty'),
    not_small: () => unfit(source, kind, 'is not a small regular file'),
    exposed: () => new SignerFailure(`${code}_exposed`, `${name} ${source} is open to others`),
  };
  return withSecretFile(path, bytesMax, (fault, cause) => failures[fault](cause), use);
}

function unfit(source: string, { code, name }: SecretKind, why: string): SignerFailure {
  return new SignerFailure(`${code}_invalid`, `${name} ${source} ${why}`);
}
