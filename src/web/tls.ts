import { constants, X509Certificate } from 'node:crypto';
import { statSync, unwatchFile, watchFile } from 'node:fs';
import { isIP, type Socket } from 'node:net';
import { createSecureContext, type Server, TLSSocket, type TlsOptions } from 'node:tls';
import { isDeepStrictEqual } from 'node:util';
import type { Logger } from 'pino';
import { encodePem, pemBlocks } from '../asn1/pem.ts';
import { parseRevocationList, type RevocationList } from '../asn1/revocationList.ts';
import { readWholeFile } from '../base/atomicFile.ts';
import { systemClock, toRfc3339 } from '../base/clock.ts';
import { OperatorError } from '../base/errors.ts';
import { daysLeft, listUrgencyOf, type Urgency, urgencyOf } from '../base/validity.ts';
import { type ClientTrust, certificateOf, type TlsPeer } from './clientCertificate.ts';

/** The tables of the configuration that name files for TLS. */
export type TlsTable = 'http.tls' | 'console.tls';

export interface TlsFiles {
  /** PEM: the server's certificate, then its issuers. */
  readonly certificateFile: string;
  /** PEM: its private key. */
  readonly keyFile: string;
  /** PEM: the authorities for client certificates. Absent: clients are not asked for a certificate. */
  readonly clientCaFile?: string;
  /** PEM: the revocation lists of those authorities. */
  readonly clientCrlFile?: string;
  /** Whether a client without an accepted certificate is refused the connection. */
  readonly clientCertificateRequired?: boolean;
}

/** `issuer`: an issuer of the server's certificate. `client-crl`: a revocation list. */
export const TLS_ROLES = ['server', 'issuer', 'client-ca', 'client-crl'] as const;

/** One certificate of the files, or a revocation list, whose expiry is watched. Times are milliseconds since the epoch. */
export interface TlsCertificate {
  role: (typeof TLS_ROLES)[number];
  /** The subject of the certificate, or the issuer of the revocation list. */
  subject: string;
  notBefore: number;
  notAfter: number;
}

/** How often the files are checked, milliseconds. */
const WATCH_MS = 2_000;
/** Wait for the second file: renewal writes certificate and key one after the other. */
const SETTLE_MS = 200;
const DAY_MS = 86_400_000;

const ENDS_SOON = 'a TLS certificate expires soon: renew it';
const LIST_ENDS_SOON =
  'a revocation list in client_crl_file has expired or expires soon: put a new one there, or no client certificate is accepted';
const NOT_VALID_YET =
  'a TLS certificate or revocation list is not valid yet: put a valid one there, and look at the clock of this machine';
/** A list without `nextUpdate` never expires; RFC 5280, section 4.1.2.5, writes this time for that. */
const NEVER = Date.UTC(9999, 11, 31, 23, 59, 59);

/**
 * For TLS 1.2, only ciphers with a new key for each connection (ECDHE) and authenticated encryption. Not CBC, and not RSA key exchange:
 * with a stolen key, recorded traffic could be read (RFC 9325, 4.1 and 4.2). TLS 1.3 has only such ciphers.
 */
const CIPHERS = [
  ...['TLS_AES_256_GCM_SHA384', 'TLS_CHACHA20_POLY1305_SHA256', 'TLS_AES_128_GCM_SHA256'],
  ...['AES256-GCM-SHA384', 'CHACHA20-POLY1305', 'AES128-GCM-SHA256'].flatMap((cipher) => [
    `ECDHE-ECDSA-${cipher}`,
    `ECDHE-RSA-${cipher}`,
  ]),
].join(':');

/** The server's own certificate. */
interface ServerPair {
  secrets: Pick<TlsOptions, 'cert' | 'key'>;
  /** The server's certificate, then the others in the file. */
  chain: readonly [X509Certificate, ...X509Certificate[]];
}

/** The files that decide about client certificates. */
interface ClientSide {
  secrets: Pick<TlsOptions, 'ca' | 'crl'>;
  authorities: readonly X509Certificate[];
  trust: ClientTrust;
}

/**
 * The server's certificates, and the authorities for client certificates. The files are read again when they change
 * and on {@link reload}. New connections then use the new files; open connections continue.
 */
export class TlsCertificates {
  readonly table: TlsTable;
  readonly #files: TlsFiles;
  readonly #logger: Logger;
  readonly #servers: Server[] = [];
  readonly #watched: string[];
  readonly #daily: NodeJS.Timeout;
  #pair: ServerPair;
  #clients: ClientSide;
  #settling: NodeJS.Timeout | undefined;

  /** Throws OperatorError if a file cannot be used. */
  constructor(table: TlsTable, files: TlsFiles, logger: Logger, watchMs = WATCH_MS) {
    this.table = table;
    this.#files = files;
    this.#logger = logger.child({ table });
    this.#pair = ofTable(table, () => readPair(files));
    this.#clients = ofTable(table, () => readClientSide(files));
    const { certificateFile, keyFile, clientCaFile, clientCrlFile } = files;
    this.#watched = [certificateFile, keyFile, clientCaFile, clientCrlFile].filter(
      (file) => file !== undefined,
    );
    for (const file of this.#watched) {
      watchFile(file, { interval: watchMs, persistent: false }, () => this.#changed());
    }
    this.#daily = setInterval(() => this.#warn(), DAY_MS).unref();
    this.#tell('TLS certificate in use');
    this.#tellClients();
    this.#warn();
  }

  /** Options for a new server. */
  get options(): TlsOptions {
    const asksClients = this.#files.clientCaFile !== undefined;
    const { SSL_OP_NO_TICKET, SSL_OP_NO_RENEGOTIATION } = constants;
    return {
      ...this.#pair.secrets,
      ...this.#clients.secrets,
      // A ticket would preserve the identity of the client past a revocation; without tickets and a session store, every connection has its
      // own handshake. And a connection keeps the identity of its first handshake.
      ...(asksClients && { secureOptions: SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION }),
      minVersion: 'TLSv1.2',
      ciphers: CIPHERS,
      honorCipherOrder: true,
      requestCert: asksClients,
      rejectUnauthorized: asksClients && this.#isRequired,
    };
  }

  get #isRequired(): boolean {
    return this.#files.clientCaFile !== undefined && (this.#files.clientCertificateRequired ?? true);
  }

  /** The client certificate of a connection, judged by the current files. A Unix socket has none. */
  peerOf(socket: Socket, nowMs: number): TlsPeer {
    if (!(socket instanceof TLSSocket)) return { isRequired: false };
    return { isRequired: this.#isRequired, ...certificateOf(socket, this.#clients.trust, nowMs) };
  }

  /** The certificates in use, the server's first. */
  get certificates(): readonly TlsCertificate[] {
    return present(this.#pair, this.#clients);
  }

  /** Whether the server's certificate names exactly this host: a wildcard does not count. */
  isFor(host: string): boolean {
    const [own] = this.#pair.chain;
    if (isIP(host) !== 0) return own.checkIP(host) !== undefined;
    return own.checkHost(host, { subject: 'never', wildcards: false }) !== undefined;
  }

  /** Applies every later reload to the server. */
  follow(server: Server): void {
    this.#servers.push(server);
  }

  /**
   * Reads the files again. If they cannot be used, the old ones stay in use and the log reports why. A fault in the server's own files does
   * not delay a revocation, and vice versa.
   */
  reload(): void {
    const [former, formerClients] = [this.#pair, this.#clients];
    this.#attempt('the new TLS certificate cannot be used: the previous one stays in use', () => {
      this.#pair = readPair(this.#files);
    });
    this.#attempt('the new client authorities or lists cannot be used: the previous ones stay in use', () => {
      this.#clients = readClientSide(this.#files);
    });
    for (const server of this.#servers) server.setSecureContext(this.options);
    if (this.#pair.chain[0].fingerprint256 !== former.chain[0].fingerprint256)
      this.#tell('new TLS certificate in use');
    if (!isDeepStrictEqual(this.#clients.secrets, formerClients.secrets)) this.#tellClients();
    this.#warn();
  }

  #attempt(refusal: string, read: () => void): void {
    try {
      ofTable(this.table, read);
    } catch (error) {
      if (!(error instanceof OperatorError)) throw error;
      this.#logger.error({ event: 'tls_certificate_refused', reason: error.message }, refusal);
    }
  }

  close(): void {
    clearInterval(this.#daily);
    clearTimeout(this.#settling);
    for (const file of this.#watched) unwatchFile(file);
  }

  #changed(): void {
    clearTimeout(this.#settling);
    this.#settling = setTimeout(() => this.reload(), SETTLE_MS);
  }

  #tell(message: string): void {
    const { subject, validToDate, fingerprint256 } = this.#pair.chain[0];
    const not_after = validToDate.toISOString();
    const fields = { event: 'tls_certificate_new', subject, not_after, fingerprint_sha256: fingerprint256 };
    this.#logger.info(fields, message);
  }

  #tellClients(): void {
    const { authorities, trust } = this.#clients;
    if (authorities.length === 0) return;
    const lists = trust.lists.map(({ issuer, thisUpdate, nextUpdate }) => ({
      issuer,
      this_update: toRfc3339(thisUpdate),
      ...(nextUpdate !== undefined && { next_update: toRfc3339(nextUpdate) }),
    }));
    const fields = { authorities: authorities.map(nameOf), lists };
    this.#logger.info(fields, 'client authorities and revocation lists in use');
  }

  #warn(): void {
    const now = systemClock();
    for (const certificate of this.certificates) {
      const urgency = tlsUrgencyOf(certificate, now);
      if (urgency === 'none') continue;
      const { role, subject, notBefore, notAfter } = certificate;
      const days = daysLeft(certificate, now);
      const not_after = toRfc3339(notAfter);
      const fields = { event: 'tls_certificate_ends', role, subject, not_after, days_left: days, urgency };
      const ended = days < 0 ? 'a TLS certificate has expired: connections fail' : ENDS_SOON;
      const atEnd = role === 'client-crl' ? LIST_ENDS_SOON : ended;
      const message = now < notBefore ? NOT_VALID_YET : atEnd;
      this.#logger[urgency === 'urgent' ? 'error' : 'warn'](fields, message);
    }
  }
}

/** How soon this certificate or list must be replaced. */
export function tlsUrgencyOf(certificate: TlsCertificate, now: number): Urgency {
  return certificate.role === 'client-crl' ? listUrgencyOf(certificate, now) : urgencyOf(certificate, now);
}

/** Reads the files and checks that they fit together. Throws OperatorError if they cannot be used. */
export function readTls(
  table: TlsTable,
  files: TlsFiles,
): Pick<ServerPair, 'chain'> & { all: TlsCertificate[] } {
  return ofTable(table, () => {
    const pair = readPair(files);
    return { chain: pair.chain, all: present(pair, readClientSide(files)) };
  });
}

/** Adds to a fault the table whose files are read. */
function ofTable<Read>(table: TlsTable, read: () => Read): Read {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof OperatorError)) throw error;
    throw new OperatorError(`${table}: ${error.message}`, { cause: error.cause });
  }
}

function readPair({ certificateFile, keyFile }: TlsFiles): ServerPair {
  const cert = readWholeFile(certificateFile);
  const chain = parseCertificates(certificateFile, cert);
  const key = readWholeFile(keyFile).toString();
  if ((statSync(keyFile).mode & 0o007) !== 0) {
    throw new OperatorError(`others than owner and group can use ${keyFile}: run chmod o= on it`);
  }
  const secrets = { cert, key };
  try {
    createSecureContext(secrets);
  } catch (cause) {
    throw new OperatorError(
      `${certificateFile} and ${keyFile} cannot be used together (${(cause as Error).message}): they must be PEM, and the key must be that of the first certificate`,
      { cause },
    );
  }
  return { secrets, chain };
}

function readClientSide({ clientCaFile, clientCrlFile }: TlsFiles): ClientSide {
  if (clientCaFile === undefined)
    return { secrets: {}, authorities: [], trust: { authorities: new Set(), lists: [] } };
  const ca = readWholeFile(clientCaFile);
  const authorities = parseCertificates(clientCaFile, ca);
  const lists = clientCrlFile === undefined ? [] : parseRevocationLists(clientCrlFile);
  // From a text with several lists, Node would take the first only.
  const crl = lists.map(({ der }) => encodePem('X509 CRL', der));
  const secrets = { ca, ...(crl.length > 0 && { crl }) };
  try {
    createSecureContext(secrets);
  } catch (cause) {
    const files = clientCrlFile === undefined ? clientCaFile : `${clientCaFile} or ${clientCrlFile}`;
    throw new OperatorError(`${files} cannot be used (${(cause as Error).message})`, { cause });
  }
  const fingerprints = new Set(authorities.map(({ fingerprint256 }) => fingerprint256));
  return { secrets, authorities, trust: { authorities: fingerprints, lists } };
}

function present({ chain }: ServerPair, { authorities, trust }: ClientSide): TlsCertificate[] {
  const presentOne = (role: TlsCertificate['role'], certificate: X509Certificate) => ({
    role,
    subject: nameOf(certificate),
    notBefore: certificate.validFromDate.getTime(),
    notAfter: certificate.validToDate.getTime(),
  });
  return [
    ...chain.map((one, n) => presentOne(n === 0 ? 'server' : 'issuer', one)),
    ...authorities.map((one) => presentOne('client-ca', one)),
    ...trust.lists.map(({ issuer, thisUpdate, nextUpdate = NEVER }) => ({
      role: 'client-crl' as const,
      subject: issuer,
      notBefore: thisUpdate,
      notAfter: nextUpdate,
    })),
  ];
}

function nameOf({ subject }: X509Certificate): string {
  return subject.split('\n').reverse().join(', ');
}

/** All certificates of the file, in its order. */
function parseCertificates(file: string, pem: Buffer): [X509Certificate, ...X509Certificate[]] {
  try {
    const [first = '', ...others] = pemBlocks('CERTIFICATE', pem);
    const begun = pem.toString('latin1').split('-----BEGIN CERTIFICATE-----').length - 1;
    if (begun > 1 + others.length) throw new Error('a certificate is damaged');
    return [new X509Certificate(first), ...others.map((one) => new X509Certificate(one))];
  } catch (cause) {
    throw new OperatorError(`${file} has no certificate in PEM`, { cause });
  }
}

function parseRevocationLists(file: string): RevocationList[] {
  try {
    const lists = pemBlocks('X509 CRL', readWholeFile(file)).map(parseRevocationList);
    if (lists.some(({ thisUpdate, nextUpdate = NEVER }) => nextUpdate <= thisUpdate))
      throw new OperatorError(`${file} has a revocation list that ends before it begins`);
    if (lists.length > 0) return lists;
  } catch (cause) {
    if (cause instanceof OperatorError) throw cause;
    throw new OperatorError(`${file} has a revocation list that cannot be read`, { cause });
  }
  throw new OperatorError(`${file} has no revocation list in PEM (BEGIN X509 CRL)`);
}
