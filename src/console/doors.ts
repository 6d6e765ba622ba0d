/** How a listener knows who is there: by one-time links, or by the certificate of the connection. */
import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { Person } from '../base/people.ts';
import type { ActObject } from '../manifest/auditRecord.ts';
import { isLoopback } from '../net/address.ts';
import type { ClientCertificate, TlsPeer } from '../net/clientCertificate.ts';
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
  /** What the audit trail says of how it began. */
  object: ActObject;
}

export interface Door {
  readonly cookieName: string;
  readonly cookieAttributes: string;
  /** What to do about a request for another name. */
  readonly nameRemedy: string;
  /** How somebody comes back who has logged out. */
  readonly againRemedy: string;
  /** Whether the console has this name here. No page of a stranger reaches it under a name of its own (DNS rebinding). */
  isNamed(host: string): boolean;
  /** SHA-256 of the certificate that sessions of this connection are bound to; undefined where none is asked for. */
  certificateOf(request: IncomingMessage): string | undefined;
  /** What somebody is shown who has no session. */
  signInPage(request: IncomingMessage): Page;
  /** A page of a path of the door's own, which needs no session. */
  pageAt(path: string): Page | undefined;
  /** Begins a session for who sent the form of the sign-in page, or says why there is none. */
  begin(request: IncomingMessage, form: URLSearchParams): Begun | Page;
  /** Called for each request of a session. */
  know(socket: Socket): void;
}

interface DoorOptions {
  environment: string;
  sessions: Sessions;
  know(socket: Socket): void;
}

/** Of a Unix socket, and of loopback. */
export function linkDoor({ environment, sessions, know }: DoorOptions): Door {
  return {
    // Browsers share cookies among the ports of a host, and with them among the environments of a machine.
    cookieName: `pdfseal-console-${environment}`,
    // Without `Secure`, because not every browser takes such a cookie from http://localhost: the tunnel is what protects the connection.
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

/** A certificate that opens the console, by one of its names, and whom for. */
export interface CertifiedPerson extends Person {
  readonly certificateName: string;
}

export interface CertificateDoorOptions extends DoorOptions {
  tls: {
    peerOf(socket: Socket, nowMs: number): TlsPeer;
    /** Whether the certificate of this server is for that very name. */
    isFor(host: string): boolean;
  };
  /** As the configuration has them at this moment. */
  people(): readonly CertifiedPerson[];
  /** The date by which certificates are valid, milliseconds. */
  date(): number;
}

/** Of TLS. A session belongs to the certificate that began it, and ends as soon as that opens nothing any more. */
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
    // Of a connection without an accepted certificate: no session is bound to that.
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

/** The first name of the certificate that the configuration has: the subject before the alternative names. */
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
