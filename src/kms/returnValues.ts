/** The meaning of a return value of PKCS#11 for an administrator, and what to do about it. */
export interface ReturnValue {
  means: string;
  remedy: string;
}

const AGAIN =
  'nothing, if it passes: pdfseald starts the signer again. Otherwise look at the log of the device';
const LACKS =
  'choose another algorithm: `pdfseal hsm acceptance` shows which ones the device has. For `mldsa44`, a software key is possible';
const TEMPLATE =
  'create the key with the vendor’s tool, then run `pdfseal init` or `pdfseal epochs plan` with `--use-existing-keys`';
const OTHER_KEY = 'let the device allow the key to sign, or create another one with `pdfseal hsm init-key`';
const CONNECT = 'connect the token, and check its cable, its slot or the network to it';
const OTHER_USER =
  'end the sessions of other programs, such as a tool in which the security officer is logged in';
const PIN =
  'correct the PIN file; if the PIN is right now, for example because it was reset in the token: `pdfseal hsm retry-pin`';
const IDLE = `${AGAIN}; raise its time-out for idle sessions`;
const REPORT =
  'report it, with the version of the module: pdfseald calls the module in a way that it does not accept';

/**
 * The return values of the functions that pdfseald calls (PKCS#11 2.40, section 5.1). A code is retried unless {@link signerRemedy} has a
 * remedy for it.
 */
export const RETURN_VALUES: Readonly<Record<string, ReturnValue>> = {
  CKR_HOST_MEMORY: {
    means: 'the module has too little memory',
    remedy: 'free memory on the machine, or raise the limit of the unit (MemoryMax=)',
  },
  CKR_SLOT_ID_INVALID: { means: 'the slot of the token disappeared', remedy: CONNECT },
  CKR_GENERAL_ERROR: {
    means:
      'the module or the device failed for a reason of its own; when the module starts, it often misses its configuration',
    remedy:
      'let the user of the daemon read the files that the message names, and check `environment`; otherwise look at the log of the device',
  },
  CKR_FUNCTION_FAILED: { means: 'the call failed for a reason that the module does not tell', remedy: AGAIN },
  CKR_ARGUMENTS_BAD: {
    means: 'the module does not accept how it is called; when it starts, it often misses its parameters',
    remedy: 'check `library_parameters` and `environment`',
  },
  CKR_NEED_TO_CREATE_THREADS: { means: 'the module cannot work without threads of its own', remedy: REPORT },
  CKR_CANT_LOCK: {
    means: 'the module cannot be used by several threads, so one message is signed at a time',
    remedy: 'nothing; `kms.sessions = 1` silences the warning',
  },
  CKR_ATTRIBUTE_READ_ONLY: { means: 'the token does not let an attribute be set', remedy: TEMPLATE },
  CKR_ATTRIBUTE_SENSITIVE: { means: 'the token does not reveal an attribute of the key', remedy: TEMPLATE },
  CKR_ATTRIBUTE_TYPE_INVALID: { means: 'the token does not know an attribute of the key', remedy: TEMPLATE },
  CKR_ATTRIBUTE_VALUE_INVALID: {
    means: 'the token refuses the value of an attribute, such as the curve',
    remedy: TEMPLATE,
  },
  CKR_TEMPLATE_INCOMPLETE: { means: 'the token wants more attributes for a new key', remedy: TEMPLATE },
  CKR_TEMPLATE_INCONSISTENT: {
    means: 'the token refuses the attributes of a new key, often by its own rules for keys',
    remedy: TEMPLATE,
  },
  CKR_DATA_INVALID: { means: 'the device refuses the data to be signed', remedy: LACKS },
  CKR_DATA_LEN_RANGE: { means: 'the device refuses the length of the data to be signed', remedy: LACKS },
  CKR_DEVICE_ERROR: { means: 'the device failed, or the connection to it', remedy: CONNECT },
  CKR_DEVICE_MEMORY: {
    means: 'the token has no room left',
    remedy: 'remove objects that are not needed, or lower `kms.sessions`',
  },
  CKR_DEVICE_REMOVED: { means: 'the token was removed', remedy: CONNECT },
  CKR_FUNCTION_CANCELED: { means: 'the device ended the call', remedy: AGAIN },
  CKR_FUNCTION_NOT_SUPPORTED: {
    means: 'the module lacks a function that pdfseald needs',
    remedy: 'ask the vendor for a newer module',
  },
  CKR_FUNCTION_REJECTED: {
    means: 'the device or a person at it refused the call',
    remedy: 'let the device sign without a confirmation',
  },
  CKR_KEY_HANDLE_INVALID: {
    means: 'the key disappeared while it was in use',
    remedy: '`pdfseal hsm list` shows whether it is in the token: restore it from its backup otherwise',
  },
  CKR_OBJECT_HANDLE_INVALID: {
    means: 'an object disappeared while it was in use',
    remedy: '`pdfseal hsm list` shows whether the key is in the token: restore it from its backup otherwise',
  },
  CKR_KEY_SIZE_RANGE: { means: 'the device does not use keys of this size', remedy: LACKS },
  CKR_KEY_TYPE_INCONSISTENT: { means: 'the key is of another kind than the mechanism', remedy: OTHER_KEY },
  CKR_KEY_FUNCTION_NOT_PERMITTED: {
    means: 'the key must not sign (CKA_SIGN, or a rule of the device)',
    remedy: OTHER_KEY,
  },
  CKR_MECHANISM_INVALID: { means: 'the device lacks the algorithm', remedy: LACKS },
  CKR_MECHANISM_PARAM_INVALID: { means: 'the device lacks this form of the algorithm', remedy: LACKS },
  CKR_DOMAIN_PARAMS_INVALID: { means: 'the device lacks the curve', remedy: LACKS },
  CKR_CURVE_NOT_SUPPORTED: { means: 'the device lacks the curve (0x140)', remedy: LACKS },
  CKR_OPERATION_ACTIVE: {
    means: 'the device cannot sign several messages at the same time',
    remedy: 'set `kms.sessions = 1`',
  },
  CKR_OPERATION_NOT_INITIALIZED: {
    means: 'the device forgot the signature that it had begun',
    remedy: AGAIN,
  },
  CKR_PIN_INCORRECT: { means: 'the PIN is wrong', remedy: PIN },
  CKR_PIN_INVALID: { means: 'the PIN has characters that the token does not allow', remedy: PIN },
  CKR_PIN_LEN_RANGE: { means: 'the PIN is too short or too long for the token', remedy: PIN },
  CKR_PIN_EXPIRED: {
    means: 'the PIN has expired',
    remedy: `change it with the vendor’s tool, and ${PIN}`,
  },
  CKR_PIN_LOCKED: {
    means: 'too many wrong PINs were presented',
    remedy:
      'unlock the PIN with the vendor’s tool, or wait until the lock-out of the token ends; correct the PIN file if it is wrong, and otherwise run `pdfseal hsm retry-pin`',
  },
  CKR_USER_TYPE_INVALID: {
    means: 'the token has no such user; some devices answer a wrong PIN with it (Nitrokey NetHSM)',
    remedy: PIN,
  },
  CKR_USER_PIN_NOT_INITIALIZED: {
    means: 'the token has no user PIN',
    remedy: 'set the user PIN of the token',
  },
  CKR_USER_ALREADY_LOGGED_IN: {
    means: 'the log-in was there already, which does no harm',
    remedy: 'nothing',
  },
  CKR_USER_ANOTHER_ALREADY_LOGGED_IN: { means: 'another user is logged in to the token', remedy: OTHER_USER },
  CKR_USER_TOO_MANY_TYPES: { means: 'too many users are logged in to the token', remedy: OTHER_USER },
  CKR_USER_NOT_LOGGED_IN: {
    means: 'the token forgot the log-in, for example because another program logged out',
    remedy: AGAIN,
  },
  CKR_SESSION_CLOSED: { means: 'the device closed the session', remedy: IDLE },
  CKR_SESSION_HANDLE_INVALID: { means: 'the device closed the session', remedy: IDLE },
  CKR_SESSION_COUNT: {
    means:
      'the token has no session left; `only 1 session` in `status`: pdfseald signs one message at a time',
    remedy:
      'set `kms.sessions` to what the token allows, for each of its keys; if the partition is `unavailable`, close the sessions of other programs',
  },
  CKR_SESSION_EXISTS: { means: 'a session is open that must not be', remedy: OTHER_USER },
  CKR_SESSION_PARALLEL_NOT_SUPPORTED: {
    means: 'the module does not accept how a session is opened',
    remedy: REPORT,
  },
  CKR_SESSION_READ_ONLY: {
    means: 'the session cannot change the token',
    remedy: 'allow writing to the token, or create the key with the vendor’s tool',
  },
  CKR_SESSION_READ_ONLY_EXISTS: { means: 'a session that only reads is open', remedy: OTHER_USER },
  CKR_SESSION_READ_WRITE_SO_EXISTS: {
    means: 'the security officer is logged in to the token',
    remedy: OTHER_USER,
  },
  CKR_TOKEN_NOT_PRESENT: { means: 'the slot is empty', remedy: CONNECT },
  CKR_TOKEN_NOT_RECOGNIZED: {
    means: 'the module cannot read the token',
    remedy: 'check that the module is for this device, and its version',
  },
  CKR_TOKEN_WRITE_PROTECTED: {
    means: 'the token cannot be changed',
    remedy: 'allow writing to the token, or create the key with the vendor’s tool',
  },
  CKR_TOKEN_RESOURCE_EXCEEDED: { means: 'the device is busy (0x201)', remedy: AGAIN },
  CKR_BUFFER_TOO_SMALL: { means: 'the signature is longer than those of the algorithm', remedy: REPORT },
  CKR_RANDOM_NO_RNG: { means: 'the device has no random numbers', remedy: LACKS },
  CKR_CRYPTOKI_NOT_INITIALIZED: { means: 'the module lost its state', remedy: AGAIN },
  CKR_CRYPTOKI_ALREADY_INITIALIZED: { means: 'the module was started twice', remedy: REPORT },
  CKR_MUTEX_BAD: { means: 'the locks of the module failed', remedy: 'set `kms.sessions = 1`' },
  CKR_MUTEX_NOT_LOCKED: { means: 'the locks of the module failed', remedy: 'set `kms.sessions = 1`' },
  CKR_FIPS_SELF_TEST_FAILED: {
    means: 'the self-test of the device failed',
    remedy: 'restart the device; have it repaired if that does not help',
  },
  CKR_LIBRARY_LOAD_FAILED: {
    means: 'the module misses a library of its own',
    remedy: '`ldd` shows which ones; name their folder in `environment` (LD_LIBRARY_PATH)',
  },
  CKR_VENDOR_DEFINED: {
    means: 'a code of the vendor, or one that is newer than PKCS#11 2.30; the message has its number',
    remedy: 'see the list of the vendor',
  },
};
