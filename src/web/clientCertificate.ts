import { X509Certificate } from 'node:crypto';
import type { DetailedPeerCertificate, TLSSocket } from 'node:tls';
import { issuedAs, type RevocationList } from '../asn1/revocationList.ts';
import { issuerOf, namesIn, sha256Of } from '../asn1/x509Names.ts';

/** A client certificate that this server accepts. */
export interface ClientCertificate {
  /** Names of the holder in the certificate: see {@link namesIn}. */
  names: readonly string[];
  /** SHA-256 of the certificate, lower-case hex: `x5t#S256` of RFC 8705 in hex. */
  sha256: string;
}

/** Information that a connection gives about its client. */
export interface TlsPeer {
  /** Whether every request needs an accepted certificate. */
  isRequired: boolean;
  certificate?: ClientCertificate;
  /** The reason why the client's certificate is not accepted: completes "the client certificate …". */
  fault?: string;
}

/** The authorities whose client certificates are accepted, and the certificates that they have revoked. */
export interface ClientTrust {
  /** SHA-256 fingerprints. */
  authorities: ReadonlySet<string>;
  lists: readonly RevocationList[];
}

/** The certificate of a connection, read once: neither a resumed session nor a new handshake can put another in its place. */
interface Presented {
  certificate: ClientCertificate;
  /** The certificates from the client's up to its root, as the handshake verified them. */
  chain: readonly X509Certificate[];
}

/** Maximum number of names: more than a certificate needs; each costs a look-up. */
const NAMES_MAX = 8;
const CHAIN_MAX = 10;

const presented = new WeakMap<TLSSocket, Presented | null>();

/** Examines the connection's certificate now: it can expire or be revoked while its connection is open. */
export function certificateOf(
  socket: TLSSocket,
  trust: ClientTrust,
  nowMs: number,
): Pick<TlsPeer, 'certificate' | 'fault'> {
  let known = presented.get(socket);
  if (known === undefined) {
    known = readPresented(socket);
    presented.set(socket, known);
  }
  if (known === null) return {};
  const reason = socket.authorized ? whyUntrusted(known.chain, trust, nowMs) : handshakeFault(socket);
  return reason === undefined ? { certificate: known.certificate } : { fault: reason };
}

/** OpenSSL's name of the fault, such as CERT_HAS_EXPIRED. */
function handshakeFault({ authorizationError }: TLSSocket): string {
  return `is not accepted (${String(authorizationError ?? 'not verified')})`;
}

function whyUntrusted(
  chain: readonly X509Certificate[],
  { authorities, lists }: ClientTrust,
  nowMs: number,
): string | undefined {
  const top = chain.findIndex(({ fingerprint256 }) => authorities.has(fingerprint256));
  if (top === -1) return whyUnknown(chain);
  const counted = chain.slice(0, top + 1);
  for (const one of counted) {
    if (nowMs > one.validToDate.getTime()) return 'has expired, or an issuer of it has';
    if (nowMs < one.validFromDate.getTime()) return 'is not valid yet';
  }
  if (lists.length === 0) return undefined;
  // This follows the handshake: each link needs a list of its issuer that is not too old.
  for (const { raw } of counted) {
    const name = issuedAs(raw);
    const ofIssuer = lists.filter(({ issuerHex }) => name.startsWith(`${issuerHex} `));
    if (ofIssuer.some(({ revoked }) => revoked.has(name))) return 'was revoked by its authority';
    if (ofIssuer.length === 0)
      return 'cannot be checked: this server has no revocation list of its issuer, or of an issuer above';
    if (ofIssuer.every(({ nextUpdate }) => nextUpdate !== undefined && nowMs > nextUpdate))
      return 'cannot be checked: the revocation list of this server has expired';
    if (ofIssuer.every(({ thisUpdate }) => nowMs < thisUpdate))
      return 'cannot be checked: the revocation list of this server is not valid yet';
  }
  return undefined;
}

/**
 * The reason why no trusted authority counts. The handshake also used intermediate authorities that the client sent, but Node does not show
 * them after it, so nothing can end their trust.
 */
function whyUnknown(chain: readonly X509Certificate[]): string {
  const last = chain.at(-1);
  return last === undefined || last.checkIssued(last)
    ? 'is of an authority that this server no longer trusts'
    : `was issued by ${issuerOf(last)}, which this server does not know: client_ca_file must have intermediate authorities too`;
}

function readPresented(socket: TLSSocket): Presented | null {
  const own = socket.getPeerX509Certificate();
  if (own === undefined) return null;
  const chain = [own];
  let next: DetailedPeerCertificate | undefined = socket.getPeerCertificate(true).issuerCertificate;
  for (let child = own; next !== undefined && chain.length < CHAIN_MAX; next = next.issuerCertificate) {
    const issuer = new X509Certificate(next.raw);
    // The client can send any certificates. Only those that signed the one before are links of the chain.
    if (issuer.fingerprint256 === child.fingerprint256 || !child.verify(issuer.publicKey)) break;
    chain.push(issuer);
    child = issuer;
  }
  return { certificate: { names: namesIn(own).slice(0, NAMES_MAX), sha256: sha256Of(own) }, chain };
}
