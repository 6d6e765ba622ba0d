import pkcs11 from 'pkcs11js';

/** What a module and its token report about themselves (PKCS#11 2.40, section 3.2), for an administrator. */
export interface TokenDescription {
  module: { description: string; manufacturer: string; version: string; cryptoki: string };
  token: {
    label: string;
    serial: string;
    manufacturer: string;
    model: string;
    hardware: string;
    firmware: string;
    /** Names of the flags that are set, of those that concern the log-in. */
    flags: string[];
    /** Maximum number of sessions for one process; absent if the token reports none. */
    sessionsMax?: number;
  };
  /** Numbers of the mechanisms, such as `0x1057`. */
  mechanisms: string[];
}

const FLAGS = [
  'CKF_WRITE_PROTECTED',
  'CKF_LOGIN_REQUIRED',
  'CKF_USER_PIN_INITIALIZED',
  'CKF_PROTECTED_AUTHENTICATION_PATH',
  'CKF_USER_PIN_COUNT_LOW',
  'CKF_USER_PIN_FINAL_TRY',
  'CKF_USER_PIN_LOCKED',
  'CKF_USER_PIN_TO_BE_CHANGED',
] as const;

/** CK_UNAVAILABLE_INFORMATION and nonsense are beyond this; 0 is CK_EFFECTIVELY_INFINITE. */
const SESSIONS_REPORTED_MAX = 1_000_000;
const MECHANISMS_SHOWN_MAX = 1000;

/** Throws Pkcs11Error. */
export function describeToken(module: pkcs11.PKCS11, slot: Buffer): TokenDescription {
  const library = module.C_GetInfo();
  const token = module.C_GetTokenInfo(slot);
  const sessions = token.maxSessionCount;
  const isLimited = sessions > 0 && sessions < SESSIONS_REPORTED_MAX;
  return {
    module: {
      description: field(library.libraryDescription),
      manufacturer: field(library.manufacturerID),
      version: versionOf(library.libraryVersion),
      cryptoki: versionOf(library.cryptokiVersion),
    },
    token: {
      label: field(token.label),
      serial: field(token.serialNumber),
      manufacturer: field(token.manufacturerID),
      model: field(token.model),
      hardware: versionOf(token.hardwareVersion),
      firmware: versionOf(token.firmwareVersion),
      flags: FLAGS.filter((name) => (token.flags & pkcs11[name]) !== 0),
      ...(isLimited && { sessionsMax: sessions }),
    },
    mechanisms: module
      .C_GetMechanismList(slot)
      .slice(0, MECHANISMS_SHOWN_MAX)
      .map((mechanism) => `0x${mechanism.toString(16)}`),
  };
}

/** Text fields are padded with blanks; some modules pad with NUL. */
function field(text: string): string {
  return text.replaceAll('\0', ' ').trim();
}

function versionOf({ major, minor }: pkcs11.Version): string {
  return `${major}.${minor}`;
}
