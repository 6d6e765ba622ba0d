/** Parts of the status in the spelling of the wire. */
import { describeSubject } from '../asn1/certificate.ts';
import { toRfc3339 } from '../base/clock.ts';
import { daysLeft, urgencyOf } from '../base/validity.ts';
import type { KernelRate } from '../hash/calibrate.ts';
import type { ClientUsage, Standing } from '../limits/limits.ts';
import type { TlsCertificate } from '../net/tls.ts';
import type { WitnessStatus } from '../prove/witnessFile.ts';
import type { ScannerHealth } from '../scan/scanner.ts';
import type { WaitingJobs } from '../seal/pending.ts';
import type { Timestamping } from '../seal/timestamping.ts';
import { type CertificateEntry, validityOf } from '../tsa/certificateList.ts';
import type { CanaryRun, CanaryStatus } from '../watch/canary.ts';
import type { WebhookStatus } from '../webhook/deliver.ts';
import type {
  AdminQuotas,
  AdminStatus,
  PresentedCertificate,
  PresentedLimit,
  PresentedRun,
  PresentedScanner,
  PresentedTimestamps,
} from './statusSchema.ts';

export function presentRun(run: CanaryRun, now: number): PresentedRun {
  return {
    verified: run.verified,
    started_at: toRfc3339(run.startedAt),
    age_seconds: ageSeconds(run.startedAt, now),
    duration_ms: Math.round(run.durationMs),
    detail: run.detail,
    ...(run.jobId !== undefined && { job_id: run.jobId }),
    ...(run.leafIndex !== undefined && { leaf_index: run.leafIndex }),
    signers: run.signers,
  };
}

export function presentCanary(status: CanaryStatus, now: number): AdminStatus['canary'] {
  const { ready, detail, intervalMs, newest, verified } = status;
  return {
    ready,
    detail,
    ...(Number.isFinite(intervalMs) && { interval_seconds: intervalMs / 1000 }),
    ...(newest && { newest: presentRun(newest, now) }),
    ...(verified && { last_verified: presentRun(verified, now) }),
  };
}

export function presentQueue({ phases, longestMs }: WaitingJobs) {
  const { queued, hashing, sealing } = longestMs;
  return {
    ...phases,
    oldest_age_seconds: Math.max(queued, hashing, sealing) / 1000,
    oldest_age_seconds_by_phase: {
      queued: queued / 1000,
      hashing: hashing / 1000,
      sealing: sealing / 1000,
    },
  };
}

export function presentKernels(rates: readonly KernelRate[]): AdminStatus['hash']['kernels'] {
  return rates.map(({ streams, kernel, megabytesPerSecond }) => ({
    streams,
    kernel,
    megabytes_per_second: Math.round(megabytesPerSecond),
  }));
}

export function presentScanner(health: ScannerHealth): PresentedScanner {
  const { trouble, detail, version, connections, connectionsInUse } = health;
  const { engine, signatures, signaturesBuiltAt } = version ?? {};
  return {
    ...(trouble !== undefined && { trouble }),
    detail,
    connections_in_use: connectionsInUse,
    connections_idle: connections - connectionsInUse,
    connections_max: health.connectionsMax,
    documents_waiting: health.documentsWaiting,
    ...(engine !== undefined && { engine }),
    ...(signatures !== undefined && { signatures }),
    ...(signaturesBuiltAt !== undefined && { signatures_built_at: toRfc3339(signaturesBuiltAt) }),
  };
}

/** `oldest` is the oldest copy's job. */
export function presentCopies(
  usage: { files: number; bytes: number },
  { oldestMs, keptMs }: { oldestMs: number; keptMs: number },
): AdminStatus['copies'] {
  return {
    files: usage.files,
    bytes: usage.bytes,
    oldest_age_seconds: oldestMs / 1000,
    kept_seconds: keptMs / 1000,
  };
}

export function presentWitness({ treeSize, currentAt }: WitnessStatus): AdminStatus['witness'] {
  return { tree_size: treeSize, ...(currentAt !== undefined && { current_at: toRfc3339(currentAt) }) };
}

export function presentTimestamps(timestamping: Timestamping): PresentedTimestamps {
  const { clock, authorities, units } = timestamping.status();
  const { errorBoundMs, ...others } = clock;
  return {
    can_stamp: timestamping.canStamp(),
    clock: { ...others, ...(errorBoundMs !== undefined && { error_bound_ms: errorBoundMs }) },
    authorities: authorities.map(({ notAfter: _, ...authority }) => authority),
    units: units.map(({ authority: subject, ready }) => ({ subject, ready })),
  };
}

export function presentCertificate(entry: CertificateEntry, now: number): PresentedCertificate {
  const { authority, role, found } = entry;
  const state = validityOf(entry, now);
  if ('missing' in found) return { authority, role, state, urgency: 'urgent', detail: found.missing };
  return {
    authority,
    role,
    state,
    subject: describeSubject(found),
    not_after: toRfc3339(found.notAfter),
    days_left: daysLeft(found, now),
    urgency: urgencyOf(found, now),
  };
}

/** Those of the API itself. */
export function presentTlsCertificate(certificate: TlsCertificate, now: number): PresentedCertificate {
  const { role, subject, notBefore, notAfter } = certificate;
  return {
    authority: 'http.tls',
    role,
    state: now > notAfter ? 'expired' : now < notBefore ? 'not_yet_valid' : 'valid',
    subject,
    not_after: toRfc3339(notAfter),
    days_left: daysLeft(certificate, now),
    urgency: urgencyOf(certificate, now),
  };
}

export function presentWebhooks(status: WebhookStatus, now: number): AdminStatus['webhooks'] {
  const { endpoints, disabled, failing, pending, delivered, dropped } = status;
  return {
    endpoints,
    disabled,
    failing,
    in_flight: status.inFlight,
    pending,
    oldest_due_age_seconds: ageSeconds(status.oldestDueAt ?? now, now),
    dead_letters: status.deadLetters,
    delivered,
    failed_attempts: status.failures,
    dropped,
  };
}

export function presentQuotas(usage: ClientUsage[], now: number): AdminQuotas {
  return {
    clients: usage.map(({ clientId, standings }) => {
      const rate = standings.find(({ kind }) => kind === 'rate');
      const quotas = standings.filter(({ kind }) => kind === 'quota');
      return {
        client_id: clientId,
        ...(rate && { rate: presentLimit(rate, now) }),
        quotas: quotas.map((one) => ({ name: one.name ?? '', ...presentLimit(one, now) })),
      };
    }),
  };
}

function presentLimit({ limit, windowMs, remaining, resetMs }: Standing, now: number): PresentedLimit {
  return {
    limit,
    window_seconds: windowMs / 1000,
    used: limit - remaining,
    resets_at: toRfc3339(now + resetMs),
  };
}

function ageSeconds(since: number, now: number): number {
  return Math.max(0, Math.round((now - since) / 1000));
}
