/** Location of a PostgreSQL server and the database on it: the part of libpq's URLs that pdfseal accepts. */
import { isAbsolute } from 'node:path';

/** Longer paths do not fit into a socket's address (unix(7)). */
const SOCKET_BYTES_MAX = 107;

const PARAMETERS = ['host', 'port', 'user', 'sslmode', 'sslrootcert'];

const EXAMPLE = 'a URL such as "postgresql:///pdfseal?host=/run/postgresql"';

/** Reason why the URL of a database cannot be used, in the form of what is expected instead; undefined for a valid one. */
export function databaseUrlFault(text: string): string | undefined {
  if (!/^postgres(?:ql)?:\/\//.test(text) || !URL.canParse(text)) return `${EXAMPLE}, one for each server`;
  const url = new URL(text);
  const names = [...url.searchParams.keys()];
  if (url.password !== '' || names.includes('password'))
    return 'a URL without a password: store.password_file or store.password_credential names a file that holds it';
  if (
    url.hash !== '' ||
    names.some((name, index) => !PARAMETERS.includes(name) || names.indexOf(name) < index)
  )
    return `a URL whose parameters are ${PARAMETERS.join(', ')}, each at most once`;
  return serverFault(url);
}

/** The URL in the form for display. */
export function withoutPassword(text: string): string {
  if (!URL.canParse(text)) return '…';
  const url = new URL(text);
  url.password = '';
  url.searchParams.delete('password');
  return url.href;
}

function serverFault({ searchParams, hostname, port, pathname }: URL): string | undefined {
  const host = searchParams.get('host') ?? decodeURIComponent(hostname);
  if (!/^\/[^/]+$/.test(pathname)) return `${EXAMPLE}: the path names the database`;
  if (host === '') return `${EXAMPLE}: host names the folder of its Unix socket, or a server`;
  if (/[,\s]/.test(host)) return 'a URL with one host; a list of URLs for several servers';
  const number = searchParams.get('port') ?? (port || '5432');
  if (!/^[1-9]\d{0,4}$/.test(number) || Number(number) > 65_535) return 'a URL with a port from 1 to 65535';
  if (isAbsolute(host)) return socketFault(`${host}/.s.PGSQL.${number}`, searchParams);
  if (searchParams.get('sslmode') !== 'verify-full')
    return `a URL with sslmode=verify-full, because the server is reached over a network; or the folder of its Unix socket as host`;
  const roots = searchParams.get('sslrootcert');
  return roots === null || isAbsolute(roots)
    ? undefined
    : 'a URL whose sslrootcert is the absolute path of a PEM file with certificate authorities';
}

function socketFault(path: string, parameters: URLSearchParams): string | undefined {
  if (Buffer.byteLength(path) > SOCKET_BYTES_MAX)
    return `a URL whose socket has a path of at most ${SOCKET_BYTES_MAX} bytes: ${path} is longer`;
  return parameters.has('sslmode') || parameters.has('sslrootcert')
    ? 'a URL without sslmode and sslrootcert: there is no TLS on a Unix socket'
    : undefined;
}
