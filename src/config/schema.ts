import { availableParallelism } from 'node:os';
import { z } from 'zod';
import { ENGINE_CHOICES } from '../hash/choose.ts';
import { parseQuorum } from '../log/quorum.ts';
import { parseAllowed } from '../net/policy.ts';
import { ENCRYPTED_POLICIES } from '../scan/documentScan.ts';
import { BUILT_IN, consistent } from './consistency.ts';
import {
  adminAddress,
  authorityUrl,
  clamdAddress,
  count,
  duration,
  durationOrOff,
  flag,
  integer,
  key,
  listenAddresses,
  oid,
  path,
  publicUrl,
  share,
  size,
  table,
  text,
} from './valueTypes.ts';

/** Names of clients, organisations and regions: they appear in URLs, file names and receipts. */
export const NAME_PATTERN = /^[a-z0-9][a-z0-9-]{0,62}$/;

const CLOCK_TRUSTS = ['chrony', 'timedatectl', 'system'] as const;
/** Means pdfseald's own authority and nothing more; a site with a practice statement has a policy of its own. */
const DEFAULT_POLICY = '2.25.212174945492328153639561231497824086053';

const QUORUM_EXPECTED =
  'how many partitions must sign, a whole number from 1 to 16, or how many of some regions: "2 of eu, us, ap"';

const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const;

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

const tls = table({
  certificate_file: path('the PEM file with the certificate of the server, and those up to a root'),
  key_file: path('the PEM file with its private key').optional(),
  key_credential: text(
    'the name of a systemd credential that holds the private key',
    /^[\w.-]{1,255}$/,
  ).optional(),
  client_ca_file: path('a PEM file with the authorities that certify clients').optional(),
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

/** A whole batch of digests and some more; and no more than 200 jobs a second for long. */
const REQUESTS_DEFAULT = 12_000;

function rate(requestsDefault: number | 'unlimited') {
  return table({
    requests: count('requests of one client in each window', 1_000_000).prefault(requestsDefault),
    window: duration('the time in which as many requests come back', '1s', '1h').prefault('1m'),
  });
}

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
    listen: key(
      'an address such as "127.0.0.1:8400", "[::1]:8400" or "unix:/run/pdfseal-api/production/seal.sock", or a list of them',
      listenAddresses,
    ).prefault('127.0.0.1:8400'),
    clear_text_beyond_loopback: flag('whether other machines may speak to it without TLS').prefault(false),
    tls: tls.optional(),
    public_url: key('the http(s) URL clients use, without /v1, query and credentials', publicUrl).optional(),
    header_timeout: duration('how long request headers may take', '1s', '5m').prefault('10s'),
    body_idle_timeout: duration('how long an upload may pause', '1s', '10m').prefault('30s'),
    body_rate_min: size('what must arrive of an upload per second', '0B', '1GiB').prefault('1KiB'),
    connections_max: integer('open connections', 16, 65_536).prefault(8_192),
    connections_per_address_max: integer('open connections of one address', 1, 65_536).prefault(1_024),
    uploads_max: integer('uploads received at the same time', 1, 65_536).prefault(1024),
    uploads_per_client_max: integer('uploads of one client at the same time', 1, 65_536).prefault(512),
    batches_max: integer('batches received at the same time', 1, 1_024).prefault(16),
    downloads_max: integer('copies of documents sent at the same time', 1, 65_536).prefault(64),
  }).prefault({}),
  limits: table({
    document_bytes_max: size('largest document', '1KiB', '1TiB').prefault('1GiB'),
    queue_jobs_max: integer('jobs that may wait to be sealed', 1, 10_000_000).prefault(50_000),
    rate: rate(REQUESTS_DEFAULT).prefault({}),
  }).prefault({}),
  admin: table({
    listen: key(
      '"unix:" and the path of a socket, or a loopback address such as "127.0.0.1:8401"',
      adminAddress,
    ).optional(),
  }).prefault({}),
  health: table({
    canary_interval: durationOrOff('how often a canary is sealed', '1s', '24h').prefault('1h'),
  }).prefault({}),
  quotas: quotas.prefault({}),
  clients: z
    .record(
      text('the name of a client in lower case, digits and dashes: [clients.invoices]', NAME_PATTERN),
      table({ rate: rate('unlimited').optional(), quotas: quotas.prefault({}) }),
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
    concurrent_max: integer('documents fetched at the same time', 1, 1024).prefault(16),
    answer_timeout: duration('how long a source may take to answer', '100ms', '5m').prefault('10s'),
    rate_min: size('what must arrive of a document per second', '1KiB', '1GiB').prefault('16KiB'),
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
