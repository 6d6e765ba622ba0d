/** Opens those parts of the daemon that need more than their options from the configuration. */
import { readFileSync } from 'node:fs';
import type { Logger } from 'pino';
import type { Metrics } from '../admin/metrics.ts';
import { type Clock, systemClock } from '../base/clock.ts';
import { fromEnvironment, inheritedSockets } from '../base/env.ts';
import { makeFolder } from '../base/folders.ts';
import { certificatesInUse } from '../config/certificatesInUse.ts';
import type { Config } from '../config/config.ts';
import type { LiveConfig } from '../config/reload.ts';
import type { Console, ConsoleOptions } from '../console/console.ts';
import { type Copies, openCopies, stripAnswerMsMax } from '../copy/copies.ts';
import { chooseEngine } from '../hash/choose.ts';
import { type HashPool, openHashPool } from '../hash/pool.ts';
import type { StatusSources } from '../health/statusReader.ts';
import type { App } from '../http/app.ts';
import { presentEvent } from '../http/presentJob.ts';
import { type HttpServer, listen } from '../http/server.ts';
import type { RefusalListener } from '../kms/partitions.ts';
import type { Duties } from '../kms/protocol.ts';
import { Limits } from '../limits/limits.ts';
import { parseWitnessPolicy } from '../log/witnessPolicy.ts';
import { type LastCheckpoint, openLastCheckpoint } from '../prove/trail/lastCheckpoint.ts';
import { openScanner, type Scanner } from '../scan/scanner.ts';
import { Fetching, type FetchingOptions } from '../seal/fetching.ts';
import type { Timekeeping } from '../seal/timekeeping.ts';
import { newestTimeOf, openTimestamping, type Timestamping } from '../seal/timestamping.ts';
import { SourceClient } from '../source/sourceClient.ts';
import type { Store } from '../store/store.ts';
import { startExpiryWarnings } from '../tsa/expiryWarnings.ts';
import type { ClockSource } from '../tsa/synchronization.ts';
import { openTrustedClock, type TrustedClock } from '../tsa/trustedClock.ts';
import { openWitnessing, type Witnessing, type WitnessingOptions } from '../watch/witnessing.ts';
import { TlsCertificates, type TlsFiles, type TlsTable } from '../web/tls.ts';
import { Deliverer, type DelivererOptions } from '../webhook/deliver.ts';
import { authorityPurpose, talksOutwards } from './destinations.ts';
import { Egress } from './egressProcess.ts';
import type { Shared } from './shared.ts';

/**
 * Opens the client for requests to other machines. If the egress process is a child, it is started at once if the configuration names any
 * destination, otherwise when needed.
 */
export function openEgress(config: Config, logger: Logger, parts: AsyncDisposableStack): Egress {
  const egress = new Egress({
    configFile: config.file,
    socket: fromEnvironment('PDFSEALD_EGRESS_SOCKET'),
    logger,
  });
  parts.defer(() => egress.close());
  if (talksOutwards(config)) {
    void egress.socketPath();
    void egress.compare(config.sha256);
  }
  return egress;
}

const CLOCK_AHEAD_MS_MAX = 24 * 3_600_000;

/** Without time-stamps, the system clock is trusted unchecked. */
export async function openClockOf(
  { timestamp, clock, isFront }: Config,
  store: Store,
  logger: Logger,
  parts: AsyncDisposableStack,
): Promise<TrustedClock> {
  const head = await store.log.head();
  const lastSealedAt = head?.sealedAt ?? 0;
  const opened = await openTrustedClock({
    source: timestamp.authorities.length === 0 ? { trust: 'system' } : reachable(clock),
    accuracyMs: timestamp.accuracyMs,
    ...(timestamp.authorities.length > 0 && !isFront && { aheadMsMax: CLOCK_AHEAD_MS_MAX }),
    newest: newestTimeOf(head, timestamp.policy),
    lastDate: store.serviceTime.lastDate ?? Math.max(lastSealedAt, store.identity.createdAt),
    logger,
  });
  parts.defer(() => opened.close());
  return opened;
}

/** The form in which this process can query it. */
function reachable(source: ClockSource): ClockSource {
  const socket = fromEnvironment('PDFSEALD_CLOCK_SOCKET');
  return source.trust === 'chrony' && socket !== undefined ? { ...source, socket } : source;
}

/** Refuses a store that lacks part of what was released. */
export async function openLastCheckpointOf(
  { log: { lastCheckpointFile: file, lastCheckpointIntervalMs: intervalMs } }: Config,
  store: Store,
  { logger, onFatal, parts }: Pick<Shared, 'logger' | 'onFatal'> & { parts: AsyncDisposableStack },
): Promise<LastCheckpoint> {
  const opened = await openLastCheckpoint({ file, store, intervalMs, logger, onFatal });
  return parts.adopt(opened, (open) => open.close());
}

/** The duties of a signer of the log that is a child of this process. */
export function logDuties({ log, kms, signersDir }: Config): Duties {
  makeFolder(signersDir, 0o700);
  return { log: { origin: log.origin, folder: signersDir, sessions: kms.sessions, isUnit: false } };
}

export async function openTimestampingOf(
  config: Config,
  {
    clock,
    egress,
    onRefused,
    logger,
  }: { clock: TrustedClock; egress: Egress; onRefused: RefusalListener; logger: Logger },
  parts: AsyncDisposableStack,
): Promise<Timestamping | undefined> {
  const { timestamp, certificatesDir, kms } = config;
  if (timestamp.authorities.length === 0) {
    logger.warn('timestamp.authorities is empty: receipts carry no time-stamp');
    return undefined;
  }
  parts.defer(startExpiryWarnings({ sources: certificatesInUse(config), clock: systemClock, logger }));
  const options = {
    ...timestamp,
    clientOf: (name: string) => egress.to(authorityPurpose(name)),
    clock,
    certificatesDir,
    sessions: kms.sessions,
    signTimeoutMs: kms.signTimeoutMs,
    onRefused,
    logger,
  };
  return openTimestamping(options, (close) => parts.defer(close));
}

export async function openScannerOf(
  config: Config,
  { metrics, logger, parts }: { metrics: Metrics; logger: Logger; parts: AsyncDisposableStack },
): Promise<Scanner | undefined> {
  const { clamd, ...options } = config.scan;
  if (clamd === undefined) {
    logger.warn(
      'scan.clamd is not set: documents are not scanned for viruses, and receipts say not_configured',
    );
    return undefined;
  }
  const { documentBytesMax } = config.limits;
  const onScan: Metrics['scanned'] = (answer, durationMs) => metrics.scanned(answer, durationMs);
  return parts.adopt(await openScanner({ ...options, clamd, documentBytesMax, onScan, logger }), (open) =>
    open.close(),
  );
}

/** The hash workers, with the engine chosen for this processor. */
export async function openHashing(
  config: Config,
  { metrics, logger, parts }: { metrics: Metrics; logger: Logger; parts: AsyncDisposableStack },
): Promise<StatusSources['hash'] & { pool: HashPool }> {
  const { engine, calibration } = chooseEngine(config.hash.engine, logger);
  const options = {
    ...config.hash,
    engine,
    calibration,
    onTrouble: (err: unknown) => {
      metrics.hashTrouble();
      logger.error({ event: 'hash_trouble', err }, 'hash worker trouble');
    },
  };
  const pool = parts.adopt(await openHashPool(options), (open) => open.close());
  return { engine, kernels: calibration?.chosen ?? [], workers: config.hash.workers, pool };
}

/**
 * Copies leave free disk space for jobs without copies. They are opened without compliance mode too: earlier copies are still served, and
 * deleted when they expire.
 */
export async function openCopiesOf(
  { documentsDir, storage, hash, complianceMode }: Config,
  store: Store,
  parts: AsyncDisposableStack,
): Promise<Copies> {
  const known = new Set<string>();
  for await (const { copy } of store.copies.all()) known.add(copy.file);
  const options = {
    path: documentsDir,
    freeBytesMin: 2 * storage.freeBytesMin,
    workers: hash.workers,
    stripperSocket: fromEnvironment('PDFSEALD_STRIPPER_SOCKET'),
  };
  const copies = parts.adopt(await openCopies(options, known), (open) => open.close());
  if (complianceMode) await copies.probe();
  return copies;
}

export async function openFetching(
  config: Config,
  {
    egress,
    ...shared
  }: Pick<FetchingOptions, 'store' | 'sealer' | 'document' | 'logger' | 'refused' | 'onAttempt' | 'onFatal'> &
    Pick<Shared, 'egress'>,
  parts: AsyncDisposableStack,
): Promise<Fetching> {
  const { answerTimeoutMs, bytesPerSecondMin, ...limits } = config.sources;
  const fetching = new Fetching({
    ...shared,
    ...limits,
    source: new SourceClient(egress.to('source'), answerTimeoutMs),
    patience: { idleTimeoutMs: config.http.bodyIdleTimeoutMs, bytesPerSecondMin },
  });
  parts.defer(() => fetching.close());
  fetching.start();
  return fetching;
}

/** Undefined if no witness is configured. It begins to ask when it is started. */
export async function openWitnessingOf(
  { witness, log }: Config,
  {
    egress,
    ...shared
  }: Pick<WitnessingOptions, 'store' | 'keys' | 'logger' | 'onFatal'> & Pick<Shared, 'egress'>,
  parts: AsyncDisposableStack,
): Promise<Witnessing | undefined> {
  if (witness.policy === undefined) return undefined;
  // The check of the configuration has already validated it.
  const policy = parseWitnessPolicy(readFileSync(witness.policy, 'utf8'), log.origin);
  const { intervalMs } = witness;
  const client = egress.to('witness');
  const options = { ...shared, policy, intervalMs, client, clock: systemClock };
  return parts.adopt(await openWitnessing(options), (open) => open.close());
}

export function openDeliverer(
  { webhooks, environment, http: { publicUrl } }: Config,
  {
    egress,
    ...shared
  }: Pick<DelivererOptions, 'store' | 'date' | 'logger' | 'onFatal'> & Pick<Shared, 'egress'>,
): Deliverer {
  const deliverer = new Deliverer({
    ...webhooks,
    ...shared,
    client: egress.to('webhook'),
    present: (record, endedAt) => presentEvent(record, endedAt, { environment, publicUrl }),
    clock: systemClock,
  });
  deliverer.start();
  return deliverer;
}

/** The certificates of a listener; undefined if it does not use TLS. */
export function openTlsOf(
  table: TlsTable,
  files: TlsFiles | undefined,
  { logger, parts }: { logger: Logger; parts: AsyncDisposableStack },
): TlsCertificates | undefined {
  if (files === undefined) return undefined;
  const tls = new TlsCertificates(table, files, logger);
  parts.defer(() => tls.close());
  process.on('SIGHUP', () => tls.reload());
  return tls;
}

/** Rates and quotas of clients, which follow the configuration. */
export async function openLimits(
  live: LiveConfig,
  { store, time, metrics, logger }: { store: Store; time: Timekeeping; metrics: Metrics; logger: Logger },
): Promise<Limits> {
  const { policies } = live.current;
  const counts = await store.jobs.quotaCounts();
  const limits = new Limits(policies, counts, time.date, (client, limit) => metrics.refused(client, limit));
  live.onChange((config) => limits.update(config.policies));
  store.nodes?.share(limits);
  store.nodes?.onFlood(() =>
    logger.warn(
      { event: 'nodes_flooded' },
      'the database passes on more notifications than nodes send: until that ends, this node does not count the requests to others',
    ),
  );
  return limits;
}

/** Undefined if the console is not configured; its code is not loaded then. */
export async function loadConsole({ console }: Config): Promise<Console | undefined> {
  if (console === undefined) return undefined;
  const loaded = await import('../console/console.ts');
  return new loaded.Console(console.listen, systemClock);
}

/** The listener for people with certificates, who are identified by the current configuration. */
export function consoleTlsOf(
  live: LiveConfig,
  { certificates, date }: { certificates: TlsCertificates | undefined; date: Clock },
): Pick<ConsoleOptions, 'tls'> {
  const { console } = live.current;
  if (console?.tls === undefined || certificates === undefined) return {};
  const { listen } = console.tls;
  return { tls: { listen, certificates, date, people: () => live.current.people } };
}

/** Listens at the configured addresses, or on the sockets passed by the service manager. */
export async function openApiServer(
  app: App,
  config: Config,
  { logger, tls }: { logger: Logger; tls: TlsCertificates | undefined },
): Promise<HttpServer> {
  const { http } = config;
  const inherited = inheritedSockets();
  return listen(app, {
    listen: inherited.length > 0 ? inherited : http.listen,
    tls,
    clearTextBeyondLoopback: http.clearTextBeyondLoopback,
    reusePort: http.reusePort,
    headerTimeoutMs: http.headerTimeoutMs,
    silenceMsMax: silenceMsMax(config),
    logger,
  });
}

/** How long a connection may be silent while its caller waits for the virus scan, for the copy without metadata, and for the receipt. */
function silenceMsMax({ blocking, http, scan, complianceMode, limits }: Config): number {
  const scanMs = scan.clamd === undefined ? 0 : scan.timeoutMs;
  const stripMs = complianceMode ? stripAnswerMsMax(limits.documentBytesMax) : 0;
  return 2 * Math.max(blocking.timeoutMs, http.bodyIdleTimeoutMs, scanMs) + stripMs;
}
