import { accessSync, constants } from 'node:fs';
import pkcs11 from 'pkcs11js';
import { DATAGRAM_ADDON, openDatagramAddon } from '../base/journal.ts';
import { systemReason } from '../base/systemReason.ts';
import type { TokenOptions } from './protocol.ts';
import { SignerFailure } from './signerFailure.ts';

/** Enough to find a typing error; a shared HSM may have hundreds of tokens. */
const TOKENS_NAMED_MAX = 16;

/**
 * The error value that a PKCS#11 function returned; undefined for any other failure. The binding wraps the errors of most functions only.
 */
export function asPkcs11Error(error: unknown): pkcs11.Pkcs11Error | undefined {
  if (error instanceof pkcs11.Pkcs11Error) return error;
  const isBare = error instanceof Error && /^CKR_\w+:\d+$/.test(error.message);
  return isBare ? new pkcs11.Pkcs11Error(error.message) : undefined;
}

/** The number of a code that is newer than PKCS#11 2.30, or the vendor's own: these have no name. */
export function numberOf({ message, code }: pkcs11.Pkcs11Error): string {
  return message === 'CKR_VENDOR_DEFINED' ? ` with 0x${code.toString(16)}` : '';
}

interface ModuleAddon {
  /** Loads the vendor's module, once for a process; the add-on itself is then a module with its functions. Throws Error. */
  loadModule(path: string): void;
  /** Returns the CK_RV of C_Initialize with these flags, and `parameters` in the place of pReserved. */
  initialize(flags: number, parameters?: string): number;
}

/**
 * The codes of modules that do not use the locks of the operating system (PKCS#11 2.40, section 5.4): CKR_CANT_LOCK says so, but some have
 * another code for arguments that they do not know.
 */
const LOCKING_REFUSALS = new Set<number>([
  pkcs11.CKR_CANT_LOCK,
  pkcs11.CKR_ARGUMENTS_BAD,
  pkcs11.CKR_NEED_TO_CREATE_THREADS,
]);

/**
 * Loads and initialises the vendor's library. `refusal` is the code with which it refuses calls from several threads at the same time;
 * absent if it allows them. Throws SignerFailure `module_unusable`, or the code with which the library refuses to start.
 */
export function loadModule(
  path: string,
  { environment = {}, libraryParameters }: Pick<TokenOptions, 'environment' | 'libraryParameters'>,
): { module: pkcs11.PKCS11; refusal?: string } {
  const addon = openDatagramAddon<ModuleAddon>();
  const module = new pkcs11.PKCS11();
  try {
    addon.loadModule(path);
    module.load(DATAGRAM_ADDON);
  } catch (error) {
    throw new SignerFailure(
      'module_unusable',
      `cannot load the PKCS#11 module ${path}: ${(error as Error).message}`,
    );
  }
  // Even for a single session: some modules refuse to start without the flag.
  const result = addon.initialize(pkcs11.CKF_OS_LOCKING_OK, libraryParameters);
  if (result === pkcs11.CKR_OK) return { module };
  if (LOCKING_REFUSALS.has(result) && addon.initialize(0, libraryParameters) === pkcs11.CKR_OK)
    return { module, refusal: resultName(result) };
  // The first code says why it does not start; the second one is often about the missing flag.
  const settings = describeSettings(environment, libraryParameters);
  const number = numberOf(asError(result, 'C_Initialize'));
  throw new SignerFailure(resultName(result), `the module refuses to start${number}: ${settings}`);
}

/** The error that the binding throws for this return value. */
export function asError(result: number, method: string): pkcs11.Pkcs11Error {
  return new pkcs11.Pkcs11Error(`${resultName(result)}:${result}`, result, method);
}

/** The name that the binding gives to return values. */
export function resultName(result: number): string {
  const [name] =
    Object.entries(pkcs11).find(([name, value]) => name.startsWith('CKR_') && value === result) ?? [];
  return name ?? 'CKR_VENDOR_DEFINED';
}

/** Describes the settings: a module that misses its own files reports only CKR_GENERAL_ERROR, and its variables name those files. */
function describeSettings(
  environment: Readonly<Record<string, string>>,
  libraryParameters: string | undefined,
): string {
  const named = Object.entries(environment).filter(([, value]) => value.startsWith('/'));
  if (named.length === 0 && libraryParameters === undefined)
    return 'it may miss its configuration, which a variable in `environment` names';
  const faults = named.flatMap(([name, path]) => {
    try {
      accessSync(path, constants.R_OK);
      return [];
    } catch (error) {
      return [`${name} names ${path}, which cannot be read (${systemReason(error)})`];
    }
  });
  if (faults.length > 0) return faults.join('; ');
  if (libraryParameters !== undefined)
    return 'check library_parameters: a folder or file named there may be missing, or not accessible to this user';
  return `check the contents of ${named.map(([, path]) => path).join(', ')}: folders named there may be missing, or not accessible to this user`;
}

/**
 * The token and whether it has a log-in. Slots whose token cannot be read, such as a foreign card, are skipped. Throws SignerFailure
 * `token_not_found` or `token_ambiguous`.
 */
export function findToken(
  module: pkcs11.PKCS11,
  { tokenLabel, tokenSerial }: TokenOptions,
): { slot: Buffer; hasLogin: boolean } {
  const tokens: { slot: Buffer; flags: number; label: string; serial: string }[] = [];
  let unreadable: string | undefined;
  for (const slot of module.C_GetSlotList(true)) {
    try {
      const { flags, label, serialNumber } = module.C_GetTokenInfo(slot);
      tokens.push({ slot, flags, label: withoutPadding(label), serial: withoutPadding(serialNumber) });
    } catch (error) {
      const refusal = asPkcs11Error(error);
      if (refusal === undefined) throw error;
      unreadable = refusal.message;
    }
  }
  const [found, second] = tokens.filter(
    ({ label, serial }) =>
      (tokenSerial === undefined || serial === tokenSerial) &&
      (tokenLabel === undefined || label === tokenLabel),
  );
  if (found === undefined) {
    const present = tokens.filter(({ flags }) => (flags & pkcs11.CKF_TOKEN_INITIALIZED) !== 0);
    const names = present.map(({ label, serial }) => `${JSON.stringify(label)} (serial ${serial})`);
    const others = unreadable === undefined ? [] : [`one that cannot be read (${unreadable})`];
    const there = [...names, ...others].slice(0, TOKENS_NAMED_MAX).join(', ') || 'none at all';
    const wanted = tokenLabel ?? `serial ${tokenSerial}`;
    throw new SignerFailure('token_not_found', `the module has no such token (${wanted}); there is ${there}`);
  }
  if (second !== undefined) throw new SignerFailure('token_ambiguous', 'the module has several such tokens');
  return { slot: found.slot, hasLogin: (found.flags & pkcs11.CKF_LOGIN_REQUIRED) !== 0 };
}

/** Fields of CK_TOKEN_INFO are padded with blanks to a fixed length; some modules pad with NUL. */
function withoutPadding(field: string): string {
  return field.replaceAll('\0', ' ').trimEnd();
}
