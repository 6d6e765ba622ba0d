import pkcs11 from 'pkcs11js';
import { openDatagramAddon } from '../base/journal.ts';
import { pinFileUnfit, withPinFile } from './pinFile.ts';
import type { TokenOptions } from './protocol.ts';
import { RefusedPins } from './refusedPins.ts';
import { isPinRefusal, SignerFailure } from './signerFailure.ts';

interface PinAddon {
  /**
   * Calls C_Login for the user with the unread rest of an open file as the PIN, in the module loaded from this path; but not with a PIN
   * whose digest under this salt is among `refused`, 32 bytes each. `result` is the CK_RV; if it is absent, nothing was presented: `unfit`
   * names the fault of the file, or `digest` is the refused one. `digest` also comes with a failure. `unlocked`: the reason why the memory
   * of the PIN could not be protected from swapping.
   */
  logIn(
    module: string,
    session: Buffer,
    file: number,
    salt: Buffer,
    refused: Buffer,
  ): { result?: number; digest?: Buffer; unfit?: string; unlocked?: string };
}

/**
 * Logs the user in, with one attempt at the PIN, and without any attempt at a PIN that the token refused before. The PIN never enters the
 * memory of JavaScript, which cannot be wiped. Throws SignerFailure as {@link withPinFile} and {@link RefusedPins} do, or for a PIN that
 * the token refuses, and Pkcs11Error.
 */
export async function logInWithPin(
  { libPath }: pkcs11.PKCS11,
  session: Buffer,
  token: TokenOptions,
  timeoutMs: number,
): Promise<void> {
  const addon = openDatagramAddon<PinAddon>();
  using refused = await RefusedPins.open(token, timeoutMs);
  // There is no await between the attempt and its record, so this process does not end in between, whatever is requested of it.
  attempt(token, refused, (file) => addon.logIn(libPath, session, file, refused.salt, refused.digests));
}

function attempt(
  { pinFile, pinSource = pinFile }: TokenOptions,
  refused: RefusedPins,
  logIn: (file: number) => ReturnType<PinAddon['logIn']>,
): void {
  const { result, digest, unfit, unlocked } = withPinFile(pinFile, pinSource, logIn);
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
  const name = nameOf(result);
  if (!isPinRefusal(name)) throw new pkcs11.Pkcs11Error(`${name}:${result}`, result, 'C_Login');
  if (digest === undefined) throw new Error('there is no memory to remember the refused PIN');
  refused.add(digest, name);
  throw new SignerFailure(name, `the token refused the PIN in ${pinSource}`);
}

/** The name that the binding gives to return values of other functions. */
function nameOf(result: number): string {
  const [name] =
    Object.entries(pkcs11).find(([name, value]) => name.startsWith('CKR_') && value === result) ?? [];
  return name ?? 'CKR_VENDOR_DEFINED';
}
