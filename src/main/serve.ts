import type { Logger } from 'pino';
import { Metrics } from '../admin/metrics.ts';
import { openAdministration } from '../admin/server.ts';
import { systemClock, toRfc3339 } from '../base/clock.ts';
import { EXIT_SOFTWARE, stopSignal } from '../base/ending.ts';
import { fromEnvironment, watchdogMs } from '../base/env.ts';
import { acquireLock } from '../base/lock.ts';
import { createLogger } from '../base/logger.ts';
import { packageVersion } from '../base/package.ts';
import type { Rounds } from '../base/rounds.ts';
import { assertAgreement } from '../config/agreement.ts';
import { loadConfig } from '../config/config.ts';
import { LiveConfig } from '../config/reload.ts';
import { spelledSettings } from '../config/settingsToml.ts';
import { trustOf } from '../config/trustAnchors.ts';
import { storedQuotas } from '../health/sections/quotasSection.ts';
import { createApp } from '../http/app.ts';
import type { RefusalListener } from '../kms/partitions.ts';
import type { Epoch } from '../log/epochs.ts';
import { kmsKeyId } from '../log/verifierKey.ts';
import type { ActName, ActObject } from '../manifest/auditRecord.ts';
import { Backups } from '../ops/backups.ts';
import { Drills } from '../ops/drills.ts';
import { presentEpochs } from '../ops/presentEpochs.ts';
import { EpochSeal } from '../prove/epochs/epochSeal.ts';
import { createVerifier } from '../prove/verify/verify.ts';
import type { FetchAttempt } from '../seal/fetching.ts';
import { openSealer } from '../seal/openSealer.ts';
import { RefusedJobs } from '../seal/refusedJobs.ts';
import { openSigning } from '../seal/signing.ts';
import { Timekeeping } from '../seal/timekeeping.ts';
import { actOfProcess } from '../store/acts.ts';
import { DiskSpace, logDatabaseSpace } from '../store/diskSpace.ts';
import { openStoreAt } from '../store/engines.ts';
import { startArrivalFeed } from '../watch/arrivalFeed.ts';
import { startAuditFeed } from '../watch/auditFeed.ts';
import { Canary } from '../watch/canary.ts';
import { QuietCollector } from '../watch/quietCollector.ts';
import { Supervision } from '../watch/supervision.ts';
import { startSweeping } from '../watch/sweep.ts';
import { epochActsOf } from './epochActs.ts';
import { openFront } from './front.ts';
import {
  consoleTlsOf,
  loadConsole,
  logDuties,
  openApiServer,
  openClockOf,
  openCopiesOf,
  openDeliverer,
  openEgress,
  openFetching,
  openHashing,
  openLastCheckpointOf,
  openLimits,
  openScannerOf,
  openTimestampingOf,
  openTlsOf,
  openWitnessingOf,
} from './parts.ts';
import { warnOfQueueMemory } from './queueMemory.ts';
import { runUntilStopped } from './running.ts';
import { completeEpochRecords, recordBegin } from './sealEpochs.ts';
import { sealedFilesOf } from './sealedFiles.ts';
import { administrationOf, apiOf, type Shared } from './shared.ts';
import { noteWhileWaiting } from './standby.ts';
import { takeOverOnce } from './takeOver.ts';
import { stoppedWaiting, waitForTurn } from './turn.ts';

/** How long sealing a canary may take before it counts as failed. */
const CANARY_MS_MAX = 30_000;

/** Opens the parts in the order in which they depend on each other, serves, and closes them in reverse order. `file`: the configuration. */
export async function serve(file: string): Promise<void> {
  const config = loadConfig(file);
  const logger = createLogger(config.logging.level);
  const onFatal = (error: unknown) => endAtOnce(logger, error);
  process.on('uncaughtException', onFatal);
  process.on('unhandledRejection', onFatal);
  for (const name of config.formerNames) logger.warn(name);
  const stopped = stopSignal();
  const live = new LiveConfig(config, systemClock, logger);
  process.on('SIGHUP', () => live.reload().catch(onFatal));

  await using parts = new AsyncDisposableStack();
  const adopt = <Part extends { close(): void | Promise<void> }>(part: Part) =>
    parts.adopt(part, (open) => open.close());
  parts.use(acquireLock(config.lockFile)).watch(onFatal);
  let waiting = () => 0;
  const supervision = new Supervision({
    socket: fromEnvironment('NOTIFY_SOCKET'),
    watchdogMs: watchdogMs(),
    status: () => `${waiting()} jobs wait`,
    logger,
  });
  parts.defer(() => supervision.close());
  adopt(new QuietCollector());
  if (config.isFront) {
    const abort = new AbortController();
    stopped.then(() => abort.abort(), onFatal);
    const running = await openFront(
      { config, live, supervision, signal: abort.signal, logger, onFatal },
      parts,
    );
    if (running !== undefined) {
      waiting = running.waiting;
      await runUntilStopped(running, { config, supervision, stopped, logger, onFatal });
      await parts.disposeAsync();
    }
    logger.info({ event: 'stopped' }, 'stopped');
    return;
  }
  warnOfQueueMemory(live, logger);
  const egress = openEgress(config, logger, parts);
  const diskSpace = new DiskSpace({
    path: config.diskDir,
    freeBytesMin: config.storage.freeBytesMin,
    logger,
  });
  const console = await loadConsole(config);
  const metrics = new Metrics(console?.history);
  // Before waiting for the turn: a waiting daemon is ready to hash.
  const hash = await openHashing(config, { metrics, logger, parts });
  const { pool } = hash;
  const turn = waitForTurn({
    ...{ supervision, stopped, logger, onFatal },
    onStandby: (signal) => {
      noteWhileWaiting(config, { signal, logger }).catch(onFatal);
    },
  });
  const opened = await openStoreAt(config.store, {
    diskSpace,
    onFull: logDatabaseSpace(logger),
    expected: { environment: config.environment, logOrigin: config.log.origin },
    backlogMax: config.webhooks.backlogMax,
    sequencing: turn,
    onMigration: (schema) =>
      logger.warn({ schema }, 'the store is of an older pdfseald: it is copied and migrated'),
  })
    .catch((error) => stoppedWaiting(error, logger))
    .finally(turn.over);
  if (opened === undefined) return;
  const store = adopt(opened);
  supervision.starting('prepares to seal');
  const record = (act: ActName, object: ActObject) => store.trail.append(actOfProcess('daemon', act, object));
  live.recordWith((object) => record('config.reload', object));
  const recorded = await store.trail.newest();
  // Before this process appends or seals any audit record, which would cover up what a forger has cut off.
  const epochSeal = new EpochSeal(store, {
    onLeaves: (leaves) =>
      supervision.starting(`looks for the newest sealed audit record: ${leaves} leaves read`),
  });
  const { certificates, isTakenOver } = await epochSeal.read();
  const clock = await openClockOf(config, store, logger, parts);
  const time = new Timekeeping(store.serviceTime, clock);
  const isFull = () => diskSpace.isFull || store.space?.isFull === true;
  parts.defer(time.start({ onFatal, isFull }));
  assertAgreement(config, await store.epochs.newest(), time.date());
  // Before anything is sealed: jobs that wait in an older copy of the store must not be signed into a second history of the log.
  const lastCheckpoint = await openLastCheckpointOf(config, store, { logger, onFatal, parts });
  await takeOverOnce(store, isTakenOver, logger);
  const refused = new RefusedJobs(logger);
  let feed: Rounds | undefined;
  const onBegin = (epoch: Epoch) => {
    recordBegin(store, epoch).catch(onFatal);
  };
  const onRefused: RefusalListener = (key, code) => {
    record('signers.refuse', { partition: kmsKeyId(key), code }).catch(onFatal);
  };
  const signing = adopt(
    await openSigning({
      store: { log: store.log, epochs: epochSeal },
      partitions: config.kms.partitions,
      duties: logDuties(config),
      sessions: config.kms.sessions,
      signTimeoutMs: config.kms.signTimeoutMs,
      clock: time.date,
      logger,
      onSigned: (key, durationMs) => metrics.signed(kmsKeyId(key), durationMs),
      onRefused,
      onChange: async () => feed?.now(),
      onBegin,
      onFatal,
    }),
  );
  // Not awaited, like the record of the start below.
  completeEpochRecords(store, epochSeal, signing.epoch).catch(onFatal);
  const keys = () => signing.epochs.list.flatMap((epoch) => epoch.keys);
  const witnessing = await openWitnessingOf(config, { egress, store, keys, logger, onFatal }, parts);
  const timestamping = await openTimestampingOf(config, { clock, egress, onRefused, logger }, parts);
  const scanner = await openScannerOf(config, { metrics, logger, parts });
  const limits = await openLimits(live, { store, time, metrics, logger });
  const sealer = adopt(
    await openSealer(
      {
        store,
        signing,
        timestamping,
        isForked: () => witnessing?.isForked === true,
        cosigners: config.witness.required ? witnessing : undefined,
        diskSpace,
        requireRecord: (job) => epochSeal.requireRecord(job),
        ...config.sealing,
        get queueJobsMax() {
          return live.current.limits.queueJobsMax;
        },
        clock: systemClock,
        logger,
        observer: metrics,
        onFatal,
      },
      refused,
    ),
  );
  const proveEpochs = () => epochSeal.read();
  feed = adopt(startAuditFeed({ store, sealer, proveEpochs, after: recorded, logger, onFatal }));
  const copies = await openCopiesOf(config, store, parts);
  const documentRetentionMs = config.retention.documentMs;
  parts.defer(startSweeping({ store, copies, documentRetentionMs, time, logger, onFatal }));
  const webhooks = adopt(openDeliverer(config, { egress, store, date: time.date, logger, onFatal }));
  const document = {
    pool,
    documentBytesMax: config.limits.documentBytesMax,
    scanner,
    ...(config.complianceMode && { copies }),
  };
  const onAttempt = (attempt: FetchAttempt) => metrics.fetched(attempt);
  const sources = await openFetching(
    config,
    { egress, store, sealer, document, logger, refused, onAttempt, onFatal },
    parts,
  );
  const { arrivals } = store;
  const jobsMax = () => live.current.limits.queueJobsMax;
  if (arrivals !== undefined)
    adopt(
      startArrivalFeed({
        ...{ store, arrivals, sealer, sources, jobsMax, refused, clock: systemClock, onFatal },
        scans: scanner !== undefined,
      }),
    );
  const tls = openTlsOf('http.tls', config.http.tls, { logger, parts });
  const consoleTls = openTlsOf('console.tls', config.console?.tls, { logger, parts });
  const trust = () => trustOf(store.identity, signing.epochs.list, config, certificates);
  const shared: Shared = {
    ...{ config, live, store, egress, document, scanner, hash, copies, limits, time, lastCheckpoint, tls },
    ...{ metrics, logger, onFatal },
  };
  const api = apiOf(shared);
  const app = createApp({
    ...api,
    sealer,
    sources,
    trust,
    timestamped: () => signing.epoch.timestamps === 'required',
    authority: timestamping?.authority,
  });
  const common = { clock: systemClock, logger, onFatal };
  const canary = adopt(
    new Canary({
      ...common,
      store,
      sealer,
      pool,
      trust,
      intervalMs: config.health.canaryIntervalMs,
      timeoutMs: CANARY_MS_MAX,
      onRun: (run) => metrics.canary(run),
    }),
  );
  const drills = adopt(new Drills({ ...common, partitions: signing, trail: store.trail }));
  const { status: known, ...administrationParts } = administrationOf(shared);
  const administration = adopt(
    await openAdministration({
      ...administrationParts,
      status: {
        ...known,
        ...{ sealer, refused, timestamping, sources, witnessing, webhooks },
        tls: [tls, consoleTls].filter((one) => one !== undefined),
        lifecycle: app.lifecycle,
      },
      signing: { partitions: signing, canary, drills },
      carrying: witnessing?.carrying,
      console: console?.sessions,
    }),
  );
  if (console !== undefined) {
    const { environment } = config;
    const epochs = () => presentEpochs(signing.epochs, time.date());
    const settings = (how: { isWhole: boolean }) => spelledSettings(live.settings(), how);
    const { status } = administration;
    const verifier = () => createVerifier(trust(), { judgesDates: false });
    const evidence = sealedFilesOf({ store, trust, copies, retentionMs: documentRetentionMs, time });
    const quotas = () => storedQuotas(store, live.current.policies, time.date());
    const backups = new Backups({ stateDir: config.stateDir, trail: store.trail, clock: systemClock });
    const epochActs = epochActsOf(store, { file: config.file, epochSeal });
    const done = { drills, backups, epochActs, webhookPolicy: api.webhookPolicy };
    const shown = { environment, store, status, quotas, epochs, settings, verifier, evidence };
    const tls = consoleTlsOf(live, { certificates: consoleTls, date: time.date });
    adopt(await console.open({ ...common, ...shown, ...done, ...tls }));
  }
  const server = await openApiServer(app, config, { logger, tls });
  const running = { version: packageVersion(), config_sha256: config.sha256 };
  // Not awaited: on a full disk the record is written once there is space, and receipts can be read in the meantime.
  record('daemon.start', { ...running, epoch_from: toRfc3339(signing.epoch.from) }).catch(onFatal);
  canary.start();
  witnessing?.start();
  waiting = () => sealer.waitingCount;
  await runUntilStopped(
    { server, engine: hash.engine, waiting },
    { config, supervision, stopped, logger, onFatal },
  );
  if (isFull()) logger.warn('the disk is full, or nearly: the audit trail has no record of this stop');
  else await record('daemon.stop', running);
  await parts.disposeAsync();
  logger.info({ event: 'stopped' }, 'stopped');
}

/** Everything acknowledged is on disk, so after a broken invariant the process can end and be restarted. */
function endAtOnce(logger: Logger, err: unknown): void {
  logger.fatal({ event: 'cannot_go_on', err }, 'pdfseald cannot continue');
  process.exit(EXIT_SOFTWARE);
}
