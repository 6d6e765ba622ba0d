/**
 * Remembers which PINs tokens refused, as long as this process lives. Several keys may be on one token, which counts the refused log-ins
 * of all of them together and locks itself after a few: so a PIN that the token refused is not tried again.
 */

import { type InTurn, takingTurns } from '../base/inTurn.ts';
import { pinFileVersion } from './pinFile.ts';
import type { TokenOptions } from './protocol.ts';
import { isPinRefusal, SignerFailure, toSignerFailure } from './signerFailure.ts';

/** By token: the version of the PIN file it refused. */
const refused = new Map<string, string>();
/** By token: two log-ins at once would be two attempts. */
const turns = new Map<string, InTurn>();

/**
 * Logs in, after all earlier log-ins to the same token. Throws what `logIn` throws; throws SignerFailure `pin_refused` without calling it
 * while the PIN file is the one that the token refused.
 */
export function logInOnce(token: TokenOptions, logIn: () => Promise<null>): Promise<null> {
  const name = nameOf(token);
  const inTurn = turns.get(name) ?? takingTurns();
  turns.set(name, inTurn);
  return inTurn(() => attempt(name, token, logIn));
}

async function attempt(name: string, token: TokenOptions, logIn: () => Promise<null>): Promise<null> {
  const version = refused.get(name);
  if (version !== undefined && version === (await pinFileVersion(secretOf(token)))) {
    const detail = `the PIN in ${token.pinSource ?? token.pinFile} was refused already, and is not tried again`;
    throw new SignerFailure('pin_refused', detail, version);
  }
  try {
    return await logIn();
  } catch (error) {
    const failure = toSignerFailure(error);
    if (!isPinRefusal(failure.code)) throw failure;
    const tried = token.signer === undefined ? failure.pinFileVersion : await pinFileVersion(token.signer);
    if (tried !== undefined) refused.set(name, tried);
    throw new SignerFailure(failure.code, failure.detail, tried);
  }
}

/** What changes when the PIN does: its file, or where a unit has it, the socket of the unit, which is restarted then. */
export function secretOf({ signer, pinFile }: TokenOptions): string {
  return signer ?? pinFile;
}

function nameOf(token: TokenOptions): string {
  const { module, tokenLabel, tokenSerial, environment } = token;
  return JSON.stringify([module, tokenLabel, tokenSerial, secretOf(token), environment]);
}
