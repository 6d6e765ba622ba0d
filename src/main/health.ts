import type { Logger } from 'pino';
import type { Metrics } from '../admin/metrics.ts';
import { openAdministration } from '../admin/server.ts';
import { systemClock, toRfc3339 } from '../base/clock.ts';
import { certificatesInUse } from '../config/certificatesInUse.ts';
import type { LiveConfig } from '../config/reload.ts';
import { trustOf } from '../config/trustAnchors.ts';
import type { Copies } from '../copy/copies.ts';
import type { KernelRate } from '../hash/calibrate.ts';
import type { HashPool } from '../hash/pool.ts';
import type { Limits } from '../limits/limits.ts';
import type { TlsCertificates } from '../net/tls.ts';
import type { Witness } from '../prove/witnessFile.ts';
import type { Scanner } from '../scan/scanner.ts';
import type { Fetching } from '../seal/fetching.ts';
import type { Sealer } from '../seal/sealer.ts';
import type { Signing } from '../seal/signing.ts';
import type { Timekeeping } from '../seal/timekeeping.ts';
import type { Timestamping } from '../seal/timestamping.ts';
import type { Store } from '../store/store.ts';
import { Canary } from '../watch/canary.ts';
import type { Deliverer } from '../webhook/deliver.ts';

/** How long a canary may take to be sealed before it counts as failed. */
const CANARY_MS_MAX = 30_000;

interface Watched {
  store: Store;
  sealer: Sealer;
  signing: Signing;
  timestamping: Timestamping | undefined;
  scanner: Scanner | undefined;
  sources: Fetching;
  copies: Copies;
  limits: Limits;
  witness: Witness;
  time: Timekeeping;
  webhooks: Deliverer;
  tls: TlsCertificates | undefined;
  pool: HashPool;
  engine: string;
  kernels: readonly KernelRate[];
  metrics: Metrics;
  lifecycle: { readonly draining: boolean };
  logger: Logger;
  onFatal(error: unknown): void;
}

/** Opens the canary, which does not run yet, and the administration, which reports the health of all parts. */
export async function openHealth(
  live: LiveConfig,
  watched: Watched,
  parts: AsyncDisposableStack,
): Promise<Canary> {
  const { store, sealer, signing, pool, engine, kernels, metrics, logger, onFatal, ...others } = watched;
  const config = live.current;
  const common = { clock: systemClock, logger, onFatal };
  const canary = parts.adopt(
    new Canary({
      ...common,
      store,
      sealer,
      pool,
      trust: () => trustOf(store.identity, signing.epochs.list, config),
      intervalMs: config.health.canaryIntervalMs,
      timeoutMs: CANARY_MS_MAX,
      onRun: (run) => metrics.canary(run),
    }),
    (open) => open.close(),
  );
  parts.adopt(
    await openAdministration({
      ...common,
      listen: config.admin,
      status: {
        ...others,
        store,
        stateDir: config.stateDir,
        storeDir: config.storeDir,
        sealer,
        quorum: () => signing.epoch.quorum,
        documentRetentionMs: config.retention.documentMs,
        certificates: certificatesInUse(config),
        storeFreeBytesMin: config.storage.freeBytesMin,
        queueJobsMax: () => live.current.limits.queueJobsMax,
        config: () => {
          const { at, pending } = live.loaded;
          const { file, sha256 } = live.current;
          return { file, sha256, loaded_at: toRfc3339(at), pending };
        },
        hash: { engine, kernels, workers: config.hash.workers, pool },
        clock: systemClock,
      },
      partitions: signing,
      canary,
      metrics,
      auth: {
        store,
        environment: config.environment,
        organizations: () => live.current.organizations,
        clock: watched.time.date,
      },
    }),
    (open) => open.close(),
  );
  return canary;
}
