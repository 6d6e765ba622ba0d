import { isIP } from 'node:net';
import type { z } from 'zod';
import { encodeQuorum, type QuorumPolicy, quorumFault } from '../log/quorum.ts';
import { formatAddress, isLoopback, type ListenAddress } from '../net/address.ts';
import type { KeyPath } from './toml.ts';

/** The name of the built-in authority among `timestamp.authorities`. */
export const BUILT_IN = 'built-in';

const HOUR_MS = 3_600_000;

/** As much of the file as the checks between its keys look at. */
interface Tables {
  http: {
    listen: readonly ListenAddress[];
    public_url?: string | undefined;
    clear_text_beyond_loopback: boolean;
    tls?: { key_file?: string | undefined; key_credential?: string | undefined } | undefined;
    uploads_max: number;
    uploads_per_client_max: number;
  };
  compliance_mode: boolean;
  sealing: { give_up_after: number };
  retention: { document_hours: number };
  kms: { quorum: QuorumPolicy; partitions: TokenTable[] };
  timestamp: { authorities: string[]; keys: TokenTable[]; remotes: Record<string, unknown> };
}

interface TokenTable {
  region: string;
  key_label: string;
  token_label?: string | undefined;
  token_serial?: string | undefined;
  pin_file?: string | undefined;
  pin_credential?: string | undefined;
}

type Refuse = (path: KeyPath, expected: string, found?: unknown) => void;

/** What no single key can say. Each issue carries the key an administrator would change. */
export function consistent(payload: z.core.ParsePayload<Tables>): void {
  const { http, compliance_mode, sealing, retention, kms, timestamp } = payload.value;
  const refuse: Refuse = (path, message, input) => {
    payload.issues.push({ code: 'custom', path: [...path], message, input });
  };
  if (http.uploads_per_client_max > http.uploads_max) {
    const expected = `at most http.uploads_max, ${http.uploads_max} (left out it is 512)`;
    refuse(['http', 'uploads_per_client_max'], expected, http.uploads_per_client_max);
  }
  const hoursMin = Math.ceil(sealing.give_up_after / HOUR_MS) + 1;
  if (compliance_mode && retention.document_hours < hoursMin) {
    const expected = `at least ${hoursMin}, an hour more than sealing.give_up_after: until then a job may have no receipt`;
    refuse(['retention', 'document_hours'], expected, retention.document_hours);
  }
  checkAddresses(http, refuse);
  const fault = quorumFault(kms.quorum, kms.partitions);
  if (fault !== undefined) {
    refuse(['kms', 'quorum'], `what kms.partitions can meet: ${fault}`, encodeQuorum(kms.quorum));
  }
  checkTokens(['kms', 'partitions'], kms.partitions, refuse);
  checkTokens(['timestamp', 'keys'], timestamp.keys, refuse);
  checkAuthorities(timestamp, refuse);
}

const EVERYWHERE = new Set(['0.0.0.0', '::']);

/** Names are looked up only when it listens; what they stand for is checked then. */
function checkAddresses({ listen, public_url, tls, ...http }: Tables['http'], refuse: Refuse): void {
  const tcp = listen.filter((address) => 'host' in address);
  const open = tcp.find(({ host }) => isIP(host) !== 0 && !isLoopback(host));
  if (open && !tls && !http.clear_text_beyond_loopback) {
    const expected =
      'an address of this machine alone, such as "127.0.0.1:8400"; or [http.tls]; or, if something else protects API keys and ' +
      'documents on the way, http.clear_text_beyond_loopback = true';
    refuse(['http', 'listen'], expected, formatAddress(open));
  }
  if (public_url === undefined && (tcp[0] === undefined || EVERYWHERE.has(tcp[0].host))) {
    refuse(['http', 'public_url'], 'the URL clients use: http.listen does not tell it', public_url);
  }
  if (tls && (tls.key_file === undefined) === (tls.key_credential === undefined)) {
    const expected = 'either key_file or key_credential, and only one of them';
    refuse(['http', 'tls', 'key_file'], expected, tls.key_file);
  }
}

function checkTokens(list: KeyPath, tokens: TokenTable[], refuse: Refuse): void {
  for (const [index, token] of tokens.entries()) {
    const { token_label, token_serial, pin_file, pin_credential, region, key_label } = token;
    const at = [...list, index];
    if ((token_label === undefined) === (token_serial === undefined)) {
      refuse([...at, 'token_label'], 'either token_label or token_serial, and only one of them', token_label);
    }
    if ((pin_file === undefined) === (pin_credential === undefined)) {
      refuse([...at, 'pin_file'], 'either pin_file or pin_credential, and only one of them', pin_file);
    }
    const first = tokens.findIndex((other) => other.region === region && other.key_label === key_label);
    if (first !== index) {
      refuse([...at, 'key_label'], 'region and key_label together to name one partition only', key_label);
    }
  }
}

function checkAuthorities({ authorities, keys, remotes }: Tables['timestamp'], refuse: Refuse): void {
  for (const [index, name] of authorities.entries()) {
    const at = ['timestamp', 'authorities', index];
    if (authorities.indexOf(name) !== index) refuse(at, 'each authority once', name);
    else if (name === BUILT_IN && keys.length === 0) {
      refuse(at, 'a key for the built-in authority: [[timestamp.keys]]', name);
    } else if (name !== BUILT_IN && !Object.hasOwn(remotes, name)) {
      refuse(at, `"${BUILT_IN}" or the name of a [timestamp.remotes] table`, name);
    }
  }
}
