import type { KeyAlgorithm, TokenPublicKey } from './keyAlgorithm.ts';
import type { TokenDescription } from './tokenDescription.ts';

/** Location of one signing key: a PKCS#11 token, found by label or serial number (slot ids change), and a key on it; or a file. */
export interface TokenOptions {
  /** Path of the PKCS#11 module, a shared library. Absent: this is a software key, and `pinFile` is the file that holds it. */
  module?: string;
  /** Parameters for initialising the module (`pReserved`, as NSS takes it). */
  libraryParameters?: string;
  tokenLabel?: string;
  tokenSerial?: string;
  keyLabel: string;
  /** File with the public key or a certificate of it, in PEM, for a token that has only the private key. Signers do not read it. */
  publicKeyFile?: string;
  /** File with the user PIN, or with the software key, and nothing else; a final line break is not part of it. No access for others. */
  pinFile: string;
  /** Name of the systemd credential that `pinFile` is. */
  pinCredential?: string;
  /** The place where an administrator writes the PIN, in words, if the service manager makes `pinFile` from another file. */
  pinSource?: string;
  /** Folder in which signers remember the PINs that tokens refused ({@link RefusedPins}). */
  refusedPins: string;
  /** Socket of the unit that signs with this token. Absent: the signer is a child of the process that needs it. */
  signer?: string;
  /** Environment variables the module needs, e.g. `SOFTHSM2_CONF`. The signer inherits nothing else from our environment. */
  environment?: Record<string, string>;
}

/** Attributes that a token reports for a private key it holds. */
export interface KeyProtection {
  /** Attributes by which the key could leave the token, such as `CKA_EXTRACTABLE = true`; none for a key as made here. */
  exposures: string[];
  /**
   * Whether the token reports that the key was made there and could never leave; false for a key that was imported, for example by a
   * restore.
   */
  wasAlwaysInside: boolean;
}

export type TokenAccess = 'read' | 'write';

const NAME_MEMBERS = ['module', 'libraryParameters', 'tokenLabel', 'tokenSerial', 'environment'] as const;

/** The fields that identify a token to a signer, which itself knows the PIN file. */
export type TokenName = Pick<TokenOptions, (typeof NAME_MEMBERS)[number]>;

/** Removes all fields that are not part of the name. */
export function tokenName(token: TokenName): TokenName {
  const members = NAME_MEMBERS.filter((member) => token[member] !== undefined);
  return Object.fromEntries(members.map((member) => [member, token[member]]));
}

/** Permissions of a signer, from its parent: its unit, or the daemon or command that it is a child of. */
export interface Charter {
  /** The only tokens that it opens. */
  tokens: readonly TokenOptions[];
  duties: Duties;
}

/** Each absent duty is a refusal. */
export interface Duties {
  /** Signs the next checkpoint of the log, and records what it has signed in a folder. In a unit, all keys belong to one partition. */
  log?: { origin: string; folder: string; sessions: number; isUnit: boolean };
  /** Signs TSTInfo of this policy and accuracy, with the present time. */
  timestamps?: { policy: string; accuracyMs: number };
  /** Signs any message, and makes and destroys keys: for commands, and for a witness, which decides by itself what it signs. */
  anything?: true;
}

/**
 * Requests to a signer, in this order (`heldTrees` at any time), each as one message of JSON. No request carries a PIN, or its location.
 * Logging in is a step of its own because it must not be repeated lightly.
 */
export type SignerRequest =
  /** Loads the module, finds the token and opens that many sessions, or as many as the token allows. */
  | { kind: 'connect'; token: TokenName; keyLabel: string; access: TokenAccess; sessions: number }
  | { kind: 'logIn' }
  /** `publicKey` is used if the token has only the private key: Base64 of the DER SubjectPublicKeyInfo. Signatures show that it is right. */
  | { kind: 'findKey'; publicKey?: string }
  | { kind: 'generateKey'; algorithm: KeyAlgorithm }
  /** Returns what module and token report about themselves; before the log-in, too. */
  | { kind: 'inspectToken' }
  /** Returns what the token reports about the key that was found. */
  | { kind: 'inspectKey' }
  /** Destroys both halves of the pair. */
  | { kind: 'destroyKey' }
  | SigningRequest
  /** Requests from a unit the trees that it signed last for its log, without any token: for a check of the store. */
  | { kind: 'heldTrees' }
  /** Carried out when all signatures under way have ended. */
  | { kind: 'close' };

/** A tree of the log, as a checkpoint states it. */
export interface Tree {
  size: number;
  /** Base64. */
  root: string;
}

/** Proof that a tree contains another one, which a signer may hold. */
export interface Step {
  from: Tree;
  /** RFC 9162, section 2.1.4.1; one hash each, Base64. */
  proof: string[];
  /** The log has committed to that tree: it is not a batch on its way, which may yet be given up. */
  isCommitted?: true;
  /**
   * Sizes of the trees on which the next one is drafted: the committed one, then those of the batches on their way. A daemon of an earlier
   * version does not send them.
   */
  draftedOn?: readonly number[];
}

/** At most one request for each session at the same time; answered in the order in which they end. Bytes are in Base64. */
export type SigningRequest =
  /** Any bytes. */
  | { kind: 'signBytes'; message: string }
  /**
   * A message that the signer makes, to show that it can sign; with `claims`, only if no other signer holds the record of what these keys
   * signed.
   */
  | { kind: 'signProbe'; claims?: boolean }
  /** The text of a checkpoint; see {@link checkpointMessage} for the time, Unix, seconds. */
  | { kind: 'signCheckpoint'; text: string; time: number; step?: Step }
  /** The signed attributes of a token with this TSTInfo, in DER, and the certificate of the key. */
  | { kind: 'signToken'; content: string; certificate: string };

/** The sessions of a child: at least one. */
export interface OpenedSessions {
  sessions: number;
  /** Return value of PKCS#11 (`CKR_…`) by which the token refused more sessions; absent if it gave all. */
  refusal?: string;
}

export interface SignerAnswers {
  connect: OpenedSessions;
  logIn: null;
  findKey: TokenPublicKey;
  generateKey: TokenPublicKey;
  inspectToken: TokenDescription;
  inspectKey: KeyProtection;
  destroyKey: null;
  signBytes: Signature;
  signProbe: Signature & { message: string };
  signCheckpoint: Signature;
  signToken: Signature;
  heldTrees: readonly Tree[];
  close: null;
}

/** Base64 of: Ed25519: 64 bytes (RFC 8032); ECDSA: DER Ecdsa-Sig-Value (RFC 3279, section 2.2.3); RSA: as long as the modulus; mldsa44: 2,420 bytes. */
export interface Signature {
  signature: string;
  /** Number of signed trees that no later tree will contain, now that this one is signed; absent: none. */
  abandoned?: number;
}

/** A request on the wire. The signer ends itself if it takes longer. */
export type SignerCall = SignerRequest & { id: number; timeoutMs: number };

export type SignerReply =
  | { id: number; answer: SignerAnswers[keyof SignerAnswers] }
  | { id: number; failure: ReportedFailure };

export interface ReportedFailure {
  code: string;
  detail: string;
  /** With `tree_unknown`: the trees from which a step may lead. */
  trees?: readonly Tree[];
}

/** A signer ends with this status if its PIN was refused, or its file unfit. Its unit then gets the file again. */
export const PIN_UNFIT_STATUS = 75;

/** Longest message in either direction, bytes: a certificate is the longest part of one. */
export const SIGNER_MESSAGE_BYTES_MAX = 64 * 1024;
