import { lookup as lookupName } from 'node:dns';
import { isIP, type LookupFunction } from 'node:net';
import { isDeepStrictEqual } from 'node:util';
import ipaddr from 'ipaddr.js';

type Address = ipaddr.IPv4 | ipaddr.IPv6;
type Network = [Address, number];

/** An allowed target: an origin, whose host can be `*` or begin with `*.`, or a network. */
export type Allowed =
  | { kind: 'origin'; protocol: string; host: string; port: string }
  | { kind: 'network'; network: Network };

/** The policy does not allow this target. The message gives an administrator the reason. */
export class TargetRefused extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'TargetRefused';
  }
}

/** No entry can allow these: the machine's own link, cloud metadata, broadcast, and unusable addresses. */
const NEVER: Network[] = [
  '0.0.0.0/8',
  '169.254.0.0/16',
  '224.0.0.0/4',
  '255.255.255.255/32',
  '100.100.100.200/32', // Alibaba's metadata
  '168.63.129.16/32', // Azure's
  '192.0.0.192/32', // Oracle's
  '::/128',
  'fe80::/10',
  'ff00::/8',
  'fd00:ec2::/32', // Amazon's
  'fd20:ce::254/128', // Google's
  'fd00:42::42/128', // Scaleway's
].map((text) => ipaddr.parseCIDR(text));

/** IPv4 addresses that no machine can have. */
const NOBODY: Network[] = ['0.0.0.0/8', '240.0.0.0/4'].map((text) => ipaddr.parseCIDR(text));

/** Global unicast addresses of IPv6 (RFC 4291, section 2.4). */
const GLOBAL_V6 = ipaddr.parseCIDR('2000::/3');

const RFC_6052_BYTES = [12, 13, 14, 15];
/** IPv6 prefixes that embed an IPv4 address, and the positions of its bytes. */
const CARRIERS: [Network, number[]][] = (
  [
    ['::/96', RFC_6052_BYTES], // IPv4-compatible (RFC 4291, section 2.5.5.1)
    ['::ffff:0:0:0/96', RFC_6052_BYTES], // IPv4-translated (RFC 2765, section 2.1)
    ['64:ff9b::/96', RFC_6052_BYTES], // NAT64 (RFC 6052, section 2.1)
    ['64:ff9b:1::/48', RFC_6052_BYTES], // local NAT64 (RFC 8215), for each length that its prefix can have (RFC 6052, section 2.2)
    ['64:ff9b:1::/48', [6, 7, 9, 10]],
    ['64:ff9b:1::/48', [7, 9, 10, 11]],
    ['64:ff9b:1::/48', [9, 10, 11, 12]],
    ['2002::/16', [2, 3, 4, 5]], // 6to4 (RFC 3056, section 2)
    ['2001::/32', [4, 5, 6, 7]], // the server of Teredo (RFC 4380, section 4)
  ] satisfies [string, number[]][]
).map(([prefix, bytes]) => [ipaddr.parseCIDR(prefix), bytes]);
/** A Teredo client's own address is in the last four bytes, with each bit inverted. */
const TEREDO = ipaddr.parseCIDR('2001::/32');

const ORIGIN = /^(https?):\/\/(\*|(?:\*\.)?[^/*?#@]+?)(?::(\d{1,5}))?\/?$/;

/** Reads one entry: `https://host`, `http://host:8080`, `https://*.host`, `https://*`, `10.0.0.0/8`, `192.0.2.7`; else undefined. */
export function parseAllowed(text: string): Allowed | undefined {
  if (isIP(text) !== 0) return parseNetwork(`${text}/${isIP(text) === 4 ? 32 : 128}`);
  if (/^[0-9A-Fa-f:.]+\/\d{1,3}$/.test(text)) return parseNetwork(text);
  const [, scheme = '', pattern = '', port = ''] = ORIGIN.exec(text) ?? [];
  const wildcard = pattern.startsWith('*') ? pattern.slice(0, 2) : '';
  // `*` stands for any name. The rest is parsed as a URL, so that entry and target compare alike.
  const url = URL.parse(`${scheme}://${pattern.slice(wildcard.length) || 'any'}${port && `:${port}`}`);
  if (url === null) return undefined;
  const host = wildcard === '*' ? '*' : wildcard + url.hostname;
  return { kind: 'origin', protocol: url.protocol, host, port: url.port };
}

function parseNetwork(text: string): Allowed | undefined {
  if (!ipaddr.isValidCIDR(text) || isIP(text.slice(0, text.indexOf('/'))) === 0) return undefined;
  const [address, bits] = ipaddr.parseCIDR(text);
  const isMapped = address instanceof ipaddr.IPv6 && address.isIPv4MappedAddress() && bits >= 96;
  return { kind: 'network', network: isMapped ? [address.toIPv4Address(), bits - 96] : [address, bits] };
}

/** An entry that can never allow the address it names. */
export interface UselessEntry {
  entry: string;
  /** The address, or the network, that is not allowed. */
  address: string;
  /** Whether no other entry can allow it either. */
  isForbidden: boolean;
}

/** The addresses of names that always stand for this machine (RFC 6761). */
const LOCALHOST = /^(?:.*\.)?localhost$/;

/** Entries of a list that name an address which the list does not allow. Names of other hosts are not looked up. */
export function uselessEntries(allow: readonly string[]): UselessEntry[] {
  const policy = new TargetPolicy(allow);
  return allow.flatMap((entry): UselessEntry[] => {
    const allowed = parseAllowed(entry);
    if (allowed === undefined) return [];
    if (allowed.kind === 'network')
      return NEVER.some((never) => isWithin(allowed.network, never))
        ? [{ entry, address: entry, isForbidden: true }]
        : [];
    const host = allowed.host.replace(/^\[(.*)\]$/, '$1');
    const addresses = LOCALHOST.test(host) ? ['127.0.0.1', '::1'] : isIP(host) === 0 ? [] : [host];
    const [address] = addresses;
    if (address === undefined || addresses.some((one) => policy.allows(one))) return [];
    return [{ entry, address, isForbidden: isNever(ipaddr.process(address)) }];
  });
}

/**
 * Decides what the daemon can connect to when a client names the target. A listed origin can have any public address. An address that is
 * not public, or whose origin is not listed, must be in a listed network. The checked address is also the connected one: the connection
 * itself looks up the name, once.
 */
export class TargetPolicy {
  readonly #origins: Extract<Allowed, { kind: 'origin' }>[];
  readonly #networks: Network[];
  readonly #resolve: typeof lookupName;

  /**
   * Throws Error for an entry that {@link parseAllowed} cannot read. An empty list refuses everything. `resolve`
   * looks up names.
   */
  constructor(allow: readonly string[], resolve = lookupName) {
    this.#resolve = resolve;
    const entries = allow.map((text) => {
      const entry = parseAllowed(text);
      if (entry === undefined) throw new Error(`${JSON.stringify(text)} is neither an origin nor a network`);
      return entry;
    });
    this.#origins = entries.filter((entry) => entry.kind === 'origin');
    this.#networks = entries.flatMap((entry) => (entry.kind === 'network' ? [entry.network] : []));
  }

  /**
   * The `lookup` option for a connection to this URL. With it, a socket can reach allowed addresses only. Throws
   * TargetRefused when the URL alone decides: `net` never looks up a literal address, so it is checked here. Call
   * this again for each redirect.
   */
  guard(url: URL): { lookup: LookupFunction } {
    if (!/^https?:$/.test(url.protocol)) throw new TargetRefused('only http and https can be connected to');
    if (url.username !== '' || url.password !== '') throw new TargetRefused('the URL holds credentials');
    const isListed = this.#origins.some((origin) => matches(origin, url));
    const host = url.hostname.replace(/^\[(.*)\]$/, '$1');
    const isLiteral = isIP(host) !== 0;
    if (isLiteral && !this.#allows(host, isListed))
      throw new TargetRefused(`${host} is not allowed${hintOf(host)}`);
    if (!isLiteral && !isListed && this.#networks.length === 0) {
      throw new TargetRefused(`${url.origin} is not allowed`);
    }
    return { lookup: (name, options, done) => this.#lookup(name, options, done, isListed) };
  }

  /** Whether a listed origin can have this address. */
  allows(address: string): boolean {
    return this.#allows(address, true);
  }

  #lookup(
    name: string,
    options: Parameters<LookupFunction>[1],
    done: Parameters<LookupFunction>[2],
    isListed: boolean,
  ): void {
    this.#resolve(name, { ...options, all: true }, (error, found) => {
      if (error) return done(error, []);
      const allowed = found.filter(({ address }) => this.#allows(address, isListed));
      const [first] = allowed;
      if (first === undefined) {
        const addresses = found.map(({ address }) => address).join(', ');
        const hint = hintOf(found[0]?.address);
        return done(new TargetRefused(`${name} is at ${addresses}, which is not allowed${hint}`), []);
      }
      if (options.all) done(null, allowed);
      else done(null, first.address, first.family);
    });
  }

  #allows(text: string, isListed: boolean): boolean {
    const address = ipaddr.process(text);
    const allowed = (isListed && isPublic(address)) || this.#isInListedNetwork(address);
    // A listed IPv6 network does not allow the embedded IPv4 addresses: these must be public, or listed themselves.
    return allowed && !isNever(address) && carriedBy(address).every((one) => this.#allowsCarried(one));
  }

  #allowsCarried(address: Address): boolean {
    return !isNever(address) && (isPublic(address) || this.#isInListedNetwork(address));
  }

  #isInListedNetwork(address: Address): boolean {
    return this.#networks.some((network) => isIn(network, address));
  }
}

/** Explains how an address differs from those for which an origin suffices. */
function hintOf(text = ''): string {
  if (isIP(text) === 0) return '';
  const address = ipaddr.process(text);
  if (isNever(address)) return ', whatever is listed';
  return isPublic(address) ? '' : ': it is not a public address, so its network must be listed';
}

function isNever(address: Address): boolean {
  return NEVER.some((network) => isIn(network, address));
}

function matches({ protocol, host, port }: Extract<Allowed, { kind: 'origin' }>, url: URL): boolean {
  if (url.protocol !== protocol || url.port !== port) return false;
  if (host === '*') return true;
  return host.startsWith('*.') ? url.hostname.endsWith(host.slice(1)) : url.hostname === host;
}

function isPublic(address: Address): boolean {
  return address.range() === 'unicast' && (address.kind() === 'ipv4' || isIn(GLOBAL_V6, address));
}

/** Each IPv4 address that a translator can extract from this address. */
function carriedBy(address: Address): Address[] {
  if (address.kind() === 'ipv4' || address.range() === 'loopback') return []; // `::1` is in the old IPv4-compatible range
  const bytes = address.toByteArray();
  const carried = CARRIERS.filter(([network]) => isIn(network, address)).map(([, places]) =>
    places.map((place) => bytes[place] ?? 0),
  );
  const last = bytes.slice(12);
  if (isIn(TEREDO, address)) carried.push(last.map((byte) => byte ^ 0xff));
  if (isIsatap(bytes)) carried.push(last);
  const addresses = carried.map((one) => ipaddr.fromByteArray(one));
  // A prefix can have several readings. Usually all but one give an address that no machine can have.
  const taken = addresses.filter((one) => !NOBODY.some((network) => isIn(network, one)));
  return taken.length > 0 ? taken : addresses;
}

/** ISATAP: the interface identifier begins like this under any prefix; two bits of its first byte vary (RFC 5214, section 6.1). */
function isIsatap(bytes: number[]): boolean {
  const [first = 0, ...others] = bytes.slice(8, 12);
  return (first & 0xfc) === 0 && isDeepStrictEqual(others, [0x00, 0x5e, 0xfe]);
}

function isWithin([address, bits]: Network, around: Network): boolean {
  return bits >= around[1] && isIn(around, address);
}

function isIn([network, bits]: Network, address: Address): boolean {
  return network.kind() === address.kind() && address.match(network, bits);
}
