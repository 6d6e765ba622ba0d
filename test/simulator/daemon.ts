import { EventEmitter } from 'node:events';
import { pino } from 'pino';
import type { Rounds } from '../../src/base/rounds.ts';
import { Partitions } from '../../src/kms/partitions.ts';
import { type Epoch, termAt } from '../../src/log/epochs.ts';
import { openSealer } from '../../src/seal/openSealer.ts';
import type { Sealer } from '../../src/seal/sealer.ts';
import { Signing } from '../../src/seal/signing.ts';
import type { Store } from '../../src/store/store.ts';
import { startAuditFeed } from '../../src/watch/auditFeed.ts';
import { GIVE_UP_MS } from './checker.ts';
import type { AuthorityModel, PartitionModel, WitnessModel } from './devices.ts';

/** The parts of the daemon that run in a schedule. */
export interface Daemon {
  store: Store;
  sealer: Sealer;
  signing: Signing;
  feed: Rounds;
  /** Callers who wait. */
  callers: Set<AbortController>;
  /** Jobs whose documents are being fetched. */
  fetching: Set<string>;
  closing?: Promise<void>;
}

/** Everything outside of the daemon. */
export interface Surroundings {
  store: Store;
  partitions: readonly PartitionModel[];
  authority: AuthorityModel;
  /** Where the log must be witnessed. */
  witness: WitnessModel | undefined;
  date(): number;
  isForked(): boolean;
  /** Told of the epoch at the start, and of each that begins. */
  onBegin(epoch: Epoch): void;
  onFatal(error: unknown): void;
}

const logger = pino({ level: 'silent' });

/** Opens them as `src/main/daemon.ts` does. */
export async function openDaemon({ store, partitions, ...outside }: Surroundings): Promise<Daemon> {
  const { date: clock, onBegin, onFatal } = outside;
  const after = await store.trail.newest();
  const changes = new EventEmitter().setMaxListeners(0);
  for (const partition of partitions) partition.changes = changes;
  const epochs = await store.epochs.newest();
  const { epoch } = termAt(epochs, Math.max(clock(), (await store.log.head())?.sealedAt ?? 0));
  onBegin(epoch);
  let feed: Rounds | undefined;
  const signing = new Signing(
    {
      store,
      partitions: partitions.map(({ key }) => ({ ...key, module: '', pinFile: '', refusedPins: '' })),
      sessions: 2,
      duties: {},
      signTimeoutMs: 1000,
      clock,
      logger,
      onChange: async () => feed?.now(),
      onBegin,
      onFatal,
    },
    epochs,
    {
      epoch,
      partitions: new Partitions(
        partitions.map((partition) => partition.asMember()),
        epoch.quorum,
        changes,
      ),
    },
  );
  const sealer = await openSealer({
    store,
    signing,
    timestamping: outside.authority.open(),
    cosigners: outside.witness?.open(),
    isForked: () => outside.isForked(),
    requireRecord: async () => undefined,
    queueJobsMax: 1000,
    batchJobsMax: 4,
    giveUpAfterMs: GIVE_UP_MS,
    clock,
    logger,
    onFatal,
  });
  feed = startAuditFeed({ store, sealer, proveEpochs: async () => {}, after, logger, onFatal });
  return { store, sealer, signing, feed, callers: new Set(), fetching: new Set() };
}
