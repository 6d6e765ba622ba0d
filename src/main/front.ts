/** A daemon without keys of the log: it accepts jobs into the database, where another daemon finds and seals them. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import { Metrics } from '../admin/metrics.ts';
import { openAdministration } from '../admin/server.ts';
import { stopwatch } from '../base/clock.ts';
import { OperatorError } from '../base/errors.ts';
import { startRounds } from '../base/rounds.ts';
import type { Config } from '../config/config.ts';
import type { LiveConfig } from '../config/reload.ts';
import { trustOf } from '../config/trustAnchors.ts';
import { createApp } from '../http/app.ts';
import { termAt } from '../log/epochs.ts';
import { unavailable } from '../scan/documentScan.ts';
import { ScannerFailure } from '../scan/scannerFailure.ts';
import type { DocumentScanner } from '../seal/documentPass.ts';
import { probing } from '../seal/probing.ts';
import { type NodeOutlook, RemoteSealer } from '../seal/remoteSealer.ts';
import { Timekeeping } from '../seal/timekeeping.ts';
import { SourceClient } from '../source/sourceClient.ts';
import { logDatabaseSpace } from '../store/diskSpace.ts';
import { openStoreAt } from '../store/engines.ts';
import type { Store } from '../store/store.ts';
import { isRefusedAs } from '../store/storeError.ts';
import type { Supervision } from '../watch/supervision.ts';
import {
  openApiServer,
  openClockOf,
  openCopiesOf,
  openEgress,
  openHashing,
  openLastCheckpointOf,
  openLimits,
  openScannerOf,
  openTlsOf,
} from './parts.ts';
import type { Running } from './running.ts';
import { administrationOf, apiOf, type Shared } from './shared.ts';
import { UNREACHABLE_MS_MAX } from './turn.ts';

export interface FrontOptions {
  config: Config;
  live: LiveConfig;
  supervision: Supervision;
  /** Aborted when this daemon must stop. */
  signal: AbortSignal;
  logger: Logger;
  onFatal(error: unknown): void;
}

/** Interval at which a front checks whether the epochs changed. */
const EPOCHS_MS = 1_000;
const RETRY_MS = 1_000;
/** Interval at which a front logs that its database does not answer. */
const TELL_MS = 60_000;

const NO_DELIVERIES = {
  endpoints: 0,
  disabled: 0,
  failing: 0,
  inFlight: 0,
  pending: 0,
  deadLetters: 0,
  delivered: 0,
  failures: 0,
  dropped: 0,
};
const NO_FETCHES = { underWay: 0, queued: 0, paused: 0 };

/** Opens the parts of a front, and listens. The caller closes `parts`. Undefined if it was stopped before it listened. */
export async function openFront(
  options: FrontOptions,
  parts: AsyncDisposableStack,
): Promise<Running | undefined> {
  const { config, live, supervision, logger } = options;
  const onFatal = unlessUnavailable(options);
  const adopt = <Part extends { close(): void | Promise<void> }>(part: Part) =>
    parts.adopt(part, (open) => open.close());
  const opened = await openWhenReachable(options);
  if (opened === undefined) return undefined;
  const store = adopt(opened);
  const { sealing } = store;
  if (sealing === undefined) throw new Error('the store of a front does not say who seals');
  supervision.starting('prepares to accept jobs');
  // The acts of a front are not on any audit trail, because it cannot write there.
  live.recordWith(async () => {});
  const egress = openEgress(config, logger, parts);
  const clock = await openClockOf(config, store, logger, parts);
  const time = new Timekeeping(store.serviceTime, clock);
  const metrics = new Metrics();
  const lastCheckpoint = await openLastCheckpointOf(config, store, { logger, onFatal, parts });
  const epochs = await followEpochs(store, onFatal, parts);
  const scanner = await openScannerOf(config, { metrics, logger, parts });
  const hash = await openHashing(config, { metrics, logger, parts });
  const limits = await openLimits(live, { store, time, metrics, logger });
  const sealer = adopt(
    await RemoteSealer.open({
      store,
      sealing,
      get queueJobsMax() {
        return live.current.limits.queueJobsMax;
      },
      observer: metrics,
      logger,
      onFatal,
    }),
  );
  if (sealer.outlook.isPrivileged)
    logger.warn(
      'the role in store.url may write the log: a front needs one that is a member of pdfseal_front only',
    );
  const copies = await openCopiesOf(config, store, parts);
  const document = {
    pool: hash.pool,
    documentBytesMax: config.limits.documentBytesMax,
    scanner: scanner ?? unscannedUnless(() => sealer.outlook),
  };
  const source = new SourceClient(egress.to('source'), config.sources.answerTimeoutMs);
  const probe = probing({ source, document, logger, signal: options.signal });
  const tls = openTlsOf('http.tls', config.http.tls, { logger, parts });
  const shared: Shared = {
    ...{ config, live, store, egress, document, scanner, hash, copies, limits, time, lastCheckpoint, tls },
    ...{ metrics, logger, onFatal },
  };
  const app = createApp({
    ...apiOf(shared),
    sealer,
    isFront: true,
    // A front has no certificates of its own, and cannot read the audit trail.
    trust: () => trustOf(store.identity, epochs().list, config, new Map()),
    sources: { probe, accept: (job, acceptance) => sealer.accept(job, acceptance) },
    timestamped: () => termAt(epochs(), time.date()).epoch.timestamps === 'required',
  });
  const { status, ...administration } = administrationOf(shared);
  adopt(
    await openAdministration({
      ...administration,
      status: {
        ...status,
        sealer,
        outlook: () => sealer.outlook,
        timestamping: undefined,
        sources: { status: () => NO_FETCHES },
        witnessing: undefined,
        webhooks: { status: async () => NO_DELIVERIES },
        tls: tls === undefined ? [] : [tls],
        lifecycle: app.lifecycle,
      },
      signing: undefined,
      carrying: undefined,
      console: undefined,
    }),
  );
  const server = await openApiServer(app, config, { logger, tls });
  return { server, engine: hash.engine, waiting: () => sealer.waitingCount };
}

/** Replaces a scanner: refuses documents while the daemon that seals scans its own. */
function unscannedUnless(outlook: () => NodeOutlook): DocumentScanner {
  return {
    admit() {
      if (outlook().scans)
        throw unavailable(
          new ScannerFailure(
            'unfit',
            'the daemon that seals scans documents, and this front does not: set scan.clamd',
          ),
        );
    },
    scan: () => undefined,
  };
}

/** The database may be started after this process, or be moving to another server. Undefined if this process must stop. */
async function openWhenReachable({
  config,
  supervision,
  signal,
  logger,
}: FrontOptions): Promise<Store | undefined> {
  const expected = { environment: config.environment, logOrigin: config.log.origin };
  const elapsedMs = stopwatch();
  let told: string | undefined;
  for (let unreachableMs = 0; !signal.aborted; unreachableMs += elapsedMs()) {
    try {
      return await openStoreAt(config.store, { expected, front: true, onFull: logDatabaseSpace(logger) });
    } catch (error) {
      if (!isUnreachable(error)) throw error;
      if (unreachableMs > UNREACHABLE_MS_MAX) throw new Error(error.message, { cause: error });
      if (told !== error.message) logger.info({ event: 'waiting' }, error.message);
      told = error.message;
      supervision.starting(told);
    }
    await sleep(RETRY_MS, undefined, { signal }).catch(() => {});
  }
  return undefined;
}

function isUnreachable(error: unknown): error is Error {
  if (isRefusedAs('database_away', error)) return true;
  return error instanceof OperatorError && error.code === 'database_unreachable';
}

/** Handles errors of periodic work, which continues once the database answers again. */
function unlessUnavailable({ logger, onFatal }: FrontOptions): (error: unknown) => void {
  let toldAt = Number.NEGATIVE_INFINITY;
  return (error) => {
    if (isRefusedAs('disk_full', error)) return; // The log already says so.
    if (!isRefusedAs('database_away', error)) return onFatal(error);
    if (performance.now() - toldAt < TELL_MS) return;
    toldAt = performance.now();
    logger.warn({ event: 'database_away', err: error }, 'the database does not answer: requests get 503');
  };
}

/** Keeps the epochs up to date. */
async function followEpochs(
  store: Pick<Store, 'epochs'>,
  onFatal: (error: unknown) => void,
  parts: AsyncDisposableStack,
): Promise<() => Awaited<ReturnType<Store['epochs']['newest']>>> {
  let newest = await store.epochs.newest();
  const look = async () => {
    newest = await store.epochs.newest();
  };
  parts.defer(startRounds(look, EPOCHS_MS, onFatal).close);
  return () => newest;
}
