/** Findings on jobs, documents and webhooks. */
import { counted, describeSeconds } from '../base/phrases.ts';
import type { Facts } from './facts.ts';
import { finding, type HealthFinding } from './healthFinding.ts';
import { isOlder } from './memberFindings.ts';
import { waitingJobs } from './partFindings.ts';

const WAIT_SECONDS_MAX = 300;
const STUCK_SECONDS_MAX = 1800;
const NEARLY_FULL = 0.8;
const MIB = 1 << 20;
const SIGNATURES_MS_MAX = 3 * 86_400_000;
/** The sweep that deletes copies runs every few minutes. */
const SWEEP_SECONDS_MAX = 900;
const WEBHOOK_SECONDS_MAX = 900;

const aged = ({ oldest_age_seconds: age }: Facts['queue']) => `the oldest has waited ${describeSeconds(age)}`;

export const JOB_FINDINGS: readonly HealthFinding[] = [
  finding('queue', {
    ...{ id: 'jobs_wait', severity: 'warning', subject: 'jobs', metric: 'pdfseal_jobs_oldest_age_seconds' },
    when: ({ oldest_age_seconds: age }) => age > WAIT_SECONDS_MAX,
    says: aged,
    remedy:
      'see the other problems: it waits for the HSM, for a time-stamp, or for its document at a source_url',
  }),
  finding('queue', {
    ...{ id: 'jobs_stuck', severity: 'critical', subject: 'jobs' },
    metric: 'pdfseal_jobs_oldest_age_seconds',
    when: ({ oldest_age_seconds: age }, { sources }) =>
      age > STUCK_SECONDS_MAX && (!sources || sources.under_way + sources.queued + sources.paused === 0),
    says: (queue) => `${aged(queue)}, and not for its document`,
    remedy: 'repair the part that is not ready: jobs fail after sealing.give_up_after',
  }),
  finding('queue', {
    ...{ id: 'queue_nearly_full', severity: 'critical', subject: 'jobs', metric: 'pdfseal_jobs' },
    when: (queue) => waitingJobs(queue) > NEARLY_FULL * queue.jobs_max,
    says: (queue) => `${waitingJobs(queue)} of at most ${queue.jobs_max} wait`,
    remedy:
      'find out why sealing does not keep up (pdfseal_step_duration_seconds), or raise limits.queue_jobs_max and reload',
  }),
  finding('acceptance', {
    ...{ id: 'jobs_refused', severity: 'warning', subject: 'jobs that waited' },
    metric: 'pdfseal_refused_jobs_total',
    when: ({ refused }) => refused > 0,
    says: ({ refused }) =>
      `${counted(refused, 'job')} in the store failed since the start: no node accepted them so`,
    remedy:
      'read the log of the daemon (events arrival_refused and waiting_refused), and find out who else can write the store',
  }),
  finding('scanner', {
    ...{ id: 'signatures_old', severity: 'warning', subject: 'virus signatures' },
    metric: 'pdfseal_scanner_signatures_timestamp_seconds',
    when: ({ signatures_built_at: built }, _, now) => isOlder(built, SIGNATURES_MS_MAX, now),
    says: ({ signatures_built_at: built }) => `they were built at ${built}`,
    remedy: 'run `systemctl status clamav-freshclam`: it says why newer signatures are not fetched',
  }),
  finding('copies', {
    ...{ id: 'copies_overdue', severity: 'warning', metric: 'pdfseal_copies_oldest_age_seconds' },
    when: ({ oldest_age_seconds: age, kept_seconds: kept }) => age > kept + SWEEP_SECONDS_MAX,
    says: ({ oldest_age_seconds: age, kept_seconds: kept }) =>
      `the oldest is ${describeSeconds(age)} old; copies are kept for ${describeSeconds(kept)}`,
    remedy:
      'read the log of the daemon: it says why an expired copy stays on disk. Such a copy is no longer served',
  }),
  finding('copies', {
    ...{ id: 'copies_nearly_full', severity: 'warning', metric: 'pdfseal_copies_bytes' },
    when: ({ bytes, bytes_max: max = Number.POSITIVE_INFINITY }) => bytes > NEARLY_FULL * max,
    says: ({ bytes, bytes_max: max = 0 }) =>
      `they take ${Math.round(bytes / MIB)} of at most ${Math.round(max / MIB)} MiB; beyond that, requests for sealed PDFs are refused`,
    remedy: 'raise pdf.spool_bytes_max, or keep documents for fewer hours: retention.document_hours',
  }),
  finding('webhooks', {
    ...{ id: 'webhooks_fail', severity: 'warning', metric: 'pdfseal_webhook_endpoints' },
    when: ({ failing }) => failing > 0,
    says: ({ failing }) => `deliveries keep failing: ${counted(failing, 'endpoint')}`,
    remedy: '`pdfseal webhooks list` names them, and `pdfseal webhooks show` says why',
  }),
  finding('webhooks', {
    ...{ id: 'webhooks_late', severity: 'warning', metric: 'pdfseal_webhooks_oldest_due_age_seconds' },
    when: ({ oldest_due_age_seconds: age }) => age > WEBHOOK_SECONDS_MAX,
    says: ({ oldest_due_age_seconds: age }) => `one is ${describeSeconds(age)} late`,
    remedy:
      'endpoints are slow or fail (`pdfseal webhooks list`), or webhooks.concurrency is too low for their number',
  }),
  finding('webhooks', {
    ...{ id: 'webhooks_given_up', severity: 'info', metric: 'pdfseal_webhooks_dead_letters' },
    when: ({ dead_letters: dead }) => dead > 0,
    says: ({ dead_letters: dead }) => `given up: ${counted(dead, 'dead letter')}`,
    remedy: 'when the endpoint works again, send them again: `pdfseal webhooks replay`',
  }),
];
