import { BlockList, isIP } from 'node:net';

/** An address to listen on: a Unix socket or a TCP port. */
export type ListenAddress = SocketPath | HostPort;

export interface SocketPath {
  readonly path: string;
}

export interface HostPort {
  readonly host: string;
  /** For listening, 0 means any free port. */
  readonly port: number;
}

const LOOPBACK = new BlockList();
LOOPBACK.addSubnet('127.0.0.0', 8, 'ipv4');
LOOPBACK.addAddress('::1', 'ipv6');

/** Whether only this machine can reach the address. False for every name, since its meaning depends on a look-up. */
export function isLoopback(host: string): boolean {
  return isIP(host) !== 0 && LOOPBACK.check(host, isIP(host) === 6 ? 'ipv6' : 'ipv4');
}

/** Parses `127.0.0.1:8400`, `[::1]:8400` or `localhost:8400`; undefined for anything else. */
export function parseHostPort(text: string): HostPort | undefined {
  const [, bracketed, plain, digits] =
    /^(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9.-]+)):(\d{1,5})$/.exec(text) ?? [];
  const host = bracketed ?? plain;
  const port = Number(digits);
  return host !== undefined && port <= 65_535 ? { host, port } : undefined;
}

/** Parses `unix:` and a path, or the forms of {@link parseHostPort}; undefined for anything else. */
export function parseListenAddress(text: string): ListenAddress | undefined {
  const path = /^unix:([^\0]+)$/.exec(text)?.[1];
  return path === undefined ? parseHostPort(text) : { path };
}

/** The inverse of {@link parseListenAddress}. */
export function formatAddress(address: ListenAddress): string {
  if ('path' in address) return `unix:${address.path}`;
  const { host, port } = address;
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
}
