import pkcs11 from 'pkcs11js';
import { openDatagramAddon } from '../base/journal.ts';
import { pinFileEmpty, withPinFile } from './pinFile.ts';
import { isPinRefusal, SignerFailure } from './signerFailure.ts';

interface PinAddon {
  /**
   * C_Login of the user with what is left to read in an open file as the PIN, in a module that is loaded by this path. `result` is the
   * CK_RV; absent: the file holds no PIN. `unlocked`: why its memory could not be kept from being swapped.
   */
  logIn(module: string, session: Buffer, file: number): { result?: number; unlocked?: string };
}

/**
 * Logs the user in, with one attempt at the PIN. The PIN never enters the memory of JavaScript, which cannot be wiped. Throws
 * SignerFailure as {@link withPinFile} does, or of a PIN that the token refuses, and Pkcs11Error.
 */
export function logInWithPin(
  { libPath }: pkcs11.PKCS11,
  session: Buffer,
  { pinFile, pinSource }: { pinFile: string; pinSource: string },
): void {
  const addon = openDatagramAddon<PinAddon>();
  withPinFile(pinFile, pinSource, (file, version) => {
    const { result, unlocked } = addon.logIn(libPath, session, file);
    if (result === undefined) throw pinFileEmpty(pinSource);
    if (unlocked !== undefined)
      process.stderr.write(
        `the memory that held the PIN for the log-in could have been swapped: ${unlocked}\n`,
      );
    if (result === pkcs11.CKR_OK) return;
    const name = nameOf(result);
    if (isPinRefusal(name))
      throw new SignerFailure(name, `the token refused the PIN in ${pinSource}`, version);
    throw new pkcs11.Pkcs11Error(`${name}:${result}`, result, 'C_Login');
  });
}

/** As the binding names what other functions return. */
function nameOf(result: number): string {
  const [name] =
    Object.entries(pkcs11).find(([name, value]) => name.startsWith('CKR_') && value === result) ?? [];
  return name ?? 'CKR_VENDOR_DEFINED';
}
