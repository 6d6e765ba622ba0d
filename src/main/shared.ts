import type { Logger } from 'pino';
import type { Metrics } from '../admin/metrics.ts';
import { systemClock, toRfc3339 } from '../base/clock.ts';
import { certificatesInUse } from '../config/certificatesInUse.ts';
import type { Config } from '../config/config.ts';
import type { LiveConfig } from '../config/reload.ts';
import type { Copies } from '../copy/copies.ts';
import type { StatusSources } from '../health/statusReader.ts';
import type { AnsweredRequest } from '../http/observe.ts';
import type { Limits } from '../limits/limits.ts';
import type { LastCheckpoint } from '../prove/trail/lastCheckpoint.ts';
import type { Scanner } from '../scan/scanner.ts';
import type { DocumentOptions } from '../seal/documentPass.ts';
import type { Timekeeping } from '../seal/timekeeping.ts';
import type { Store } from '../store/store.ts';
import { TargetPolicy } from '../web/policy.ts';
import type { TlsCertificates } from '../web/tls.ts';
import type { Egress } from './egressProcess.ts';

/** Parts that a sealing daemon and a front have in common. */
export interface Shared {
  config: Config;
  live: LiveConfig;
  store: Store;
  egress: Egress;
  document: DocumentOptions;
  scanner: Scanner | undefined;
  hash: StatusSources['hash'];
  copies: Copies;
  limits: Limits;
  time: Timekeeping;
  lastCheckpoint: LastCheckpoint;
  /** The certificates of the API. */
  tls: TlsCertificates | undefined;
  metrics: Metrics;
  logger: Logger;
  onFatal(error: unknown): void;
}

export function apiOf({ config, live, document, metrics, ...shared }: Shared) {
  const { http, blocking, webhooks, log, retention } = config;
  const { store, tls, limits, copies, time, logger, onFatal } = shared;
  return {
    ...{ store, tls, limits, copies, time, logger, onFatal },
    publicUrl: http.publicUrl,
    connectionsMax: http.connectionsMax,
    connectionsPerAddressMax: http.connectionsPerAddressMax,
    uploadsMax: http.uploadsMax,
    uploadsPerClientMax: http.uploadsPerClientMax,
    batchesMax: http.batchesMax,
    downloadsMax: http.downloadsMax,
    blockingTimeoutMs: blocking.timeoutMs,
    webhookPolicy: new TargetPolicy(webhooks.allow),
    logPublic: log.public,
    documentRetentionMs: retention.documentMs,
    intake: {
      ...document,
      bodyIdleTimeoutMs: http.bodyIdleTimeoutMs,
      bodyBytesPerSecondMin: http.bodyBytesPerSecondMin,
    },
    organizations: () => live.current.organizations,
    onRequest: (request: AnsweredRequest) => metrics.request(request),
    onUnlogged: () => metrics.unlogged(),
  };
}

export function administrationOf({ config, live, metrics, logger, onFatal, ...shared }: Shared) {
  const { store, time } = shared;
  const organizations = () => live.current.organizations;
  return {
    ...{ store, metrics, logger, onFatal },
    config: () => live.current,
    listen: config.admin,
    auth: { store, environment: config.environment, organizations, clock: time.date },
    status: {
      ...shared,
      stateDir: config.stateDir,
      location: config.store,
      diskDir: config.diskDir,
      documentRetentionMs: config.retention.documentMs,
      certificates: certificatesInUse(config),
      storeFreeBytesMin: config.storage.freeBytesMin,
      queueJobsMax: () => live.current.limits.queueJobsMax,
      config: () => {
        const { at, pending } = live.loaded;
        const { file, sha256 } = live.current;
        return { file, sha256, loaded_at: toRfc3339(at), pending };
      },
      clock: systemClock,
    },
  };
}
