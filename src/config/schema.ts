import { availableParallelism } from 'node:os';
import * as z from 'zod';
import { NAME_PATTERN } from '../base/names.ts';
import { parseQuorum } from '../log/quorum.ts';
import { RENEWAL_DIGESTS } from '../store/renewalStore.ts';
import type { ClockSource } from '../tsa/synchronization.ts';
import { parseAllowed } from '../web/policy.ts';
import { consoleTable } from './consoleTable.ts';
import { httpTable } from './httpTable.ts';
import {
  adminAddress,
  authorityUrl,
  choice,
  clamdAddress,
  computed,
  date,
  duration,
  flag,
  hours,
  list,
  objectIdentifier,
  omissible,
  path,
  pemFile,
  policyFile,
  section,
  share,
  size,
  spelled,
  table,
  text,
  value,
  wholeNumber,
  wholeNumberOrUnlimited,
} from './keys.ts';
import { partition, partitions, token } from './partitionTables.ts';
import { storeTable } from './storeTable.ts';

/** The name of the built-in authority among `timestamp.authorities`. */
export const BUILT_IN = 'built-in';

/** Identifies pdfseald's own authority and nothing more; a site with a practice statement has its own policy. */
const DEFAULT_POLICY = '2.25.212174945492328153639561231497824086053';

/** Enough for a whole batch of digests and some more, and for a sustained 200 jobs a second at most. */
const REQUESTS_DEFAULT = 12_000;

const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const;

/** Paths on Debian. */
const CLOCK_PROGRAMS = { chrony: '/usr/bin/chronyc', timedatectl: '/usr/bin/timedatectl' };

/** Targets to which the daemon may connect when a caller names them. */
const allowList = list(
  value(
    'an origin ("https://erp.example.com", "https://*.example.com", "https://*") or a network ("10.0.0.0/8")',
    (found) => (typeof found === 'string' && parseAllowed(found) !== undefined ? found : undefined),
  ),
  'a list of origins and networks: ["https://erp.example.com", "10.0.0.0/8"]; [] for none',
);

function named<Z extends z.ZodType>(name: string, one: Z, expected: string, pattern = NAME_PATTERN) {
  return z.record(text(name, pattern), one, { error: expected });
}

const authoritiesFile = pemFile('the certificate authorities to trust for TLS', { hasCertificates: true });
const PUBLIC_CAS =
  'whether the authorities that come with Node.js are trusted in addition to those in ca_file';

function rate(requestsDefault: number | 'unlimited') {
  return table({
    requests: wholeNumberOrUnlimited('requests per client and window', 1_000_000).prefault(requestsDefault),
    windowMs: duration('the length of a window', '1s', '1h').prefault('1m'),
  });
}

const quotas = named(
  'a purpose of 1 to 128 characters, or default: [quotas.default]',
  table({
    jobs: wholeNumberOrUnlimited('jobs per client and window', 1_000_000_000).prefault('unlimited'),
    windowMs: duration('the length of a window', '1h', '366d').prefault('1d'),
  }),
  'a table for each purpose: [quotas.default], [quotas.invoice]',
  /^.{1,128}$/su,
);

const retries = list(
  duration('the delay before a retry', '1ms', '30d'),
  'a list of delays before each retry: ["5s", "5m"]; [] for none',
  [32, 'at most 32 retries'],
);

/** The date until which evidence may rest on an algorithm, and the source of that date. */
const sunset = {
  algorithm: text(
    'a hash function, or a signature algorithm with its length: "sha256", "ecdsa-p256", "rsa-3072"',
    /^(sha256|sha384|sha512|ed25519|mldsa44|ecdsa-p256|ecdsa-p384|ecdsa-p521|rsa-\d{4,5})$/,
  ),
  untilMs: date('the last day on which evidence may rest on it'),
  source: text(
    'the source of that date, such as "ETSI TS 119 312" (1 to 100 characters)',
    /^[^\p{C}]{1,100}$/u,
  ),
};

const remote = table({
  url: omissible(authorityUrl, 'its time-stamps are transferred by file'),
  timeoutMs: duration('time limit of one time-stamp request', '100ms', '1m').prefault('5s'),
  rootsFile: pemFile('the root certificates its tokens chain up to'),
  policy: omissible(objectIdentifier('the policy to request'), 'the authority chooses'),
  tlsCaFile: omissible(authoritiesFile, 'those that come with Node.js'),
});

/** The source that vouches for the clock. */
const clock = table({
  trust: choice('"chrony", "timedatectl" or "system"', ['chrony', 'timedatectl', 'system']).prefault(
    'chrony',
  ),
  program: omissible(path('chronyc or timedatectl'), 'its path on Debian'),
}).transform(
  ({ trust, program }): ClockSource =>
    trust === 'system' ? { trust } : { trust, program: program ?? CLOCK_PROGRAMS[trust] },
);

/**
 * The config file: every key with its spelling, its default and the expected value. The output has the options that the parts of the daemon
 * take; `config.ts` adds values that several keys decide together.
 */
export const configSchema = table({
  environment: text(
    'the name of this environment: a-z, 0-9 and dashes, at most 32, starting with a letter',
    /^[a-z][a-z0-9-]{0,31}$/,
  ),
  stateDir: path('the folder of the store, the lock and the trust file'),
  drainTimeoutMs: duration('how long shutdown waits for requests in flight', '1s', '1h').prefault('30s'),
  complianceMode: flag('whether to make copies of documents without their XMP metadata').prefault(false),
  http: httpTable,
  limits: section({
    documentBytesMax: size('maximum size of a document', '1KiB', '1TiB').prefault('1GiB'),
    queueJobsMax: wholeNumber('maximum number of jobs that wait to be sealed', 1, 10_000_000).prefault(
      50_000,
    ),
    rate: rate(REQUESTS_DEFAULT).prefault({}),
  }),
  admin: section({ listen: omissible(adminAddress, 'admin.sock in state_dir') }),
  console: omissible(consoleTable),
  health: section({
    canaryIntervalMs: duration('how often a canary is sealed', '1s', '24h', 'or off').prefault('1h'),
  }),
  quotas: quotas.prefault({}),
  clients: named(
    'the name of a client in lower case, digits and dashes: [clients.invoices]',
    table({ rate: omissible(rate('unlimited')), quotas: quotas.prefault({}) }),
    'a table for each client with limits of its own: [clients.invoices.rate]',
  ).prefault({}),
  store: storeTable,
  storage: section({
    freeBytesMin: size('minimum free disk space for the store', '16MiB', '1024TiB').prefault('256MiB'),
  }),
  retention: section({
    documentMs: spelled(
      'document_hours',
      hours('how many hours a document is kept after its job was accepted', 1, 87_600).prefault(72),
    ),
  }),
  pdf: section({
    attach: flag('whether clients may ask for sealed PDFs (sealed_pdf=attach)').prefault(false),
    spoolBytesMax: size(
      'maximum size of the documents that are kept for sealed PDFs',
      '16MiB',
      '1024TiB',
    ).prefault('10GiB'),
  }),
  blocking: section({
    timeoutMs: duration('maximum wait of a blocking create request', '100ms', '10m').prefault('30s'),
  }),
  sealing: section({
    giveUpAfterMs: duration('how long sealing a job is retried before the job fails', '1s', '90d').prefault(
      '24h',
    ),
    batchJobsMax: wholeNumber('maximum number of jobs under one signature', 1, 65_536).prefault(4096),
  }),
  hash: section({
    workers: computed(
      wholeNumber('number of threads that hash', 1, 1024),
      () => Math.max(1, availableParallelism() - 1),
      'CPU cores minus one, at least 1',
    ),
    engine: choice('"auto", "native" or "wasm"', ['auto', 'native', 'wasm']).prefault('auto'),
    crossCheckShare: spelled(
      'cross_check',
      share('share of documents that both engines hash').prefault(0.01),
    ),
  }),
  scan: section({
    clamd: omissible(clamdAddress, 'nothing is scanned'),
    timeoutMs: duration('how long to wait for clamd', '100ms', '1h').prefault('60s'),
    connectionsMax: wholeNumber('maximum number of concurrent scans', 1, 65_536).prefault(64),
    encrypted: choice('"refuse" or "record"', ['refuse', 'record']).prefault('refuse'),
  }),
  log: table({
    origin: text(
      'the origin line of the log: a schema-less URL you own, such as "seal.example.com/production/2026"',
      /^(?!.*:\/\/)[^\s\p{Cc}+]{1,255}$/u, // text that a checkpoint can begin with (C2SP signed-note)
    ),
    public: flag('whether /v1/log answers without an API key').prefault(false),
    lastCheckpointFile: omissible(
      path('the last-checkpoint file, to which the newest checkpoint is appended outside of the store'),
      'last-checkpoint in state_dir',
    ),
    lastCheckpointIntervalMs: duration(
      'how often the newest checkpoint is appended if the log has grown',
      '100ms',
      '1h',
    ).prefault('10s'),
  }),
  witness: section({
    policy: omissible(policyFile, 'no witness is asked'),
    intervalMs: duration('pause between two rounds of requests to all witnesses', '100ms', '24h').prefault(
      '60s',
    ),
    required: flag(
      'whether a receipt is released only once the quorum of witnesses has cosigned it',
    ).prefault(false),
    caFile: omissible(authoritiesFile, 'those that come with Node.js'),
    publicCas: flag(PUBLIC_CAS).prefault(true),
  }),
  sources: section({
    allow: allowList.prefault([]),
    caFile: omissible(authoritiesFile, 'those that come with Node.js'),
    publicCas: flag(PUBLIC_CAS).prefault(true),
    concurrentMax: wholeNumber('maximum number of concurrent fetches', 1, 1024).prefault(16),
    answerTimeoutMs: duration('time limit for the answer of a source', '100ms', '5m').prefault('10s'),
    bytesPerSecondMin: spelled(
      'rate_min',
      size('minimum rate of a fetch, per second', '1KiB', '1GiB').prefault('16KiB'),
    ),
    retryDelayMs: duration('the delay before the first retry', '10ms', '5m').prefault('2s'),
    giveUpAfterMs: duration('how long fetching is retried', '1s', '30d').prefault('1h'),
  }),
  kms: table({
    quorum: value(
      'how many partitions must sign, a whole number from 1 to 16, or how many of some regions: "2 of eu, us, ap"; with post-quantum keys: "2 classical and 1 post-quantum"',
      parseQuorum,
    ).prefault(1),
    sessions: wholeNumber('maximum number of concurrent signatures per key', 1, 64).prefault(2),
    signTimeoutMs: duration('time limit of one signature', '100ms', '5m').prefault('5s'),
    partitions: partitions(partition, 'one [[kms.partitions]] table for each partition', 0),
  }),
  timestamp: table({
    authorities: list(
      text('the name of an authority', NAME_PATTERN),
      `a list in the order of preference: "${BUILT_IN}", names of [timestamp.remotes]; [] for none`,
    ),
    accuracyMs: duration('the accuracy that the built-in authority states', '1ms', '1m').prefault('1s'),
    policy: objectIdentifier('the policy of the built-in authority').prefault(DEFAULT_POLICY),
    keys: partitions(
      token,
      'one [[timestamp.keys]] table for each key of the built-in authority',
      0,
    ).prefault([]),
    remotes: named(
      'a name in lower case, digits and dashes: [timestamp.remotes.acme]',
      remote,
      'a table for each external authority: [timestamp.remotes.acme]',
    ).prefault({}),
  }),
  renewal: section({
    authorities: wholeNumber('number of authorities that time-stamp each renewal', 1, 2).prefault(1),
    hash: omissible(
      choice('"sha512" or "sha384"', RENEWAL_DIGESTS),
      'that of the newest renewal; sha512 for the first',
    ),
    sunsets: spelled(
      'sunset',
      list(table(sunset), 'one [[renewal.sunset]] table for each algorithm').prefault([]),
    ),
  }),
  webhooks: section({
    allow: allowList.prefault([]),
    inFlightMax: spelled(
      'concurrency',
      wholeNumber('maximum number of concurrent deliveries', 1, 1024).prefault(32),
    ),
    perEndpointMax: spelled(
      'concurrency_per_endpoint',
      wholeNumber('maximum number of concurrent deliveries to one endpoint', 1, 64).prefault(4),
    ),
    timeoutMs: duration('time limit of one attempt', '100ms', '1m').prefault('15s'),
    retryDelaysMs: spelled(
      'retries',
      retries.prefault(['5s', '5m', '30m', '2h', '5h', '10h', '14h', '20h', '24h']),
    ),
    probeIntervalMs: duration('how often a failing endpoint is tried again', '10ms', '1h').prefault('1m'),
    backlogMax: wholeNumber('maximum number of waiting messages per endpoint', 1, 10_000_000).prefault(
      50_000,
    ),
    deadLetterMs: spelled(
      'dead_letter_retention',
      duration('how long dead letters are kept', '1m', '365d').prefault('30d'),
    ),
    caFile: omissible(authoritiesFile, 'those that come with Node.js'),
    publicCas: flag(PUBLIC_CAS).prefault(false),
  }),
  clock: clock.prefault({}),
  organizations: named(
    'an organization name in lower case, digits and dashes: [organizations.acme]',
    table({
      partners: list(
        text('the name of an organization', NAME_PATTERN),
        'a list of organizations that may see jobs of visibility "partner": ["beta"]',
      ).prefault([]),
    }),
    'a table for each organization: [organizations.acme]',
  ).prefault({}),
  logging: section({
    level: choice(`one of ${LOG_LEVELS.join(', ')}`, LOG_LEVELS).prefault('info'),
  }),
});

/** The schema's output for the file. */
export type ConfigTables = z.output<typeof configSchema>;
