import { lookup as lookupName } from 'node:dns';
import { isIP, type LookupFunction } from 'node:net';
import ipaddr from 'ipaddr.js';

type Address = ipaddr.IPv4 | ipaddr.IPv6;
type Network = [Address, number];

/** What an administrator allows: an origin, in which the host may be `*` or begin with `*.`, or a network. */
export type Allowed =
  | { kind: 'origin'; protocol: string; host: string; port: string }
  | { kind: 'network'; network: Network };

/** A target that is not to be connected to. The message says why, to an administrator. */
export class TargetRefused extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'TargetRefused';
  }
}

/** No list can allow these: they reach the machine's own link, a cloud's metadata, everybody, or nobody. */
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
  'fd00:ec2::254/128', // Amazon's
].map((text) => ipaddr.parseCIDR(text));

/** Global unicast addresses of IPv6 (RFC 4291, section 2.4). */
const GLOBAL_V6 = ipaddr.parseCIDR('2000::/3');

/** Where IPv6 carries an IPv4 address: the prefix, and the byte that address begins at. */
const CARRIERS: [Network, number][] = [
  [ipaddr.parseCIDR('::/96'), 12],
  [ipaddr.parseCIDR('::ffff:0:0:0/96'), 12],
  [ipaddr.parseCIDR('64:ff9b::/96'), 12],
  [ipaddr.parseCIDR('64:ff9b:1::/48'), 12],
  [ipaddr.parseCIDR('2002::/16'), 2],
];

const ORIGIN = /^(https?):\/\/(\*|(?:\*\.)?[^/*?#@]+?)(?::(\d{1,5}))?\/?$/;

/** Reads one entry: `https://host`, `http://host:8080`, `https://*.host`, `https://*`, `10.0.0.0/8`, `192.0.2.7`; else undefined. */
export function parseAllowed(text: string): Allowed | undefined {
  if (isIP(text) !== 0) return parseNetwork(`${text}/${isIP(text) === 4 ? 32 : 128}`);
  if (/^[0-9A-Fa-f:.]+\/\d{1,3}$/.test(text)) return parseNetwork(text);
  const [, scheme = '', pattern = '', port = ''] = ORIGIN.exec(text) ?? [];
  const wildcard = pattern.startsWith('*') ? pattern.slice(0, 2) : '';
  // `*` stands for any name: the rest is read as a URL is, so that both compare alike.
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

/**
 * What the daemon may connect to when somebody else names the target. A listed origin may be at any public address; an
 * address that is not public, or whose origin is not listed, must be in a listed network. The address that is checked is the one
 * that is connected to: names are looked up once, by the connection itself.
 */
export class TargetPolicy {
  readonly #origins: Extract<Allowed, { kind: 'origin' }>[];
  readonly #networks: Network[];
  readonly #resolve: typeof lookupName;

  /**
   * Throws Error on an entry that {@link parseAllowed} does not read. An empty list refuses everything. `resolve` is what names
   * are looked up with.
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
   * The `lookup` for a connection to this URL: with it a socket reaches allowed addresses only. Throws TargetRefused for what
   * can be refused by the URL alone; `net` never looks up a literal address, so that is decided here. Ask again for each redirect.
   */
  guard(url: URL): { lookup: LookupFunction } {
    if (!/^https?:$/.test(url.protocol)) throw new TargetRefused('only http and https can be connected to');
    if (url.username !== '' || url.password !== '') throw new TargetRefused('the URL holds credentials');
    const isListed = this.#origins.some((origin) => matches(origin, url));
    const host = url.hostname.replace(/^\[(.*)\]$/, '$1');
    const isLiteral = isIP(host) !== 0;
    if (isLiteral && !this.#allows(host, isListed)) throw new TargetRefused(`${host} is not allowed`);
    if (!isLiteral && !isListed && this.#networks.length === 0) {
      throw new TargetRefused(`${url.origin} is not allowed`);
    }
    return { lookup: (name, options, done) => this.#lookup(name, options, done, isListed) };
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
        return done(new TargetRefused(`${name} is at ${addresses}, which is not allowed`), []);
      }
      if (options.all) done(null, allowed);
      else done(null, first.address, first.family);
    });
  }

  #allows(text: string, isListed: boolean): boolean {
    const address = ipaddr.process(text);
    if ([address, ...carriedBy(address)].some((one) => NEVER.some((network) => isIn(network, one)))) {
      return false;
    }
    return (isListed && isPublic(address)) || this.#networks.some((network) => isIn(network, address));
  }
}

function matches({ protocol, host, port }: Extract<Allowed, { kind: 'origin' }>, url: URL): boolean {
  if (url.protocol !== protocol || url.port !== port) return false;
  if (host === '*') return true;
  return host.startsWith('*.') ? url.hostname.endsWith(host.slice(1)) : url.hostname === host;
}

function isPublic(address: Address): boolean {
  return address.range() === 'unicast' && (address.kind() === 'ipv4' || isIn(GLOBAL_V6, address));
}

function carriedBy(address: Address): Address[] {
  if (address.range() === 'loopback') return []; // `::1` lies where IPv4-compatible addresses did
  return CARRIERS.filter(([network]) => isIn(network, address)).map(([, at]) =>
    ipaddr.fromByteArray(address.toByteArray().slice(at, at + 4)),
  );
}

function isIn([network, bits]: Network, address: Address): boolean {
  return network.kind() === address.kind() && address.match(network, bits);
}
