import { BlockList, isIP } from 'node:net';
import { availableParallelism } from 'node:os';
import { z } from 'zod';
import { parseBytes, parseDurationMs } from '../base/units.ts';
import { ENGINE_CHOICES } from '../hash/choose.ts';
import { parseQuorum } from '../log/quorum.ts';
import { parseAllowed } from '../net/policy.ts';
import { ENCRYPTED_POLICIES } from '../scan/documentScan.ts';
import type { ClamdAddress } from '../scan/session.ts';
import { BUILT_IN, consistent } from './consistency.ts';

/** Names of clients, organisations and regions: they appear in URLs, file names and receipts. */
export const NAME_PATTERN = /^[a-z0-9][a-z0-9-]{0,62}$/;

const CLOCK_TRUSTS = ['chrony', 'timedatectl', 'system'] as const;
/** Means pdfseald's own authority and nothing more; a site with a practice statement has a policy of its own. */
const DEFAULT_POLICY = '2.25.212174945492328153639561231497824086053';

const QUORUM_EXPECTED =
  'how many partitions must sign, a whole number from 1 to 16, or how many of some regions: "2 of eu, us, ap"';

const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const;

/**
 * One key of the file: `read` gives its value, or undefined for what does not fit. `expected` completes the sentence
 * "expected …" and is all an administrator gets to see, so it says the form, the bounds and an example.
 */
function key<T>(expected: string, read: (found: unknown) => T | undefined) {
  return z.unknown().transform((found, context): T => {
    const value = read(found);
    if (value !== undefined) return value;
    context.issues.push({ code: 'custom', message: expected, input: found });
    return z.NEVER;
  });
}

/** One table of the file; keys that are not in `shape` are refused. */
function table<S extends z.core.$ZodLooseShape>(shape: S) {
  const known = Object.keys(shape).join(', ');
  return z.strictObject(shape, {
    error: (issue) =>
      issue.code === 'unrecognized_keys' ? `one of: ${known}` : `a table with the keys ${known}`,
  });
}

function text(expected: string, pattern: RegExp) {
  return key(expected, (found) => (typeof found === 'string' && pattern.test(found) ? found : undefined));
}

function path(what: string) {
  return text(`the path of ${what}; a relative one starts at the folder of this file`, /^[^\0]+$/);
}

function integer(what: string, min: number, max: number) {
  return key(`${what}: a whole number from ${min} to ${max}`, (found) => within(found, min, max));
}

function flag(what: string) {
  return key(`${what}: true or false, without quotes`, (found) =>
    typeof found === 'boolean' ? found : undefined,
  );
}

/** Milliseconds. */
function duration(what: string, min: string, max: string) {
  return key(`${what}: a duration from "${min}" to "${max}" (units ms, s, m, h, d)`, (found) =>
    typeof found === 'string'
      ? within(parseDurationMs(found), parseDurationMs(min), parseDurationMs(max))
      : undefined,
  );
}

/** Bytes. */
function size(what: string, min: string, max: string) {
  return key(`${what}: a size from "${min}" to "${max}" (units B, KiB, MiB, GiB, TiB)`, (found) =>
    typeof found === 'string' ? within(parseBytes(found), parseBytes(min), parseBytes(max)) : undefined,
  );
}

function within(value: unknown, min = 0, max = Number.MAX_SAFE_INTEGER): number | undefined {
  return typeof value === 'number' && Number.isInteger(value) && value >= min && value <= max
    ? value
    : undefined;
}

function share(found: unknown): number | undefined {
  return typeof found === 'number' && found >= 0 && found <= 1 ? found : undefined;
}

function listenAddress(found: unknown): { host: string; port: number } | undefined {
  if (typeof found !== 'string') return undefined;
  const [, bracketed, plain, digits] =
    /^(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9.-]+)):(\d{1,5})$/.exec(found) ?? [];
  const host = bracketed ?? plain;
  const port = within(Number(digits), 0, 65_535);
  return host === undefined || port === undefined ? undefined : { host, port };
}

function clamdAddress(found: unknown): ClamdAddress | undefined {
  const [, scheme, rest = ''] = /^(unix|tcp):(.+)$/.exec(String(found)) ?? [];
  // Longer paths do not fit into a socket's address (unix(7)).
  if (scheme === 'unix')
    return rest.startsWith('/') && Buffer.byteLength(rest) < 108 ? { path: rest } : undefined;
  const address = listenAddress(rest);
  return address && address.port > 0 ? address : undefined;
}

/** Who reaches it may take partitions out of service, so it is never where a network is. */
function adminAddress(found: unknown): { path: string } | { host: string; port: number } | undefined {
  const path = typeof found === 'string' ? /^unix:([^\0]+)$/.exec(found)?.[1] : undefined;
  if (path !== undefined) return { path };
  const address = listenAddress(found);
  return address !== undefined && isLoopback(address.host) ? address : undefined;
}

function isLoopback(host: string): boolean {
  return isIP(host) !== 0 && LOOPBACK.check(host, isIP(host) === 6 ? 'ipv6' : 'ipv4');
}

const LOOPBACK = new BlockList();
LOOPBACK.addSubnet('127.0.0.0', 8, 'ipv4');
LOOPBACK.addAddress('::1', 'ipv6');

function authorityUrl(found: unknown): string | undefined {
  if (typeof found !== 'string' || !URL.canParse(found)) return undefined;
  const { protocol, username, password } = new URL(found);
  return /^https?:$/.test(protocol) && username === '' && password === '' ? found : undefined;
}

function oid(what: string) {
  return text(`${what}: an object identifier such as "1.3.6.1.4.1.32473.1"`, /^[012](\.(0|[1-9]\d{0,39}))+$/);
}

function publicUrl(found: unknown): string | undefined {
  if (typeof found !== 'string' || !URL.canParse(found)) return undefined;
  const url = new URL(found);
  const bare = url.username === '' && url.password === '' && url.search === '' && url.hash === '';
  if (!/^https?:$/.test(url.protocol) || !bare || /\/v1\/?$/.test(url.pathname)) return undefined;
  return url.href.replace(/\/+$/, '');
}

/** What the daemon may connect to when a caller names the target. */
const allowList = z.array(
  key(
    'an origin ("https://erp.example.com", "https://*.example.com", "https://*") or a network ("10.0.0.0/8")',
    (found) => (typeof found === 'string' && parseAllowed(found) !== undefined ? found : undefined),
  ),
  { error: 'a list of origins and networks: ["https://erp.example.com", "10.0.0.0/8"]; [] for none' },
);

const retryDelays = z
  .array(duration('the wait before a repeat', '1ms', '30d'), {
    error: 'a list of waits before each repeat: ["5s", "5m"]; [] for none',
  })
  .max(32, { error: 'at most 32 repeats' });

const partition = table({
  region: text('a region name such as "eu-west" (lower case, digits, dashes)', NAME_PATTERN),
  module: path('the vendor\'s PKCS#11 module, such as "/usr/lib/softhsm/libsofthsm2.so"'),
  token_label: text('the label of the token (1 to 32 characters)', /^.{1,32}$/u).optional(),
  token_serial: text('the serial number of the token (1 to 16 characters)', /^.{1,16}$/u).optional(),
  key_label: text(
    'a key label such as "seal-2026" (letters, digits, dots, dashes, underscores)',
    /^[\w.-]{1,64}$/,
  ),
  pin_file: path('the file that holds the PIN and nothing else').optional(),
  pin_credential: text('the name of a systemd credential that holds the PIN', /^[\w.-]{1,255}$/).optional(),
  environment: z
    .record(
      z.string(),
      text('environment variables for the module: names and text values, { NAME = "value" }', /^[^\0]*$/),
      { error: 'a table of environment variables for the module: { NAME = "value" }' },
    )
    .optional(),
});

const partners = z.array(text('the name of an organization', NAME_PATTERN), {
  error: 'a list of organizations that may see jobs of visibility "partner": ["beta"]',
});

const remote = table({
  url: key('the http(s) URL of an RFC 3161 authority', authorityUrl),
  timeout: duration('how long one time-stamp may take', '100ms', '1m').prefault('5s'),
  roots_file: path('a PEM file with the root certificates its tokens chain up to'),
  policy: oid('the policy to ask for').optional(),
  tls_ca_file: path('a PEM file with the certificate authorities of its TLS').optional(),
});

const remotes = z.record(
  text('a name in lower case, digits and dashes: [timestamp.remotes.acme]', NAME_PATTERN),
  remote,
  { error: 'a table for each external authority: [timestamp.remotes.acme]' },
);

const timestampKeys = z
  .array(partition, { error: 'one [[timestamp.keys]] table for each key of the built-in authority' })
  .max(16, { error: 'at most 16 [[timestamp.keys]] tables' });

/** A number of what `what` says, or no limit. */
function count(what: string, max: number) {
  return key(`${what}: a whole number from 1 to ${max}, or "unlimited"`, (found) =>
    found === 'unlimited' ? Number.POSITIVE_INFINITY : within(found, 1, max),
  );
}

const rate = table({
  requests: count('requests of one client in each window', 1_000_000).prefault('unlimited'),
  window: duration('the time in which as many requests come back', '1s', '1h').prefault('1m'),
});

const quotas = z.record(
  text('a purpose of 1 to 128 characters, or default: [quotas.default]', /^.{1,128}$/su),
  table({
    jobs: count('jobs of one client in each window', 1_000_000_000).prefault('unlimited'),
    window: duration('how long a window is', '1h', '366d').prefault('1d'),
  }),
  { error: 'a table for each purpose: [quotas.default], [quotas.invoice]' },
);

const authorityNames = z.array(text('the name of an authority', NAME_PATTERN), {
  error: `a list in the order of preference: "${BUILT_IN}", names of [timestamp.remotes]; [] for none`,
});

/**
 * The config file, key by key, with every default. Keys are written as they stand in the file; `config.ts` gives the
 * values the names used inside.
 */
export const configSchema = table({
  environment: text(
    'the name of this environment: a-z, 0-9 and dashes, at most 32, starting with a letter',
    /^[a-z][a-z0-9-]{0,31}$/,
  ),
  state_dir: path('the folder of the store, the lock and the trust file'),
  drain_timeout: duration('how long a stop waits for requests in flight', '1s', '1h').prefault('30s'),
  compliance_mode: flag('whether copies without XMP metadata are made of documents').prefault(false),
  http: table({
    listen: key('an address and a port such as "127.0.0.1:8400" or "[::1]:8400"', listenAddress).prefault(
      '127.0.0.1:8400',
    ),
    public_url: key('the http(s) URL clients use, without /v1, query and credentials', publicUrl).optional(),
    header_timeout: duration('how long request headers may take', '1s', '5m').prefault('10s'),
    body_idle_timeout: duration('how long an upload may pause', '1s', '10m').prefault('30s'),
    body_rate_min: size('what must arrive of an upload per second', '0B', '1GiB').prefault('1KiB'),
    uploads_max: integer('uploads received at the same time', 1, 65_536).prefault(1024),
    uploads_per_client_max: integer('uploads of one client at the same time', 1, 65_536).prefault(512),
    batches_max: integer('batches received at the same time', 1, 1_024).prefault(16),
  }).prefault({}),
  limits: table({
    document_bytes_max: size('largest document', '1KiB', '1TiB').prefault('1GiB'),
    queue_jobs_max: integer('jobs that may wait to be sealed', 1, 10_000_000).prefault(50_000),
    rate: rate.prefault({}),
  }).prefault({}),
  admin: table({
    listen: key(
      '"unix:" and the path of a socket, or a loopback address such as "127.0.0.1:8401"',
      adminAddress,
    ).optional(),
  }).prefault({}),
  health: table({
    canary_interval: duration('how often a canary is sealed', '1s', '24h').prefault('5m'),
  }).prefault({}),
  quotas: quotas.prefault({}),
  clients: z
    .record(
      text('the name of a client in lower case, digits and dashes: [clients.invoices]', NAME_PATTERN),
      table({ rate: rate.optional(), quotas: quotas.prefault({}) }),
      { error: 'a table for each client with limits of its own: [clients.invoices.rate]' },
    )
    .prefault({}),
  storage: table({
    free_bytes_min: size('what is to be free on the disk of the store', '16MiB', '1024TiB').prefault(
      '256MiB',
    ),
  }).prefault({}),
  retention: table({
    document_hours: integer('hours that a copy is kept after its job was accepted', 1, 87_600).prefault(72),
  }).prefault({}),
  blocking: table({
    timeout: duration('longest wait of a blocking create', '100ms', '10m').prefault('30s'),
  }).prefault({}),
  sealing: table({
    give_up_after: duration('how long an accepted job is retried before it fails', '1s', '90d').prefault(
      '24h',
    ),
    batch_jobs_max: integer('jobs sealed under one signature', 1, 65_536).prefault(4096),
  }).prefault({}),
  hash: table({
    workers: integer('worker threads that hash', 1, 1024).prefault(() =>
      Math.max(1, availableParallelism() - 1),
    ),
    engine: key('"auto", "native" or "wasm"', (found) =>
      ENGINE_CHOICES.find((choice) => choice === found),
    ).prefault('auto'),
    cross_check: key('the share of documents that both engines hash: a number from 0 to 1', share).prefault(
      0.01,
    ),
  }).prefault({}),
  scan: table({
    clamd: key(
      'where clamd listens: "unix:/run/clamav/clamd.ctl" or "tcp:127.0.0.1:3310"',
      clamdAddress,
    ).optional(),
    timeout: duration('how long clamd may be silent when it is asked something', '100ms', '1h').prefault(
      '60s',
    ),
    connections_max: integer('documents scanned at the same time', 1, 65_536).prefault(64),
    encrypted: key('"refuse" or "record"', (found) =>
      ENCRYPTED_POLICIES.find((policy) => policy === found),
    ).prefault('refuse'),
  }).prefault({}),
  log: table({
    origin: text(
      'the origin line of the log: a schema-less URL you own, such as "seal.example.com/production/2026"',
      /^(?!.*:\/\/)[^\s+]{1,255}$/u,
    ),
    public: flag('whether /v1/log answers without an API key').prefault(false),
    witness_file: path(
      'the witness file, where the newest checkpoint is noted outside of the store',
    ).optional(),
    witness_interval: duration('how often a log that has grown is noted', '100ms', '1h').prefault('10s'),
  }),
  sources: table({
    allow: allowList.prefault([]),
    ca_file: path("a PEM file with certificate authorities to trust beside Node's own").optional(),
    concurrent_max: integer('documents fetched at the same time', 1, 1024).prefault(8),
    answer_timeout: duration('how long a source may take to answer', '100ms', '5m').prefault('10s'),
    retry_delay: duration('the pause after a first failure', '10ms', '5m').prefault('2s'),
    give_up_after: duration('how long a document is tried to be fetched', '1s', '30d').prefault('1h'),
  }).prefault({}),
  kms: table({
    quorum: key(QUORUM_EXPECTED, parseQuorum).prefault(1),
    sign_timeout: duration('how long one signature may take', '100ms', '5m').prefault('5s'),
    partitions: z
      .array(partition, { error: 'one [[kms.partitions]] table for each partition' })
      .min(1, { error: 'one [[kms.partitions]] table for each partition, at least one' })
      .max(16, { error: 'at most 16 [[kms.partitions]] tables' }),
  }),
  timestamp: table({
    authorities: authorityNames,
    accuracy: duration('what the built-in authority promises', '1ms', '1m').prefault('1s'),
    policy: oid('the policy of the built-in authority').prefault(DEFAULT_POLICY),
    keys: timestampKeys.prefault([]),
    remotes: remotes.prefault({}),
  }),
  webhooks: table({
    allow: allowList.prefault([]),
    concurrency: integer('deliveries under way at the same time', 1, 1024).prefault(32),
    concurrency_per_endpoint: integer('deliveries to one endpoint at the same time', 1, 64).prefault(4),
    timeout: duration('how long one attempt may take', '100ms', '1m').prefault('15s'),
    retries: retryDelays.prefault(['5s', '5m', '30m', '2h', '5h', '10h', '14h', '20h', '24h']),
    probe_interval: duration('how often an endpoint that keeps failing is tried', '10ms', '1h').prefault(
      '1m',
    ),
    backlog_max: integer('what may wait to be sent to one endpoint', 1, 1_000_000).prefault(10_000),
    dead_letter_retention: duration('how long dead letters are kept', '1m', '365d').prefault('30d'),
    ca_file: path('a PEM file with the certificate authorities of the targets').optional(),
  }).prefault({}),
  clock: table({
    trust: key('"chrony", "timedatectl" or "system"', (found) =>
      CLOCK_TRUSTS.find((trust) => trust === found),
    ).prefault('chrony'),
    program: path('chronyc or timedatectl').optional(),
  }).prefault({}),
  organizations: z
    .record(
      text('an organization name in lower case, digits and dashes: [organizations.acme]', NAME_PATTERN),
      table({ partners: partners.prefault([]) }),
      { error: 'a table for each organization: [organizations.acme]' },
    )
    .prefault({}),
  logging: table({
    level: key(`one of ${LOG_LEVELS.join(', ')}`, (found) =>
      LOG_LEVELS.find((level) => level === found),
    ).prefault('info'),
  }).prefault({}),
}).check(consistent);

/** The file as it was read, defaults filled in: durations in milliseconds, sizes in bytes. */
export type ConfigTables = z.output<typeof configSchema>;
