import type { TokenOptions } from './protocol.ts';
import { RETURN_VALUES } from './returnValues.ts';

/**
 * The reason why a partition could not do what was requested. `code` is a return value of PKCS#11 (`CKR_…`) or one of our own, in lower
 * case; `detail` is for logs and administrators, never for callers, and never contains the PIN.
 */
export class SignerFailure extends Error {
  readonly code: string;
  readonly detail: string;

  constructor(code: string, detail: string) {
    super(`${code}: ${detail}`);
    this.name = 'SignerFailure';
    this.code = code;
    this.detail = detail;
  }
}

/** Converts any thrown value to a failure; a value that is not one already is reported by its name and text. */
export function toSignerFailure(error: unknown): SignerFailure {
  return error instanceof SignerFailure ? error : new SignerFailure('signer_error', String(error));
}

const PIN_REFUSALS = new Set([
  'CKR_PIN_INCORRECT',
  'CKR_PIN_INVALID',
  'CKR_PIN_LEN_RANGE',
  'CKR_PIN_EXPIRED',
  'CKR_PIN_LOCKED',
  // Our own codes: the token did not accept this PIN, now or before; or it has one attempt left.
  'pin_refused',
  'pin_final_try',
]);

/** Another attempt with the same PIN would bring the token nearer to being locked, so none is made. */
export function isPinRefusal(code: string): boolean {
  return PIN_REFUSALS.has(code);
}

/** The signer will not sign the log's request: it shows another history than the signer has signed, or too many trees were given up. */
export function isRefusal(code: string): boolean {
  return REFUSALS.has(code);
}

const REFUSALS = new Set([
  'tree_unknown',
  'tree_inconsistent',
  'trees_abandoned',
  'signing_refused',
  'time_refused',
  'token_not_allowed',
  'tree_file_damaged',
  'tree_file_unusable',
]);

/** Another process signs with these keys, and holds the record of what they signed. */
export function isTaken({ code }: Pick<SignerFailure, 'code'>): boolean {
  return code === 'signer_twice';
}

/** Neither the token nor the key is at fault: only the PIN, or the file that holds it or a software key. */
export function isPinTrouble({ code }: Pick<SignerFailure, 'code'>): boolean {
  return isPinRefusal(code) || /^(pin|key)_file_/.test(code) || code === 'CKR_USER_PIN_NOT_INITIALIZED';
}

const FORKED =
  'the store may be an older copy, or of another log: restore the newest backup. To continue the log as it is, stop the daemon and run `pdfseal hsm reset-signers`';

/** Remedies for failures that do not pass by waiting. A code missing here is worth a retry. */
export const SIGNER_REMEDIES: Readonly<Record<string, string>> = {
  module_unusable: 'check kms.partitions.module and that the file is a PKCS#11 library for this machine',
  pin_final_try:
    'correct the PIN file if it is wrong; then log in once with the vendor’s tool and the right PIN, which resets the count of the token. pdfseald never makes the last attempt',
  token_ambiguous: 'name it by token_serial instead of token_label',
  key_not_found: 'restore the key from its backup, or correct key_label',
  private_key_missing: 'restore both halves of the pair from the same backup, or correct key_label',
  public_key_missing:
    'write the public key, or a certificate of it, into a file in PEM, and name the file in public_key_file',
  public_key_unusable:
    'public_key_file must name a file with the public key of the token, or a certificate of it, in PEM',
  key_parts_left: 'remove them with the tools of the vendor, or choose another key_label',
  key_ambiguous: 'key labels must be unique on a token: rename or remove the other key',
  key_changed: 'restore the key that the log knows, or plan an epoch with another key',
  key_unpaired: 'restore both halves of the pair from the same backup',
  key_exists: 'choose another key_label, or remove that key if nothing was ever signed with it',
  key_unsupported:
    'a key of the log must be Ed25519, ECDSA on P-256, or ML-DSA-44; one for certificates and time-stamps ECDSA on P-256 or P-384, or RSA of 2048, 3072 or 4096 bits',
  key_in_file:
    'create a software key with `pdfseal hsm make-software-key`; to destroy one, remove its file and its copies',
  key_unprotected: 'the token created an extractable key; the key was removed again',
  tree_unknown: FORKED,
  tree_inconsistent: FORKED,
  signer_twice:
    'another daemon signs with these keys: find it, and stop one of the two. A copy of an installation must not use the signers of the original',
  tree_file_damaged: 'reset the signers: stop the daemon and run `pdfseal hsm reset-signers`',
  tree_file_unusable: 'give the signer its folder, writable only for its user',
  token_not_allowed: 'the unit of the signer has another configuration: restart it',
  pin_file_unreadable: 'correct the path or the permissions: the daemon reads it as its own user',
  pin_file_exposed: 'remove the access of others: chmod o= on the PIN file',
  pin_file_invalid: 'it must contain only the PIN, in one line',
  pin_record_unusable: 'make the folder writable for the user of the signer, and free space on its disk',
  key_file_unreadable:
    'correct the path or the permissions: the daemon reads it as its own user; `pdfseal hsm make-software-key` creates a new one',
  key_file_exposed: 'remove the access of others: chmod o= on the file',
  key_file_invalid: 'it must contain only a key that `pdfseal hsm make-software-key` created',
};

const PIN_REMEDY =
  'correct the PIN file: no start and no command presents this PIN again. If the PIN is right now, for example because it was reset in the token: `pdfseal hsm retry-pin`';

/** The remedy for a failure that an administrator must correct; undefined for one that may pass by itself. */
export function signerRemedy({ code }: Pick<SignerFailure, 'code'>): string | undefined {
  const ofCode = LASTING.has(code) ? RETURN_VALUES[code]?.remedy : undefined;
  return SIGNER_REMEDIES[code] ?? ofCode ?? (isPinRefusal(code) ? PIN_REMEDY : undefined);
}

/** Return values of PKCS#11 that do not pass by waiting, in addition to refusals of a PIN. */
const LASTING = new Set(['CKR_PIN_LOCKED', 'CKR_USER_PIN_NOT_INITIALIZED']);

/** The remedy for any failure; for one that may pass by itself, in case that it does not. */
export function signerAdvice(failure: Pick<SignerFailure, 'code'>): string {
  return signerRemedy(failure) ?? RETURN_VALUES[failure.code]?.remedy ?? RECONNECT;
}

const RECONNECT = 'check that the token is connected and its module configured';

const RESTART = '; a running daemon sees it once it is restarted, for credentials are handed out at a start';

/** One line for an administrator: the partition, the fault, the remedy. */
export function describeFailure(region: string, token: TokenOptions, failure: SignerFailure): string {
  const remedy = signerAdvice(failure);
  // The unit of a signer gets the file again for each attempt.
  const isHeld = token.pinSource !== undefined && token.signer === undefined;
  const restart = isPinTrouble(failure) && isHeld ? RESTART : '';
  return `HSM partition ${region} (${nameToken(token)}, key "${token.keyLabel}"): ${failure.detail} (${failure.code}); ${remedy}${restart}`;
}

function nameToken({ module, tokenLabel, tokenSerial }: TokenOptions): string {
  if (module === undefined) return 'software';
  return `token ${tokenLabel === undefined ? `serial ${tokenSerial}` : `"${tokenLabel}"`}`;
}
