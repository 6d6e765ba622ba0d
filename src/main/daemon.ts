/** A daemon that seals: opens its parts in the order in which they depend on each other. */
import { readFileSync } from 'node:fs';
import { getHeapStatistics } from 'node:v8';
import { openAdministration } from '../admin/server.ts';
import { systemClock, toRfc3339 } from '../base/clock.ts';
import { makeFolder } from '../base/folders.ts';
import { packageVersion } from '../base/package.ts';
import type { Rounds } from '../base/rounds.ts';
import { assertAgreement } from '../config/agreement.ts';
import { certificatesInUse } from '../config/certificatesInUse.ts';
import { spelledSettings } from '../config/settingsToml.ts';
import { trustOf } from '../config/trustAnchors.ts';
import type { ConsoleOptions } from '../console/console.ts';
import { createApp } from '../http/app.ts';
import { presentEvent } from '../http/presentJob.ts';
import type { RefusalListener } from '../kms/partition.ts';
import type { Epoch } from '../log/epochs.ts';
import { kmsKeyId } from '../log/verifierKey.ts';
import { parseWitnessPolicy } from '../log/witnessPolicy.ts';
import type { ActName, ActObject } from '../manifest/auditRecord.ts';
import { Backups } from '../ops/backups.ts';
import { Drills } from '../ops/drills.ts';
import { presentEpochs } from '../ops/presentEpochs.ts';
import { EpochSeal } from '../prove/epochs/epochSeal.ts';
import { createVerifier } from '../prove/verify/verify.ts';
import { Fetching } from '../seal/fetching.ts';
import { openSealer } from '../seal/openSealer.ts';
import { RefusedJobs } from '../seal/refusedJobs.ts';
import { openSigning } from '../seal/signing.ts';
import { openTimestamping, type Timestamping } from '../seal/timestamping.ts';
import { SourceClient } from '../source/sourceClient.ts';
import { actOfProcess } from '../store/acts.ts';
import { DiskSpace, logDatabaseSpace } from '../store/diskSpace.ts';
import { openStoreAt } from '../store/engines.ts';
import { startExpiryWarnings } from '../tsa/expiryWarnings.ts';
import { startArrivalFeed } from '../watch/arrivalFeed.ts';
import { startAuditFeed } from '../watch/auditFeed.ts';
import { Canary } from '../watch/canary.ts';
import { startSweeping } from '../watch/sweep.ts';
import { openWitnessing, type Witnessing } from '../watch/witnessing.ts';
import type { TlsCertificates } from '../web/tls.ts';
import { Deliverer } from '../webhook/deliver.ts';
import { authorityPurpose } from './destinations.ts';
import { epochActsOf } from './epochActs.ts';
import {
  apiOf,
  type Intake,
  openApiServer,
  openEarly,
  openIntake,
  openLastCheckpointOf,
  openTime,
  openTlsOf,
  type Stored,
} from './parts.ts';
import type { Program, Running } from './running.ts';
import { completeEpochRecords, recordBegin } from './sealEpochs.ts';
import { sealedFilesOf } from './sealedFiles.ts';
import { takeOverOnce } from './takeOver.ts';
import { openInTurn } from './turn.ts';

/** How long sealing a canary may take before it counts as failed. */
const CANARY_MS_MAX = 30_000;

/** Heap bytes of a waiting job: 1.2 to 3.4 kB were measured. */
const JOB_BYTES_MAX = 3_400;

/** Opens the parts of the daemon, and listens. Undefined if it was stopped before it was its turn. */
export async function openDaemon(program: Program): Promise<Running | undefined> {
  const stored = await openOwnStore(program);
  if (stored === undefined) return undefined;
  const intake = await openIntake(stored);
  const sealing = await openSealing(intake);
  const working = await startWork(sealing);
  return openFaces(working);
}

/** The store, once it is this daemon's turn, after all checks that it is the whole and only history of the log. */
async function openOwnStore(program: Program) {
  const { config, live, logger, onFatal, supervision, parts, own } = program;
  warnOfQueueMemory(program);
  const early = await openEarly(program);
  const { freeBytesMin } = config.storage;
  const diskSpace = new DiskSpace({ path: config.diskDir, freeBytesMin, logger });
  const opened = await openInTurn(program, (sequencing) =>
    openStoreAt(config.store, {
      diskSpace,
      onFull: logDatabaseSpace(logger),
      expected: { environment: config.environment, logOrigin: config.log.origin },
      backlogMax: config.webhooks.backlogMax,
      sequencing,
      onMigration: (schema) =>
        logger.warn({ schema }, 'the store is of an older pdfseald: it is copied and migrated'),
    }),
  );
  if (opened === undefined) return undefined;
  const store = own(opened);
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
  const { clock, time } = await openTime(early, store);
  const isFull = () => diskSpace.isFull || store.space?.isFull === true;
  parts.defer(time.start({ onFatal, isFull }));
  assertAgreement(config, await store.epochs.newest(), time.date());
  // Before anything is sealed: jobs that wait in an older copy of the store must not be signed into a second history of the log.
  const lastCheckpoint = await openLastCheckpointOf(early, store);
  await takeOverOnce(store, isTakenOver, logger);
  const stored = { ...early, store, clock, time, lastCheckpoint };
  return { ...stored, diskSpace, isFull, record, recorded, epochSeal, certificates };
}

/**
 * Warns, now and after each reload, about a queue that does not fit into this process's memory. With that many waiting jobs it would run
 * out of memory, and so would every later start, which reads them all.
 */
function warnOfQueueMemory({ live, logger }: Program): void {
  const heapBytes = getHeapStatistics().heap_size_limit;
  const warn = ({ limits: { queueJobsMax } }: Program['config']) => {
    if (queueJobsMax * JOB_BYTES_MAX <= heapBytes) return;
    logger.warn(
      { event: 'queue_exceeds_memory', queue_jobs_max: queueJobsMax, heap_bytes: heapBytes },
      `limits.queue_jobs_max is more than this process has memory for: set it to ${Math.floor(heapBytes / JOB_BYTES_MAX)} or less`,
    );
  };
  warn(live.current);
  live.onChange(warn);
}

type OwnStore = NonNullable<Awaited<ReturnType<typeof openOwnStore>>>;

/** The keys, authorities and witnesses, and the sealer that has batches signed by them. */
async function openSealing(program: OwnStore & Intake) {
  const { config, live, store, epochSeal, diskSpace, time, metrics, logger, onFatal, own } = program;
  const onRefused: RefusalListener = (key, code) => {
    program.record('signers.refuse', { partition: kmsKeyId(key), code }).catch(onFatal);
  };
  let feed: Rounds | undefined;
  const signing = own(
    await openSigning({
      store: { log: store.log, epochs: epochSeal },
      partitions: config.kms.partitions,
      duties: { log: logDuties(program) },
      sessions: config.kms.sessions,
      signTimeoutMs: config.kms.signTimeoutMs,
      clock: time.date,
      logger,
      onSigned: (key, durationMs) => metrics.signed(kmsKeyId(key), durationMs),
      onRefused,
      onChange: async () => feed?.now(),
      onBegin: (epoch: Epoch) => {
        recordBegin(store, epoch).catch(onFatal);
      },
      onFatal,
    }),
  );
  // Not awaited, like the record of the start.
  completeEpochRecords(store, epochSeal, signing.epoch).catch(onFatal);
  const keys = () => signing.epochs.list.flatMap((epoch) => epoch.keys);
  const witnessing = await openWitnessingOf(program, keys);
  const timestamping = await openTimestampingOf(program, onRefused);
  const refused = new RefusedJobs(logger);
  const sealer = own(
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
  feed = own(startAuditFeed({ store, sealer, proveEpochs, after: program.recorded, logger, onFatal }));
  const trust = () => trustOf(store.identity, signing.epochs.list, config, program.certificates);
  return { ...program, signing, witnessing, timestamping, refused, sealer, trust };
}

type Sealing = Awaited<ReturnType<typeof openSealing>>;

/** The duties of a signer of the log that is a child of this process. */
function logDuties({ config: { log, kms, signersDir } }: Program) {
  makeFolder(signersDir, 0o700);
  return { origin: log.origin, folder: signersDir, sessions: kms.sessions, isUnit: false };
}

/** Undefined if no witness is configured. It begins to ask when it is started. */
async function openWitnessingOf(
  { config, egress, store, logger, onFatal, own }: Stored,
  keys: () => Epoch['keys'],
): Promise<Witnessing | undefined> {
  const { witness, log } = config;
  if (witness.policy === undefined) return undefined;
  // The check of the configuration has already validated it.
  const policy = parseWitnessPolicy(readFileSync(witness.policy, 'utf8'), log.origin);
  const client = egress.to('witness');
  const { intervalMs } = witness;
  const options = { store, keys, policy, intervalMs, client, clock: systemClock, logger, onFatal };
  return own(await openWitnessing(options));
}

async function openTimestampingOf(
  { config, clock, egress, logger, parts }: Stored,
  onRefused: RefusalListener,
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

/** The parts that work by themselves: they fetch documents, deliver events, and delete what has expired. */
async function startWork(program: Sealing) {
  const { config, live, egress, store, sealer, copies, scanner, refused } = program;
  const { time, metrics, logger, onFatal, parts, own } = program;
  const documentRetentionMs = config.retention.documentMs;
  parts.defer(startSweeping({ store, copies, documentRetentionMs, time, logger, onFatal }));
  const { environment } = config;
  const { publicUrl, bodyIdleTimeoutMs: idleTimeoutMs } = config.http;
  const webhooks = own(
    new Deliverer({
      ...config.webhooks,
      ...{ store, date: time.date, clock: systemClock, logger, onFatal },
      client: egress.to('webhook'),
      present: (job, endedAt) => presentEvent(job, endedAt, { environment, publicUrl }),
    }),
  );
  webhooks.start();
  const document = {
    pool: program.hash.pool,
    documentBytesMax: config.limits.documentBytesMax,
    scanner,
    copies,
    strips: config.complianceMode,
    attaches: config.pdf.attach,
  };
  const { answerTimeoutMs, bytesPerSecondMin, ...limits } = config.sources;
  const sources = own(
    new Fetching({
      ...limits,
      ...{ store, sealer, document, logger, refused, onFatal },
      source: new SourceClient(egress.to('source'), answerTimeoutMs),
      patience: { idleTimeoutMs, bytesPerSecondMin },
      onAttempt: (attempt) => metrics.fetched(attempt),
    }),
  );
  sources.start();
  const { arrivals } = store;
  const jobsMax = () => live.current.limits.queueJobsMax;
  if (arrivals !== undefined)
    own(
      startArrivalFeed({
        ...{ store, arrivals, sealer, sources, jobsMax, refused, clock: systemClock, onFatal },
        scans: scanner !== undefined,
      }),
    );
  return { ...program, document, webhooks, sources };
}

type Working = Awaited<ReturnType<typeof startWork>>;

/** The administration, the console and the API. */
async function openFaces(program: Working): Promise<Running> {
  const { config, store, signing, witnessing, timestamping, sealer, sources, trust } = program;
  const { record, isFull, metrics, logger, onFatal, own } = program;
  const api = apiOf(program, program.document);
  const app = createApp({
    ...api,
    ...{ sealer, sources, trust },
    timestamped: () => signing.epoch.timestamps === 'required',
    authority: timestamping?.authority,
  });
  const common = { clock: systemClock, logger, onFatal };
  const canary = own(
    new Canary({
      ...common,
      ...{ store, sealer, trust, pool: program.hash.pool },
      intervalMs: config.health.canaryIntervalMs,
      timeoutMs: CANARY_MS_MAX,
      onRun: (run) => metrics.canary(run),
    }),
  );
  const drills = own(new Drills({ ...common, partitions: () => signing.partitions, trail: store.trail }));
  const consoleTls = openTlsOf(program, 'console.tls', config.console?.tls);
  const { status } = own(
    await openAdministration({
      ...program,
      tls: [program.tls, consoleTls].filter((one) => one !== undefined),
      lifecycle: app.lifecycle,
      signing: { partitions: signing, canary, drills },
      carrying: witnessing?.carrying,
      console: program.console?.sessions,
    }),
  );
  const shown = { ...common, status, drills, tls: consoleTls };
  await openConsole(program, shown);
  const server = await openApiServer(app, program);
  const running = { version: packageVersion(), config_sha256: config.sha256 };
  // Not awaited: on a full disk the record is written once there is space, and receipts can be read in the meantime.
  record('daemon.start', { ...running, epoch_from: toRfc3339(signing.epoch.from) }).catch(onFatal);
  canary.start();
  witnessing?.start();
  return {
    server,
    engine: program.hash.engine,
    waiting: () => sealer.waitingCount,
    onDrained: async () => {
      if (isFull()) logger.warn('the disk is full, or nearly: the audit trail has no record of this stop');
      else await record('daemon.stop', running);
    },
  };
}

/** Nothing if the console is not configured. */
async function openConsole(
  program: Working,
  {
    tls: certificates,
    ...shown
  }: Pick<ConsoleOptions, 'clock' | 'logger' | 'onFatal' | 'drills'> & {
    status: Awaited<ReturnType<typeof openAdministration>>['status'];
    tls: TlsCertificates | undefined;
  },
): Promise<void> {
  const { config, console, live, store, epochSeal, copies, time, trust, own } = program;
  if (console === undefined) return;
  const { stateDir, environment, retention } = config;
  const { date } = time;
  const tls = config.console?.tls;
  const opened = await console.open({
    ...shown,
    ...{ environment, store },
    config: () => live.current,
    quotas: () => shown.status.storedQuotas(),
    epochs: async () => presentEpochs(await store.epochs.newest(), date()),
    settings: (how) => spelledSettings(live.settings(), how),
    verifier: () => createVerifier(trust(), { judgesDates: false }),
    evidence: sealedFilesOf({ store, trust, copies, retentionMs: retention.documentMs, time }),
    givesSealedPdfs: config.console?.sealedPdfs === true,
    backups: new Backups({ stateDir, trail: store.trail, clock: systemClock }),
    epochActs: epochActsOf(store, { file: config.file, epochSeal }),
    // People with certificates are identified by the current configuration.
    ...(tls &&
      certificates && { tls: { listen: tls.listen, certificates, date, people: () => live.current.people } }),
  });
  own(opened);
}
