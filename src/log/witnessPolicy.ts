import { toHex } from '../base/bytes.ts';
import { type Cosigner, parseCosigner } from './cosignature.ts';
import { parseVkey, type VerifierKey } from './verifierKey.ts';

/** The witnesses that must have cosigned a checkpoint (C2SP tlog-policy). */
export interface WitnessPolicy {
  logs: PolicyLog[];
  witnesses: PolicyWitness[];
  /** In the order of the policy: each group names witnesses and groups before it. */
  groups: PolicyGroup[];
  /** Name of a witness or a group; undefined for `none`: no cosignature is required. */
  quorum: string | undefined;
}

export interface PolicyLog {
  vkey: string;
  key: VerifierKey;
  url: URL | undefined;
}

export interface PolicyWitness extends Cosigner {
  /** Name in the policy. {@link Cosigner.name} is the name of its key. */
  label: string;
  /** Prefix of `/add-checkpoint`; absent for a witness that cannot be reached over this network. */
  url: URL | undefined;
}

export interface PolicyGroup {
  name: string;
  /** Number of members required, 1 or more. */
  needed: number;
  /** Names of witnesses and groups. */
  members: string[];
}

/** The fault of a policy, its line, and the remedy. */
export class WitnessPolicyError extends Error {
  constructor(line: number, message: string) {
    super(`line ${line}: ${message}`);
    this.name = 'WitnessPolicyError';
  }
}

/** Maximum number of witnesses, of groups and of logs; a reader must accept at least as many (C2SP tlog-policy). */
const ENTRIES_MAX = 32;
/** Room for 32 keys of ML-DSA-44, with comments. */
const POLICY_LENGTH_MAX = 262_144;
/** Maximum length of an item in a line: a post-quantum key fits. */
const NAME_LENGTH_MAX = 256;

/**
 * Parses a policy. `origin`: the log that the policy is for, in addition to those named in its lines. Throws WitnessPolicyError. Any input
 * is safe, and takes linear time.
 */
export function parseWitnessPolicy(text: string, origin?: string): WitnessPolicy {
  if (text.length > POLICY_LENGTH_MAX)
    throw new WitnessPolicyError(1, `the policy is longer than ${POLICY_LENGTH_MAX} characters`);
  const reader = new PolicyReader(origin);
  const lines = text.split('\n');
  for (const [index, line] of lines.entries()) {
    const [keyword = '', ...items] = line.split(/[ \t]/).filter((item) => item !== '');
    try {
      // Only tabs and newlines are allowed (C2SP tlog-policy, "Character set").
      // biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern must find them
      const [control] = /[\x00-\x08\x0b-\x1f\x7f]/.exec(line) ?? [];
      if (control !== undefined)
        throw new Fault(
          `the line has the control character ${quoted(control)}; remove it and save it as plain text`,
        );
      if (keyword === '' || keyword.startsWith('#')) continue;
      reader.read(keyword, items);
    } catch (error) {
      if (error instanceof Fault) throw new WitnessPolicyError(index + 1, error.message);
      throw error;
    }
  }
  const { policy } = reader;
  if (policy === undefined)
    throw new WitnessPolicyError(
      lines.length,
      'the policy has no quorum; end it with `quorum <name>` or `quorum none`',
    );
  return policy;
}

/** Whether these witnesses, by their names in the policy, satisfy its quorum. Other names do not count. */
export function satisfiesPolicy(
  { witnesses, groups, quorum }: Omit<WitnessPolicy, 'logs'>,
  cosigned: ReadonlySet<string>,
): boolean {
  const there = new Set(witnesses.map(({ label }) => label).filter((label) => cosigned.has(label)));
  for (const { name, needed, members } of groups)
    if (members.filter((member) => there.has(member)).length >= needed) there.add(name);
  return quorum === undefined || there.has(quorum);
}

/** A fault of one line. */
class Fault extends Error {}

class PolicyReader {
  /** By public key. */
  readonly #logs = new Map<string, PolicyLog>();
  readonly #witnesses = new Map<string, PolicyWitness>();
  readonly #groups = new Map<string, PolicyGroup>();
  /** Public keys of the witnesses, in hexadecimal: one key under two names would count twice. */
  readonly #keys = new Set<string>();
  /** Names that are members of a group. */
  readonly #members = new Set<string>();
  /** The names of the logs: an ML-DSA key line of a log is byte for byte that of a cosigner with the same name. */
  readonly #origins: Set<string>;
  #quorum: string | undefined;

  constructor(origin: string | undefined) {
    this.#origins = new Set(origin === undefined ? [] : [origin]);
  }

  /** The policy; undefined if there is no quorum. */
  get policy(): WitnessPolicy | undefined {
    if (this.#quorum === undefined) return undefined;
    return {
      logs: [...this.#logs.values()],
      witnesses: [...this.#witnesses.values()],
      groups: [...this.#groups.values()],
      quorum: this.#quorum === NONE ? undefined : this.#quorum,
    };
  }

  read(keyword: string, items: readonly string[]): void {
    if (keyword === 'log') this.#readLog(items);
    else if (keyword === 'witness') this.#readWitness(items);
    else if (keyword === 'group') this.#readGroup(items);
    else if (keyword === 'quorum') this.#readQuorum(items);
    else
      throw new Fault(
        `${quoted(keyword)} is not a keyword; write log, witness, group, quorum or a # for a comment`,
      );
  }

  #readLog([vkey, url, ...more]: readonly string[]): void {
    if (vkey === undefined || more.length > 0) throw new Fault('write `log <vkey> [url]`');
    const key = parseVkey(vkey);
    if (key === undefined) throw new Fault(`${quoted(vkey)} is not a verifier key of a log`);
    if (this.#logs.has(key.spki)) throw new Fault('the key of this log is there twice; remove the line');
    assertRoom(this.#logs, 'logs');
    this.#origins.add(key.name);
    for (const { name } of this.#witnesses.values()) this.#assertNoLog(name);
    this.#logs.set(key.spki, { vkey, key, url: parseUrl(url) });
  }

  #readWitness([label, vkey, url, ...more]: readonly string[]): void {
    if (label === undefined || vkey === undefined || more.length > 0)
      throw new Fault('write `witness <name> <vkey> [url]`');
    this.#assertNew(label);
    const cosigner = parseCosigner(vkey);
    if (cosigner === undefined)
      throw new Fault(
        `${quoted(vkey)} is not a verifier key of a witness: copy the key that the witness publishes; its type is 04 (Ed25519) or 06 (ML-DSA-44)`,
      );
    this.#assertNoLog(cosigner.name);
    const key = toHex(cosigner.key);
    if (this.#keys.has(key)) throw new Fault('another witness has this key; remove one of the two');
    assertRoom(this.#witnesses, 'witnesses');
    this.#keys.add(key);
    this.#witnesses.set(label, { label, ...cosigner, url: parseUrl(url) });
  }

  #readGroup([name, threshold, ...members]: readonly string[]): void {
    if (name === undefined || threshold === undefined || members.length === 0)
      throw new Fault('write `group <name> all|any|<number> <name>...`');
    this.#assertNew(name);
    for (const [index, member] of members.entries()) {
      this.#assertKnown(member);
      if (this.#members.has(member) || members.indexOf(member) < index)
        throw new Fault(`${quoted(member)} is in a group already; a name belongs to one group at most`);
    }
    assertRoom(this.#groups, 'groups');
    this.#groups.set(name, { name, needed: parseThreshold(threshold, members.length), members });
    for (const member of members) this.#members.add(member);
  }

  #readQuorum([name, ...more]: readonly string[]): void {
    if (name === undefined || more.length > 0) throw new Fault('write `quorum <name>` or `quorum none`');
    if (this.#quorum !== undefined) throw new Fault('there is a quorum already; remove one of the two lines');
    if (name !== NONE) this.#assertKnown(name);
    this.#quorum = name;
  }

  #isKnown(name: string): boolean {
    return this.#witnesses.has(name) || this.#groups.has(name);
  }

  #assertKnown(name: string): void {
    if (!this.#isKnown(name))
      throw new Fault(`${quoted(name)} is not a witness or group of a line above; define it first`);
  }

  /** A log that counted as its own witness would not need any witness. */
  #assertNoLog(name: string): void {
    if (this.#origins.has(name))
      throw new Fault(
        `the key of a witness has the name of the log, ${quoted(name)}: a log cannot witness itself; name a witness whose key has a name of its own`,
      );
  }

  #assertNew(name: string): void {
    if (name === NONE) throw new Fault('none is reserved; choose another name');
    if (name.length > NAME_LENGTH_MAX) throw new Fault(`a name has at most ${NAME_LENGTH_MAX} characters`);
    if (this.#isKnown(name)) throw new Fault(`${quoted(name)} is defined already; choose another name`);
  }
}

const NONE = 'none';

function assertRoom(entries: ReadonlyMap<string, unknown>, what: string): void {
  if (entries.size >= ENTRIES_MAX) throw new Fault(`a policy has at most ${ENTRIES_MAX} ${what}`);
}

function parseThreshold(text: string, members: number): number {
  if (text === 'any') return 1;
  if (text === 'all') return members;
  const needed = /^[1-9][0-9]{0,2}$/.test(text) ? Number(text) : 0;
  if (needed < 1 || needed > members)
    throw new Fault(
      `${quoted(text)} is not all, any or a number from 1 to ${members}, the number of members`,
    );
  return needed;
}

/** A prefix to which a path can be appended: nothing may follow its path. */
function parseUrl(text: string | undefined): URL | undefined {
  if (text === undefined) return undefined;
  const url = URL.parse(text);
  if (url === null || !/^https?:$/.test(url.protocol))
    throw new Fault(`${quoted(text)} is not a URL that begins with http: or https:`);
  if (url.username !== '' || url.password !== '' || url.search !== '' || url.hash !== '')
    throw new Fault(
      `${quoted(text)} has a user, a query or a fragment; write scheme, host, port and path only`,
    );
  return url;
}

/** Text of the policy, formatted for messages. */
function quoted(text: string): string {
  return JSON.stringify(text.length > 80 ? `${text.slice(0, 80)}…` : text);
}
