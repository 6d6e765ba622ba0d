import { constants, X509Certificate } from 'node:crypto';
import { readFileSync, statSync, unwatchFile, watchFile } from 'node:fs';
import type { Socket } from 'node:net';
import { createSecureContext, type Server, TLSSocket, type TlsOptions } from 'node:tls';
import type { Logger } from 'pino';
import { parseRevocationList, type RevocationList } from '../asn1/revocationList.ts';
import { systemClock, toRfc3339 } from '../base/clock.ts';
import { OperatorError } from '../base/errors.ts';
import { systemReason } from '../base/systemReason.ts';
import { daysLeft, urgencyOf } from '../base/validity.ts';
import { type ClientTrust, certificateOf, type TlsPeer } from './clientCertificate.ts';

export interface TlsFiles {
  /** PEM: the server's certificate, then its issuers. */
  readonly certificateFile: string;
  /** PEM: its private key. */
  readonly keyFile: string;
  /** PEM: the authorities for client certificates. Absent: clients are asked for no certificate. */
  readonly clientCaFile?: string;
  /** PEM: the revocation lists of those authorities. */
  readonly clientCrlFile?: string;
  /** Whether a client without an accepted certificate gets no connection. */
  readonly clientCertificateRequired?: boolean;
}

/** One certificate of the files, to watch its expiry. Times are milliseconds since the epoch. */
export interface TlsCertificate {
  /** `issuer`: an issuer of the server's certificate. */
  role: 'server' | 'issuer' | 'client-ca';
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
/** Authorities renew their lists every few days, so an early warning would never stop. */
const LIST_ENDS_SOON_MS = 2 * DAY_MS;
const LIST_ENDS_SOON =
  'a revocation list in http.tls.client_crl_file has expired or expires soon: put a new one there, or no client certificate is accepted';

/**
 * For TLS 1.2, only ciphers with a new key for each connection (ECDHE) and authenticated encryption. Not CBC, and
 * not RSA key exchange: a thief of the key could read recorded traffic (RFC 9325, 4.1 and 4.2). TLS 1.3 has only
 * such ciphers.
 */
const CIPHERS = [
  ...['TLS_AES_256_GCM_SHA384', 'TLS_CHACHA20_POLY1305_SHA256', 'TLS_AES_128_GCM_SHA256'],
  ...['AES256-GCM-SHA384', 'CHACHA20-POLY1305', 'AES128-GCM-SHA256'].flatMap((cipher) => [
    `ECDHE-ECDSA-${cipher}`,
    `ECDHE-RSA-${cipher}`,
  ]),
].join(':');

type Secrets = Pick<TlsOptions, 'cert' | 'key' | 'ca' | 'crl'>;

/**
 * The server's certificates, and the authorities for client certificates. The files are read again when they change
 * and on {@link reload}. New connections then use the new files; open connections continue.
 */
export class TlsCertificates {
  readonly #files: TlsFiles;
  readonly #logger: Logger;
  readonly #servers: Server[] = [];
  readonly #watched: string[];
  readonly #daily: NodeJS.Timeout;
  #secrets: Secrets;
  #certificate: X509Certificate;
  #all: TlsCertificate[];
  #trust: ClientTrust;
  #settling: NodeJS.Timeout | undefined;

  /** Throws OperatorError when a file cannot be used. */
  constructor(files: TlsFiles, logger: Logger, watchMs = WATCH_MS) {
    this.#files = files;
    this.#logger = logger;
    ({
      secrets: this.#secrets,
      chain: [this.#certificate],
      all: this.#all,
      trust: this.#trust,
    } = readTls(files));
    const { certificateFile, keyFile, clientCaFile, clientCrlFile } = files;
    this.#watched = [certificateFile, keyFile, clientCaFile, clientCrlFile].filter(
      (file) => file !== undefined,
    );
    for (const file of this.#watched) {
      watchFile(file, { interval: watchMs, persistent: false }, () => this.#changed());
    }
    this.#daily = setInterval(() => this.#warn(), DAY_MS).unref();
    this.#tell('TLS certificate in use');
  }

  /** Options for a new server. */
  get options(): TlsOptions {
    const asksClients = this.#files.clientCaFile !== undefined;
    const { SSL_OP_NO_TICKET, SSL_OP_NO_RENEGOTIATION } = constants;
    return {
      ...this.#secrets,
      // A ticket carries the identity of the client past a revocation; without tickets and a session store, every connection has a
      // handshake of its own. And a connection keeps the identity of its first handshake.
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

  /** What a connection shows about its client, by the files as they are now. A Unix socket shows nothing. */
  peerOf(socket: Socket, nowMs: number): TlsPeer {
    if (!(socket instanceof TLSSocket)) return { isRequired: false };
    return { isRequired: this.#isRequired, ...certificateOf(socket, this.#trust, nowMs) };
  }

  /** The certificates in use, the server's first. */
  get certificates(): readonly TlsCertificate[] {
    return this.#all;
  }

  /** Applies every later reload to the server. */
  follow(server: Server): void {
    this.#servers.push(server);
  }

  /** Reads the files again. When they cannot be used, the old ones stay in use, and the log says why. */
  reload(): void {
    try {
      const {
        secrets,
        chain: [certificate],
        all,
        trust,
      } = readTls(this.#files);
      for (const server of this.#servers) server.setSecureContext({ ...this.options, ...secrets });
      this.#secrets = secrets;
      this.#trust = trust;
      const isNew = certificate.fingerprint256 !== this.#certificate.fingerprint256;
      this.#certificate = certificate;
      this.#all = all;
      if (isNew) this.#tell('new TLS certificate in use');
    } catch (error) {
      if (!(error instanceof OperatorError)) throw error;
      this.#logger.error(
        { event: 'tls_certificate_refused', reason: error.message },
        'the new TLS certificate cannot be used: the previous one stays in use',
      );
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
    const { subject, validToDate, fingerprint256 } = this.#certificate;
    const not_after = validToDate.toISOString();
    const fields = { event: 'tls_certificate_new', subject, not_after, fingerprint_sha256: fingerprint256 };
    this.#logger.info(fields, message);
    this.#warn();
  }

  #warn(): void {
    const now = systemClock();
    for (const certificate of this.#all) {
      const urgency = urgencyOf(certificate, now);
      if (urgency === 'none') continue;
      const { role, subject, notAfter } = certificate;
      const days = daysLeft(certificate, now);
      const not_after = toRfc3339(notAfter);
      const fields = { event: 'tls_certificate_ends', role, subject, not_after, days_left: days, urgency };
      const message = days < 0 ? 'a TLS certificate has expired: connections fail' : ENDS_SOON;
      this.#logger[urgency === 'urgent' ? 'error' : 'warn'](fields, message);
    }
    for (const { issuer, nextUpdate } of this.#trust.lists) {
      if (nextUpdate === undefined || nextUpdate - now > LIST_ENDS_SOON_MS) continue;
      const fields = { event: 'tls_certificate_ends', role: 'client-crl', subject: issuer };
      this.#logger.error({ ...fields, not_after: toRfc3339(nextUpdate) }, LIST_ENDS_SOON);
    }
  }
}

/** Reads the files and checks that they fit together. Throws OperatorError when they cannot be used. */
export function readTls({ certificateFile, keyFile, clientCaFile, clientCrlFile }: TlsFiles): {
  secrets: Secrets;
  /** The server's certificate, then the others in the file. */
  chain: readonly [X509Certificate, ...X509Certificate[]];
  all: TlsCertificate[];
  trust: ClientTrust;
} {
  const cert = readText(certificateFile);
  const chain = parseCertificates(certificateFile, cert);
  const key = readText(keyFile);
  if ((statSync(keyFile).mode & 0o007) !== 0) {
    throw new OperatorError(`http.tls: others than owner and group can use ${keyFile}: run chmod o= on it`);
  }
  const ca = clientCaFile === undefined ? undefined : readText(clientCaFile);
  const clientCas = clientCaFile === undefined ? [] : parseCertificates(clientCaFile, ca ?? '');
  const crl = clientCrlFile === undefined ? undefined : readText(clientCrlFile);
  const lists = clientCrlFile === undefined ? [] : parseRevocationLists(clientCrlFile, crl ?? '');
  try {
    const secrets = { cert, key, ...(ca !== undefined && { ca }), ...(crl !== undefined && { crl }) };
    createSecureContext(secrets);
    const all = [
      ...chain.map((one, n) => present(n === 0 ? 'server' : 'issuer', one)),
      ...clientCas.map((clientCa) => present('client-ca', clientCa)),
    ];
    const authorities = new Set(clientCas.map(({ fingerprint256 }) => fingerprint256));
    return { secrets, chain, all, trust: { authorities, lists } };
  } catch (cause) {
    throw new OperatorError(
      `http.tls: ${certificateFile} and ${keyFile} cannot be used together (${(cause as Error).message}): they must be PEM, and the key must be that of the first certificate`,
      { cause },
    );
  }
}

function readText(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (cause) {
    throw new OperatorError(`http.tls: cannot read ${file} (${systemReason(cause)})`, { cause });
  }
}

function present(role: TlsCertificate['role'], certificate: X509Certificate): TlsCertificate {
  const { subject, validFromDate, validToDate } = certificate;
  return {
    role,
    subject: subject.split('\n').reverse().join(', '),
    notBefore: validFromDate.getTime(),
    notAfter: validToDate.getTime(),
  };
}

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

/** All certificates of the file, in its order. */
function parseCertificates(file: string, pem: string): [X509Certificate, ...X509Certificate[]] {
  try {
    const [first = '', ...others] = pem.match(CERTIFICATE) ?? [];
    return [new X509Certificate(first), ...others.map((one) => new X509Certificate(one))];
  } catch (cause) {
    throw new OperatorError(`http.tls: ${file} has no certificate in PEM`, { cause });
  }
}

const LIST = /-----BEGIN X509 CRL-----([A-Za-z0-9+/=\s]+)-----END X509 CRL-----/g;

function parseRevocationLists(file: string, pem: string): RevocationList[] {
  try {
    const lists = Array.from(pem.matchAll(LIST), ([, base64 = '']) =>
      parseRevocationList(Buffer.from(base64, 'base64')),
    );
    if (lists.length > 0) return lists;
  } catch (cause) {
    throw new OperatorError(`http.tls: ${file} has a revocation list that cannot be read`, { cause });
  }
  throw new OperatorError(`http.tls: ${file} has no revocation list in PEM (BEGIN X509 CRL)`);
}
