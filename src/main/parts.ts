/** Opens the parts that a sealing daemon and a front have in common. */
import { Metrics } from '../admin/metrics.ts';
import { systemClock } from '../base/clock.ts';
import { fromEnvironment, inheritedSockets } from '../base/env.ts';
import type { Console } from '../console/console.ts';
import { type Copies, openCopies, stripAnswerMsMax } from '../copy/copies.ts';
import { chooseEngine } from '../hash/choose.ts';
import { openHashPool } from '../hash/pool.ts';
import type { App } from '../http/app.ts';
import type { AnsweredRequest } from '../http/observe.ts';
import { type HttpServer, listen } from '../http/server.ts';
import { Limits } from '../limits/limits.ts';
import { openLastCheckpoint } from '../prove/trail/lastCheckpoint.ts';
import { openScanner, type Scanner } from '../scan/scanner.ts';
import type { DocumentOptions } from '../seal/documentPass.ts';
import { Timekeeping } from '../seal/timekeeping.ts';
import { newestTimeOf } from '../seal/timestamping.ts';
import type { Store } from '../store/store.ts';
import type { ClockSource } from '../tsa/synchronization.ts';
import { openTrustedClock, type TrustedClock } from '../tsa/trustedClock.ts';
import { TargetPolicy } from '../web/policy.ts';
import { TlsCertificates, type TlsFiles, type TlsTable } from '../web/tls.ts';
import { talksOutwards } from './destinations.ts';
import { Egress } from './egressProcess.ts';
import type { Program } from './running.ts';

const CLOCK_AHEAD_MS_MAX = 24 * 3_600_000;

/** The parts that need no store: a daemon that waits for its store is ready to hash. */
export async function openEarly(program: Program) {
  const egress = openEgress(program);
  const console = await loadConsole(program);
  const metrics = new Metrics(console?.history);
  return { ...program, egress, console, metrics, hash: await openHashing(program, metrics) };
}

type Early = Awaited<ReturnType<typeof openEarly>>;

/** The trusted clock. Without time-stamps, it is the system clock, unchecked. */
export async function openTime({ config, logger, own }: Early, store: Store) {
  const { timestamp, clock: source, isFront } = config;
  const head = await store.log.head();
  const lastSealedAt = head?.sealedAt ?? 0;
  const clock: TrustedClock = own(
    await openTrustedClock({
      source: timestamp.authorities.length === 0 ? { trust: 'system' } : reachable(source),
      accuracyMs: timestamp.accuracyMs,
      ...(timestamp.authorities.length > 0 && !isFront && { aheadMsMax: CLOCK_AHEAD_MS_MAX }),
      newest: newestTimeOf(head, timestamp.policy),
      lastDate: store.serviceTime.lastDate ?? Math.max(lastSealedAt, store.identity.createdAt),
      logger,
    }),
  );
  return { clock, time: new Timekeeping(store.serviceTime, clock) };
}

/** Refuses a store that lacks part of what was released. */
export async function openLastCheckpointOf({ config, logger, onFatal, own }: Early, store: Store) {
  const { lastCheckpointFile: file, lastCheckpointIntervalMs: intervalMs } = config.log;
  return own(await openLastCheckpoint({ file, store, intervalMs, logger, onFatal }));
}

/** A program with its store, which is complete and of the configured log. */
export interface Stored extends Early, Awaited<ReturnType<typeof openTime>> {
  store: Store;
  lastCheckpoint: Awaited<ReturnType<typeof openLastCheckpointOf>>;
}

/** The parts that a request passes before its job is accepted. */
export async function openIntake<Program extends Stored>(program: Program) {
  return {
    ...program,
    scanner: await openScannerOf(program),
    limits: await openLimits(program),
    copies: await openCopiesOf(program),
    tls: openTlsOf(program, 'http.tls', program.config.http.tls),
  };
}

export type Intake = Awaited<ReturnType<typeof openIntake<Stored>>>;

/**
 * The client for requests to other machines. If the egress process is a child, it is started at once if the configuration names any
 * destination, otherwise when needed.
 */
function openEgress({ config, logger, own }: Program): Egress {
  const socket = fromEnvironment('PDFSEALD_EGRESS_SOCKET');
  const egress = own(new Egress({ configFile: config.file, socket, logger }));
  if (talksOutwards(config)) {
    void egress.socketPath();
    void egress.compare(config.sha256);
  }
  return egress;
}

/** Undefined if the console is not configured; its code is not loaded then. */
async function loadConsole({ config: { console } }: Program): Promise<Console | undefined> {
  if (console === undefined) return undefined;
  const loaded = await import('../console/console.ts');
  return new loaded.Console(console.listen, systemClock);
}

/** The hash workers, with the engine chosen for this processor. */
async function openHashing({ config, logger, own }: Program, metrics: Metrics) {
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
  const pool = own(await openHashPool(options));
  return { engine, kernels: calibration?.chosen ?? [], workers: config.hash.workers, pool };
}

/** The form in which this process can query it. */
function reachable(source: ClockSource): ClockSource {
  const socket = fromEnvironment('PDFSEALD_CLOCK_SOCKET');
  return source.trust === 'chrony' && socket !== undefined ? { ...source, socket } : source;
}

async function openScannerOf({ config, metrics, logger, own }: Early): Promise<Scanner | undefined> {
  const { clamd, ...options } = config.scan;
  if (clamd === undefined) {
    logger.warn(
      'scan.clamd is not set: documents are not scanned for viruses, and receipts say not_configured',
    );
    return undefined;
  }
  const { documentBytesMax } = config.limits;
  const onScan: Metrics['scanned'] = (answer, durationMs) => metrics.scanned(answer, durationMs);
  return own(await openScanner({ ...options, clamd, documentBytesMax, onScan, logger }));
}

/** Rates and quotas of clients, which follow the configuration. */
async function openLimits({ live, store, time, metrics, logger }: Stored): Promise<Limits> {
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

/**
 * Copies leave free disk space for jobs without copies. They are opened without compliance mode too: earlier copies are still served, and
 * deleted when they expire.
 */
async function openCopiesOf({ config, store, own }: Stored): Promise<Copies> {
  async function* documents() {
    for await (const { copy } of store.copies.all()) yield copy;
  }
  const options = {
    path: config.documentsDir,
    freeBytesMin: 2 * config.storage.freeBytesMin,
    workers: config.hash.workers,
    stripperSocket: fromEnvironment('PDFSEALD_STRIPPER_SOCKET'),
    bytesMax: config.pdf.attach ? config.pdf.spoolBytesMax : undefined,
  };
  const copies = own(await openCopies(options, documents()));
  if (config.complianceMode || config.pdf.attach) await copies.probe();
  return copies;
}

/** The certificates of a listener; undefined if it does not use TLS. */
export function openTlsOf(
  { logger, own }: Program,
  table: TlsTable,
  files: TlsFiles | undefined,
): TlsCertificates | undefined {
  if (files === undefined) return undefined;
  const tls = own(new TlsCertificates(table, files, logger));
  process.on('SIGHUP', () => tls.reload());
  return tls;
}

/** The options of the API that do not depend on who seals. */
export function apiOf(program: Intake, document: DocumentOptions) {
  const { config, live, store, tls, limits, copies, time, metrics, logger, onFatal } = program;
  const { http, blocking, webhooks, log, retention } = config;
  return {
    ...http,
    ...{ store, tls, limits, copies, time, logger, onFatal },
    blockingTimeoutMs: blocking.timeoutMs,
    webhookPolicy: new TargetPolicy(webhooks.allow),
    logPublic: log.public,
    documentRetentionMs: retention.documentMs,
    intake: {
      ...document,
      patience: { idleTimeoutMs: http.bodyIdleTimeoutMs, bytesPerSecondMin: http.bodyBytesPerSecondMin },
    },
    organizations: () => live.current.organizations,
    onRequest: (request: AnsweredRequest) => metrics.request(request),
    onUnlogged: () => metrics.unlogged(),
  };
}

/** Listens at the configured addresses, or on the sockets passed by the service manager. */
export async function openApiServer(app: App, { config, tls, logger }: Intake): Promise<HttpServer> {
  const inherited = inheritedSockets();
  const at = inherited.length > 0 ? inherited : config.http.listen;
  return listen(app, { ...config.http, listen: at, tls, silenceMsMax: silenceMsMax(config), logger });
}

/** How long a connection may be silent while its caller waits for the virus scan, for the copy without metadata, for the plan of the sealed PDF, and for the receipt. */
function silenceMsMax({ blocking, http, scan, complianceMode, pdf, limits }: Program['config']): number {
  const scanMs = scan.clamd === undefined ? 0 : scan.timeoutMs;
  const tasks = Number(complianceMode) + Number(pdf.attach);
  const stripMs = tasks * stripAnswerMsMax(limits.documentBytesMax);
  return 2 * Math.max(blocking.timeoutMs, http.bodyIdleTimeoutMs, scanMs) + stripMs;
}
