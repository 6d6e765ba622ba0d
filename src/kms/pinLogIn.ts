import pkcs11 from 'pkcs11js';
import { openDatagramAddon } from '../base/journal.ts';
import { asError, asPkcs11Error, numberOf } from './module.ts';
import { pinFileUnfit, withPinFile } from './pinFile.ts';
import type { TokenOptions } from './protocol.ts';
import { PIN_NOT_JUDGED, RefusedPins } from './refusedPins.ts';
import { isPinRefusal, SignerFailure } from './signerFailure.ts';

interface PinAddon {
  /**
   * Calls C_Login for this CK_USER_TYPE in each of these sessions of the loaded module, up to the first refusal, with the unread rest of an open
   * file as the PIN; but not with a PIN whose digest under this salt is among `refused`, 32 bytes each. `result` is the CK_RV, and
   * `accepted` whether the token took the PIN for a session before; if they are absent, nothing was presented: `unfit` names the fault of
   * the file, or `digest` is the refused one. `digest` also comes with a failure. `unlocked`: the reason why the memory of the PIN could not
   * be protected from swapping.
   */
  logIn(
    user: number,
    sessions: readonly Buffer[],
    file: number,
    salt: Buffer,
    refused: Buffer,
  ): { result?: number; accepted?: boolean; digest?: Buffer; unfit?: string; unlocked?: string };
}

/** The flags of CK_TOKEN_INFO that count wrong PINs (PKCS#11 2.40, section 3.2). */
const { CKF_USER_PIN_COUNT_LOW, CKF_USER_PIN_FINAL_TRY, CKF_USER_PIN_LOCKED } = pkcs11;
const { CKF_PROTECTED_AUTHENTICATION_PATH } = pkcs11;
const WRONG_PIN_FLAGS = CKF_USER_PIN_COUNT_LOW | CKF_USER_PIN_FINAL_TRY | CKF_USER_PIN_LOCKED;

/**
 * Logs the user in to all open sessions of a token, because some modules keep the log-in by session, with one attempt at the PIN. No
 * attempt is made at a PIN that the token refused before, and none that could be the last one before the token locks itself. The PIN never
 * enters the memory of JavaScript, which cannot be wiped. Throws SignerFailure as {@link withPinFile} and {@link RefusedPins} do, for a PIN
 * that the token refuses, `pin_final_try` and `CKR_PIN_LOCKED`; and Pkcs11Error. `user`: CKU_CONTEXT_SPECIFIC to let one session sign once
 * with a key that demands the PIN for each signature.
 */
export async function logInWithPin(
  module: pkcs11.PKCS11,
  { slot, sessions }: { slot: Buffer; sessions: readonly Buffer[] },
  token: TokenOptions,
  timeoutMs: number,
  user = pkcs11.CKU_USER,
): Promise<void> {
  const addon = openDatagramAddon<PinAddon>();
  const readFlags = () => module.C_GetTokenInfo(slot).flags;
  using refused = await RefusedPins.open(token, timeoutMs);
  // There is no await between the attempt and its record, so this process does not end in between, whatever is requested of it.
  attempt(token, refused, readFlags, (file) =>
    addon.logIn(user, sessions, file, refused.salt, refused.digests),
  );
}

function attempt(
  { pinFile, pinSource = pinFile }: TokenOptions,
  refused: RefusedPins,
  readFlags: () => number,
  logIn: (file: number) => ReturnType<PinAddon['logIn']>,
): void {
  const flags = readFlags();
  checkAttemptsLeft(flags);
  const hasPad = (flags & CKF_PROTECTED_AUTHENTICATION_PATH) !== 0;
  // If the module waits for a person, this is the last line in the log.
  if (hasPad) process.stderr.write(`${PIN_PAD}: the PIN in ${pinSource} is presented\n`);
  const { result, accepted, digest, unfit, unlocked } = withPinFile(pinFile, pinSource, logIn);
  if (unlocked !== undefined)
    process.stderr.write(
      `the memory that held the PIN for the log-in could have been swapped: ${unlocked}\n`,
    );
  if (unfit !== undefined) throw pinFileUnfit(pinSource, unfit);
  if (result === undefined) {
    const code = digest && refused.codeOf(digest);
    const detail = `the token refused the PIN in ${pinSource} before (${code}), and it is not presented again until the file changes`;
    throw new SignerFailure('pin_refused', detail);
  }
  if (result === pkcs11.CKR_OK) return;
  const error = asError(result, 'C_Login');
  const name = error.message;
  // A token that took the PIN for one session means something else when it refuses another one.
  const isJudged = isPinRefusal(name) || !(accepted || name in PIN_NOT_JUDGED);
  if (!isJudged && !hasCounted(flags, readFlags)) throw error;
  if (digest === undefined) throw new Error('there is no memory to remember the refused PIN');
  refused.add(digest, name);
  const pad = hasPad ? `. ${PIN_PAD}: it must accept a PIN from a program, too` : '';
  if (isPinRefusal(name)) throw new SignerFailure(name, `the token refused the PIN in ${pinSource}${pad}`);
  const detail = `the token did not accept the PIN in ${pinSource} (${name}${numberOf(error)}), and it is not presented again until the file changes${pad}`;
  throw new SignerFailure('pin_refused', detail);
}

const PIN_PAD = 'the token has a PIN pad, at which pdfseald asks nobody';

function checkAttemptsLeft(flags: number): void {
  if (flags & CKF_USER_PIN_LOCKED)
    throw new SignerFailure('CKR_PIN_LOCKED', 'the token reports that its PIN is locked; none was presented');
  if (flags & CKF_USER_PIN_FINAL_TRY)
    throw new SignerFailure(
      'pin_final_try',
      'the token locks itself after one more wrong PIN, so none was presented',
    );
  if (flags & CKF_USER_PIN_COUNT_LOW)
    process.stderr.write('a wrong PIN was presented to the token since the last log-in\n');
}

/** Whether the token counted the PIN as wrong, whatever its answer said. */
function hasCounted(flagsBefore: number, readFlags: () => number): boolean {
  try {
    return (readFlags() & ~flagsBefore & WRONG_PIN_FLAGS) !== 0;
  } catch (error) {
    if (asPkcs11Error(error) === undefined) throw error;
    return false;
  }
}
