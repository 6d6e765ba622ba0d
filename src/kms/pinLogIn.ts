import pkcs11 from 'pkcs11js';
import { openDatagramAddon } from '../base/journal.ts';
import { pinFileUnfit, withPinFile } from './pinFile.ts';
import type { TokenOptions } from './protocol.ts';
import { RefusedPins } from './refusedPins.ts';
import { isPinRefusal, SignerFailure } from './signerFailure.ts';

interface PinAddon {
  /**
   * C_Login of the user with what is left to read in an open file as the PIN, in a module that is loaded by this path; not with a PIN whose
   * digest under this salt is one of those, 32 bytes each. `result` is the CK_RV; if it is absent, nothing was presented: `unfit` says what is wrong
   * with the file, or `digest` is the one that is known. `digest` also comes with a failure. `unlocked`: why the memory of the PIN could not be kept
   * from being swapped.
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
 * Logs the user in, with one attempt at the PIN, and with none at a PIN that the token refused before. The PIN never enters the memory of
 * JavaScript, which cannot be wiped. Throws SignerFailure as {@link withPinFile} and {@link RefusedPins} do, or of a PIN that the token refuses, and
 * Pkcs11Error.
 */
export async function logInWithPin(
  { libPath }: pkcs11.PKCS11,
  session: Buffer,
  token: TokenOptions,
  timeoutMs: number,
): Promise<void> {
  const addon = openDatagramAddon<PinAddon>();
  using refused = await RefusedPins.open(token, timeoutMs);
  // Nothing is awaited from the attempt until it is remembered: this process does not end in between, whatever is asked of it.
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

/** As the binding names what other functions return. */
function nameOf(result: number): string {
  const [name] =
    Object.entries(pkcs11).find(([name, value]) => name.startsWith('CKR_') && value === result) ?? [];
  return name ?? 'CKR_VENDOR_DEFINED';
}
