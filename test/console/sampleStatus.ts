/** The status of a daemon that is well, from which a test makes others. */

import { toRfc3339 } from '../../src/base/clock.ts';
import type { Facts } from '../../src/health/facts.ts';
import { judged } from '../../src/health/healthFindings.ts';
import type { AdminStatus } from '../../src/health/statusSchema.ts';
import { type PresentedEpoch, presentEpochs } from '../../src/ops/presentEpochs.ts';
import { epoch } from '../store/samples.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

export function sampleStatus(change: Partial<Facts> = {}, now = Date.now()): AdminStatus {
  const ago = (ms: number) => toRfc3339(now - ms);
  const run = {
    verified: true,
    started_at: ago(600_000),
    age_seconds: 600,
    duration_ms: 42,
    detail: 'sealed and verified',
    signers: ['west/log'],
  };
  const partition = { algorithm: 'ed25519', state: 'ready', since: ago(DAY_MS), restarts: 0 } as const;
  const member = { ...partition, signatures: 1204, refusals: 0, trees_given_up: 1, sessions: 2, pid: 12 };
  const chore = { good: true, tree_size: 48_211 };
  const facts: Facts = {
    version: '0.1.0',
    node: process.version,
    environment: 'env_test',
    pid: 1,
    started_at: ago(3 * DAY_MS),
    uptime_seconds: 3 * 86_400,
    draining: false,
    config: {
      file: '/etc/pdfseal/test.toml',
      sha256: 'ab'.repeat(32),
      loaded_at: ago(3 * DAY_MS),
      pending: [],
    },
    canary: { ready: true, detail: 'verified', interval_seconds: 3600, newest: run, last_verified: run },
    queue: {
      queued: 2,
      hashing: 0,
      sealing: 1,
      jobs_max: 50_000,
      oldest_age_seconds: 0.4,
      oldest_age_seconds_by_phase: { queued: 0.4, hashing: 0, sealing: 0.1 },
    },
    partitions: {
      quorum: 2,
      needed: 2,
      signing: 2,
      members: [
        { ...member, name: 'west/log-2026' },
        { ...member, name: 'east/log-2026', signatures: 1198 },
      ],
    },
    timestamps: {
      can_stamp: true,
      clock: { trust: 'chrony', detail: 'chrony follows 4 sources', error_bound_ms: 3 },
      authorities: [
        { name: 'built-in', tokens: 4021, failures: 0 },
        { name: 'acme', tokens: 120, failures: 2 },
      ],
      units: [{ subject: 'CN=Time-stamps 1', ready: true }],
    },
    witnesses: {
      can_cosign: true,
      fork_alarm: false,
      by_hand: false,
      witnessed: { tree_size: 48_200, cosigned_at: ago(60_000) },
      members: [
        { name: 'witness-1.example.com', state: 'cosigning', tree_size: 48_200, cosigned_at: ago(60_000) },
        { name: 'witness-2.example.com', state: 'cosigning', tree_size: 48_200, cosigned_at: ago(61_000) },
      ],
    },
    scanner: {
      detail: 'clamd answers',
      connections_in_use: 1,
      connections_idle: 3,
      connections_max: 64,
      documents_waiting: 0,
      engine: 'ClamAV 1.4.3',
      signatures: '27824',
      signatures_built_at: ago(9 * HOUR_MS),
    },
    sources: { under_way: 0, queued: 0, paused: 0 },
    copies: { documents: 0, files: 0, bytes: 0, oldest_age_seconds: 0, kept_seconds: 259_200 },
    certificates: [
      certificate('http.tls', 'server', 'CN=seal.example.com', now, 61),
      certificate('built-in', 'time-stamping', 'CN=Time-stamps 1', now, 290),
      certificate('built-in', 'root', 'CN=Time-stamp root', now, 3400),
    ],
    webhooks: {
      endpoints: 3,
      disabled: 0,
      failing: 0,
      in_flight: 0,
      pending: 0,
      oldest_due_age_seconds: 0,
      dead_letters: 0,
      delivered: 912,
      failed_attempts: 4,
      dropped: 0,
    },
    audit: { unsealed: 0 },
    log: { origin: 'seal.example.com/test', tree_size: 48_211, sealed_at: ago(2_000) },
    witness: { tree_size: 48_205, current_at: ago(9_000) },
    upkeep: {
      chores: ['backup', 'check', 'restore_drill', 'renewal'],
      backup: { ...chore, finished_at: ago(7 * HOUR_MS) },
      check: { ...chore, finished_at: ago(6 * HOUR_MS) },
      restore_drill: { ...chore, finished_at: ago(40 * DAY_MS) },
      renewal: { ...chore, finished_at: ago(5 * HOUR_MS), holds_until: toRfc3339(now + 2000 * DAY_MS) },
    },
    store: {
      engine: 'lmdb',
      path: '/var/lib/pdfseal/test/store',
      bytes: 1.5 * 2 ** 30,
      disk_free_bytes: 42 * 2 ** 30,
      disk_free_bytes_min: 256 * 2 ** 20,
      answers: true,
      disk_bytes: 100 * 2 ** 30,
      full: false,
    },
    hash: {
      engine: 'native',
      kernels: [{ streams: 1, kernel: 'sha-ni', megabytes_per_second: 430 }],
      workers: 3,
      documents: 0,
      pending_bytes: 0,
      tasks: 0,
      tasks_max: 64,
    },
    event_loop_delay_ms: { p50: 0.1, p99: 2.1, max: 8 },
    ...change,
  };
  return judged(facts, now);
}

function certificate(
  authority: string,
  role: 'server' | 'time-stamping' | 'root',
  subject: string,
  now: number,
  days: number,
): AdminStatus['certificates'][number] {
  const not_after = toRfc3339(now + days * DAY_MS);
  const urgency = days < 7 ? 'urgent' : days < 30 ? 'soon' : days < 60 ? 'ahead' : 'none';
  return { authority, role, state: 'valid', subject, not_after, days_left: days, urgency };
}

/** One that is over, one in force, and one to come. */
export function sampleEpochs(now = Date.now()): PresentedEpoch[] {
  const list = [-400, -30, 60].map((days) => ({ ...epoch, from: now + days * DAY_MS }));
  return presentEpochs({ list }, now);
}
