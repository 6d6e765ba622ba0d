import pkcs11 from 'pkcs11js';
import { SignerFailure } from './failure.ts';
import type { TokenOptions } from './protocol.ts';

/** What a PKCS#11 function returned; undefined for any other failure. The binding wraps the errors of most functions only. */
export function asPkcs11Error(error: unknown): pkcs11.Pkcs11Error | undefined {
  if (error instanceof pkcs11.Pkcs11Error) return error;
  const isBare = error instanceof Error && /^CKR_\w+:\d+$/.test(error.message);
  return isBare ? new pkcs11.Pkcs11Error(error.message) : undefined;
}

/** The vendor's library, loaded and initialised. Throws SignerFailure `module_unusable`, or a Pkcs11Error. */
export function loadModule(path: string): pkcs11.PKCS11 {
  const module = new pkcs11.PKCS11();
  try {
    module.load(path);
  } catch (error) {
    throw new SignerFailure('module_unusable', `cannot load the PKCS#11 module: ${(error as Error).message}`);
  }
  module.C_Initialize();
  return module;
}

/**
 * The token and whether it has a log-in. Slots whose token cannot be read, such as a card of others, are passed over. Throws SignerFailure
 * `token_not_found` or `token_ambiguous`.
 */
export function findToken(
  module: pkcs11.PKCS11,
  { tokenLabel, tokenSerial }: TokenOptions,
): { slot: Buffer; hasLogin: boolean } {
  const tokens: { slot: Buffer; info: pkcs11.TokenInfo }[] = [];
  let unreadable: string | undefined;
  for (const slot of module.C_GetSlotList(true)) {
    try {
      tokens.push({ slot, info: module.C_GetTokenInfo(slot) });
    } catch (error) {
      const refusal = asPkcs11Error(error);
      if (refusal === undefined) throw error;
      unreadable = refusal.message;
    }
  }
  // Fields of CK_TOKEN_INFO are padded with blanks to a fixed length.
  const [found, second] = tokens.filter(
    ({ info }) =>
      (tokenSerial === undefined || info.serialNumber.trimEnd() === tokenSerial) &&
      (tokenLabel === undefined || info.label.trimEnd() === tokenLabel),
  );
  if (found === undefined) {
    const hint = unreadable === undefined ? '' : `, and one that cannot be read (${unreadable})`;
    throw new SignerFailure('token_not_found', `the module has no such token${hint}`);
  }
  if (second !== undefined) throw new SignerFailure('token_ambiguous', 'the module has several such tokens');
  return { slot: found.slot, hasLogin: (found.info.flags & pkcs11.CKF_LOGIN_REQUIRED) !== 0 };
}
