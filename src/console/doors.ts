/** Sign-in methods of the listeners: one-time links, or the certificate of the connection. */
import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { Person } from '../base/people.ts';
import type { ActObject } from '../manifest/auditRecord.ts';
import { isLoopback } from '../web/address.ts';
import type { ClientCertificate, TlsPeer } from '../web/clientCertificate.ts';
import { english } from './english.ts';
import type { Page } from './screen.ts';
import type { Session, Sessions } from './sessions.ts';
import { brokenLinkPage, linkPage, signInPage } from './signIn.ts';
import {
  noCertificatePage,
  ownCertificatePage,
  refusedCertificatePage,
  tooManyLoginsPage,
} from './signInByCertificate.ts';

/** A session that has just begun. */
export interface Begun {
  cookie: string;
  session: Session;
  /** Details of the login for the audit trail. */
  object: ActObject;
}

export interface Door {
  readonly cookieName: string;
  readonly cookieAttributes: string;
  /** Remedy for a request with another host name. */
  readonly nameRemedy: string;
  /** How to sign in again after logging out. */
  readonly againRemedy: string;
  /** Whether the console is known by this host name. Otherwise a foreign page could reach it under a name of its own (DNS rebinding). */
  isNamed(host: string): boolean;
  /** SHA-256 of the certificate that sessions of this connection are bound to; undefined if the listener does not request certificates. */
  certificateOf(request: IncomingMessage): string | undefined;
  /** The page for a client without a session. */
  signInPage(request: IncomingMessage): Page;
  /** A page at one of the door's own paths, which needs no session. */
  pageAt(path: string): Page | undefined;
  /** Begins a session for the sender of the sign-in form, or returns a page that explains why not. */
  begin(request: IncomingMessage, form: URLSearchParams): Begun | Page;
  /** Called for each request of a session. */
  know(socket: Socket): void;
}

interface DoorOptions {
  environment: string;
  sessions: Sessions;
  know(socket: Socket): void;
}

/** Sign-in by one-time links, on a Unix socket or on loopback. */
export function linkDoor({ environment, sessions, know }: DoorOptions): Door {
  return {
    // Browsers share cookies between all ports of a host, and therefore between the environments of a machine.
    cookieName: `pdfseal-console-${environment}`,
    // `Secure` is omitted because not every browser accepts such a cookie from http://localhost: the tunnel protects the connection.
    cookieAttributes: 'Path=/; HttpOnly; SameSite=Strict',
    nameRemedy: english.wrongHostHow,
    againRemedy: english.linkBadHow,
    isNamed: (host) => host === 'localhost' || host.endsWith('.localhost') || isLoopback(host),
    certificateOf: () => undefined,
    signInPage,
    pageAt(path) {
      const [, secret] = /^\/login\/([\w-]{1,64})$/.exec(path) ?? [];
      return secret === undefined ? undefined : linkPage(secret, environment, sessions);
    },
    begin(_, form) {
      const secret = form.get('link') ?? '';
      const begun = sessions.begin(secret);
      return begun === undefined ? brokenLinkPage(sessions.wasUsed(secret)) : { ...begun, object: {} };
    },
    know,
  };
}

/** A person admitted by a certificate, and the certificate name that admits them. */
export interface CertifiedPerson extends Person {
  readonly certificateName: string;
}

export interface CertificateDoorOptions extends DoorOptions {
  tls: {
    peerOf(socket: Socket, nowMs: number): TlsPeer;
    /** Whether this server's certificate covers exactly that name. */
    isFor(host: string): boolean;
  };
  /** The people in the current configuration. */
  people(): readonly CertifiedPerson[];
  /** The current date for certificate validity checks, in milliseconds. */
  date(): number;
}

/**
 * Sign-in by client certificate, over TLS. A session is bound to the certificate that began it, and ends as soon as that certificate no
 * longer admits the person.
 */
export function certificateDoor({
  environment,
  sessions,
  tls,
  people,
  date,
  know,
}: CertificateDoorOptions): Door {
  const show = (socket: Socket) => {
    const peer = tls.peerOf(socket, date());
    return { ...peer, person: personOf(peer.certificate, people()) };
  };
  return {
    cookieName: `__Host-pdfseal-console-${environment}`,
    cookieAttributes: 'Path=/; Secure; HttpOnly; SameSite=Strict',
    nameRemedy: english.certificates.wrongHostHow,
    againRemedy: english.certificates.againHow,
    isNamed: (host) => tls.isFor(host),
    // The empty string stands for a connection without an accepted certificate: no session is bound to it.
    certificateOf: ({ socket }) => tls.peerOf(socket, date()).certificate?.sha256 ?? '',
    signInPage({ socket }) {
      const { certificate, fault, person } = show(socket);
      if (person !== undefined) return ownCertificatePage(person, environment);
      if (certificate !== undefined)
        return refusedCertificatePage(english.certificates.unknown, certificate.names);
      return fault === undefined
        ? noCertificatePage()
        : refusedCertificatePage(english.certificates.faulty(fault));
    },
    pageAt: () => undefined,
    begin(request) {
      const { socket } = request;
      const { certificate, person } = show(socket);
      if (certificate === undefined || person === undefined) return this.signInPage(request);
      const { sha256 } = certificate;
      const holds = () => {
        const now = show(socket);
        return (
          now.certificate !== undefined && now.person?.name === person.name && now.person.role === person.role
        );
      };
      const begun = sessions.beginBound(person, { certificate: sha256, holds });
      if (begun === undefined) return tooManyLoginsPage();
      return { ...begun, object: { certificate_sha256: sha256 } };
    },
    know,
  };
}

/** The person for the first certificate name that is configured: the subject is tried before the alternative names. */
function personOf(
  certificate: ClientCertificate | undefined,
  people: readonly CertifiedPerson[],
): Person | undefined {
  for (const name of certificate?.names ?? []) {
    const found = people.find(({ certificateName }) => certificateName === name);
    if (found !== undefined) return { name: found.name, role: found.role };
  }
  return undefined;
}
