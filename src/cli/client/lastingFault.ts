import { connect } from 'node:tls';
import { OperatorError } from '../../base/errors.ts';
import { codeOf } from '../../base/systemReason.ts';
import { toNoAnswer } from '../../web/noAnswer.ts';

/** The settings with which the command tried to reach the service, for messages. */
export interface Attempted {
  url: URL;
  /** Whether authorities were named with --tls-ca. */
  hasCa: boolean;
  socketPath: string | undefined;
}

/** The service cannot be reached in this way, and a repeat cannot change that. */
export class Unreachable extends OperatorError {
  declare readonly code: 'server_untrusted' | 'server_unreachable';
  declare readonly remedy: string;

  constructor(code: Unreachable['code'], message: string, remedy: string, cause: unknown) {
    super(message, { code, remedy, cause });
    this.name = 'Unreachable';
  }
}

/** TLS errors of a server that is starting, or of a disturbed connection. */
const PASSING_TLS = /internal error|unexpected eof|bad record mac/i;
/** HTTP errors of a server that ends in the middle of an answer. */
const PASSING_HTTP = ['HPE_INVALID_EOF_STATE'];
/** Time limit of a TLS handshake. */
const HANDSHAKE_MS_MAX = 5_000;

/** The reason why a failed request cannot succeed later; undefined if it can. */
export async function lastingFault(error: Error, attempted: Attempted): Promise<Unreachable | undefined> {
  const { url, socketPath } = attempted;
  const code = codeOf(error);
  const unreachable = (message: string, remedy: string) =>
    new Unreachable('server_unreachable', message, remedy, error);
  switch (toNoAnswer(error).reason) {
    case 'tls_failed':
      return tlsFault(error, code, attempted);
    case 'invalid_answer':
      if (PASSING_HTTP.includes(code)) return undefined;
      return unreachable(`${url.host} does not answer in HTTP`, 'check --url: this may be another service');
    case 'name_not_found':
      // EAI_AGAIN: the name servers do not answer.
      if (code !== 'ENOTFOUND') return undefined;
      return unreachable(`the host ${url.hostname} does not exist`, 'check the name in --url');
    case 'connection_reset':
      if (url.protocol !== 'http:' || !(await shakesHands(attempted))) return undefined;
      return unreachable(`${url.host} uses TLS, but --url says http`, 'write https in --url');
    default:
      if (socketPath === undefined || !['EACCES', 'EPERM', 'ENOTSOCK', 'EINVAL'].includes(code))
        return undefined;
      return unreachable(
        `cannot open ${socketPath} (${code})`,
        'name the socket of the service with --unix-socket, and run this as a member of its group',
      );
  }
}

function tlsFault(error: Error, code: string, { url: { host, hostname }, hasCa }: Attempted) {
  const fault = (kind: Unreachable['code'], message: string, remedy: string) =>
    new Unreachable(kind, message, remedy, error);
  if (code === 'ERR_TLS_CERT_ALTNAME_INVALID') {
    const names =
      'cert' in error ? ((error.cert as { subjectaltname?: string }).subjectaltname ?? 'none') : '';
    const message = `the certificate of ${host} is not for ${hostname}, but for: ${names}`;
    return fault('server_untrusted', message, 'use a name in --url that the certificate has');
  }
  if (code === 'CERT_HAS_EXPIRED' || code === 'CERT_NOT_YET_VALID') {
    const when = code === 'CERT_HAS_EXPIRED' ? 'has expired' : 'is not valid yet';
    const remedy = 'have the certificate renewed; if it is valid, set the clock of this machine';
    return fault('server_untrusted', `the certificate of ${host} ${when}`, remedy);
  }
  if (/^(CERT_|UNABLE_TO_|SELF_SIGNED|DEPTH_ZERO|INVALID_|PATH_LENGTH)/.test(code)) {
    const [reason] = error.message.split(';', 1);
    const message = `the certificate of ${host} is from an authority that is not trusted here (${reason})`;
    const remedy = hasCa
      ? 'name the PEM file of its authority with --tls-ca; the file you named is of another authority'
      : 'name the PEM file of its authority with --tls-ca';
    return fault('server_untrusted', message, remedy);
  }
  const reason = opensslReason(error);
  if (PASSING_TLS.test(reason)) return undefined;
  if (/wrong version number|packet length|http request/.test(reason))
    return fault(
      'server_unreachable',
      `${host} does not use TLS (${reason})`,
      'check the port and the scheme in --url',
    );
  const remedy = /alert (certificate|bad certificate|unknown ca|handshake failure)/.test(reason)
    ? 'name a certificate that the service accepts, and its key, with --tls-certificate and --tls-key'
    : 'configure a TLS version and a cipher that the server and this client have in common';
  return fault('server_unreachable', `${host} refuses TLS with this client (${reason})`, remedy);
}

/** OpenSSL's own reason: one field of its messages. */
function opensslReason(error: Error): string {
  if ('reason' in error && typeof error.reason === 'string') return error.reason;
  return (
    /error:[0-9A-F]{1,16}:[^:]{0,64}:[^:]{0,64}:([^:\n]{1,128})/.exec(error.message)?.[1] ?? error.message
  );
}

/** Whether the server uses TLS. Does not trust any certificate, and sends no data. */
function shakesHands({ url, socketPath }: Attempted): Promise<boolean> {
  const at =
    socketPath === undefined ? { host: url.hostname, port: Number(url.port || 80) } : { path: socketPath };
  return new Promise((resolve) => {
    const socket = connect({ ...at, rejectUnauthorized: false });
    const timer = setTimeout(() => socket.destroy(), HANDSHAKE_MS_MAX);
    const end = (isTls: boolean) => {
      clearTimeout(timer);
      socket.destroy();
      resolve(isTls);
    };
    socket.once('secureConnect', () => end(true));
    // A server that asks for a client certificate uses TLS too.
    socket.once('error', (error) => end(/alert/.test(opensslReason(error))));
    socket.once('close', () => end(false));
  });
}
