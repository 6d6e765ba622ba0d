/** A daemon without keys of the log: it accepts jobs into the database, where another daemon finds and seals them. */
import { setTimeout as sleep } from 'node:timers/promises';
import { openAdministration } from '../admin/server.ts';
import { stopwatch } from '../base/clock.ts';
import { OperatorError } from '../base/errors.ts';
import { Rounds } from '../base/rounds.ts';
import { trustOf } from '../config/trustAnchors.ts';
import { createApp } from '../http/app.ts';
import { type Epochs, termAt } from '../log/epochs.ts';
import { unavailable } from '../scan/documentScan.ts';
import { ScannerFailure } from '../scan/scannerFailure.ts';
import type { DocumentScanner } from '../seal/documentPass.ts';
import { probing } from '../seal/probing.ts';
import { type NodeOutlook, RemoteSealer } from '../seal/remoteSealer.ts';
import { SourceClient } from '../source/sourceClient.ts';
import { logDatabaseSpace } from '../store/diskSpace.ts';
import { openStoreAt } from '../store/engines.ts';
import type { Store } from '../store/store.ts';
import { isRefusedAs } from '../store/storeError.ts';
import {
  apiOf,
  type Intake,
  openApiServer,
  openEarly,
  openIntake,
  openLastCheckpointOf,
  openTime,
} from './parts.ts';
import type { Program, Running } from './running.ts';
import { UNREACHABLE_MS_MAX } from './turn.ts';

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

/** Opens the parts of a front, and listens. Undefined if it was stopped before it listened. */
export async function openFront(program: Program): Promise<Running | undefined> {
  const early = await openEarly({ ...program, onFatal: unlessUnavailable(program) });
  const store = await openWhenReachable(early);
  if (store === undefined) return undefined;
  program.supervision.starting('prepares to accept jobs');
  // The acts of a front are not on any audit trail, because it cannot write there.
  program.live.recordWith(async () => {});
  const { clock, time } = await openTime(early, store);
  const lastCheckpoint = await openLastCheckpointOf(early, store);
  const intake = await openIntake({ ...early, store, clock, time, lastCheckpoint });
  const sealer = await openRemoteSealer(intake);
  return openFaces(intake, sealer);
}

async function openRemoteSealer(program: Intake): Promise<RemoteSealer> {
  const { store, live, metrics, logger, onFatal, own } = program;
  const { sealing } = store;
  if (sealing === undefined) throw new Error('the store of a front does not say who seals');
  const sealer = own(
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
  return sealer;
}

/** The administration and the API. */
async function openFaces(program: Intake, sealer: RemoteSealer): Promise<Running> {
  const { config, store, egress, hash, scanner, time, tls, stopping, logger, own } = program;
  const epochs = await followEpochs(program);
  const document = {
    pool: hash.pool,
    documentBytesMax: config.limits.documentBytesMax,
    scanner: scanner ?? unscannedUnless(() => sealer.outlook),
  };
  const source = new SourceClient(egress.to('source'), config.sources.answerTimeoutMs);
  const probe = probing({ source, document, logger, signal: stopping });
  const app = createApp({
    ...apiOf(program, document),
    sealer,
    // A front has no certificates of its own, and cannot read the audit trail.
    trust: () => trustOf(store.identity, epochs().list, config, new Map()),
    sources: { probe, accept: (job, acceptance) => sealer.accept(job, acceptance) },
    timestamped: () => termAt(epochs(), time.date()).epoch.timestamps === 'required',
  });
  own(
    await openAdministration({
      ...program,
      sealer,
      signing: undefined,
      timestamping: undefined,
      witnessing: undefined,
      outlook: () => sealer.outlook,
      sources: { status: () => NO_FETCHES },
      webhooks: { status: async () => NO_DELIVERIES },
      tls: tls === undefined ? [] : [tls],
      lifecycle: app.lifecycle,
      console: undefined,
    }),
  );
  const server = await openApiServer(app, program);
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
async function openWhenReachable(program: Program): Promise<Store | undefined> {
  const { config, supervision, stopping: signal, logger, own } = program;
  const expected = { environment: config.environment, logOrigin: config.log.origin };
  const elapsedMs = stopwatch();
  let told: string | undefined;
  for (let unreachableMs = 0; !signal.aborted; unreachableMs += elapsedMs()) {
    try {
      return own(
        await openStoreAt(config.store, { expected, front: true, onFull: logDatabaseSpace(logger) }),
      );
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
function unlessUnavailable({ logger, onFatal }: Program): (error: unknown) => void {
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
async function followEpochs({ store, onFatal, own }: Intake): Promise<() => Epochs> {
  let newest = await store.epochs.newest();
  const look = async () => {
    newest = await store.epochs.newest();
  };
  own(new Rounds(look, EPOCHS_MS, onFatal));
  return () => newest;
}
