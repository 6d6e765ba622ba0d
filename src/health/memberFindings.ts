/** Findings on one of several parts that do the same, or on a part that sealing needs only sometimes. Sealing continues. */
import { signerRemedy } from '../kms/signerFailure.ts';
import type { Facts } from './facts.ts';
import { finding, findingOfEach, type HealthFinding } from './healthFinding.ts';

type Partition = Facts['partitions']['members'][number];

const PARTITION_REMEDIES: Partial<Record<Partition['state'], string>> = {
  pin_refused:
    'write the correct PIN into the PIN file: the daemon does not present the refused one again. If the daemon has the PIN as a systemd credential, then also restart it. If the PIN is right now: `pdfseal hsm retry-pin`',
  key_changed: 'connect the token with the key of this log, or restore it from the HSM’s backup',
  key_lost: 'restore the key from the HSM’s backup',
  starting: 'wait a moment',
};

/** Codes with which no PIN is presented, whatever is in the file. */
const PRESENTS_NONE = new Set(['pin_final_try', 'CKR_PIN_LOCKED']);

const WITNESS_REMEDIES: Readonly<Record<string, string>> = {
  unknown_log:
    'have the operator of the witness add this log with a key of the epoch; pdfseal trust export shows the keys',
  too_often: 'raise witness.interval to what the operator of the witness allows',
  invalid_cosignature: 'compare the key of the witness in the policy with the one that the witness publishes',
  log_damaged: 'run `pdfseal check`: its last line says what to do',
};

const HOUR_MS = 3_600_000;
/** A few intervals of witnesses that are asked over the network. */
const WITNESSED_MS_MAX = 3 * HOUR_MS;
/** Somebody carries the requests once a month. */
const WITNESSED_BY_HAND_MS_MAX = 35 * 24 * HOUR_MS;
const LAST_CHECKPOINT_MS_MAX = 600_000;

const ofPartition = {
  among: ({ members }: Facts['partitions']) => members,
  subject: ({ name }: Partition) => `partition ${name}`,
};

export const MEMBER_FINDINGS: readonly HealthFinding[] = [
  findingOfEach('partitions', {
    ...{ id: 'partition_down', severity: 'warning', metric: 'pdfseal_partition_ready', ...ofPartition },
    when: ({ state }) => state !== 'ready' && state !== 'withdrawn',
    says: ({ state, since, last_error: error }) => `${state} since ${since}${error ? ` (${error})` : ''}`,
    remedy: ({ state, last_error: code = '' }) =>
      (PRESENTS_NONE.has(code) ? undefined : PARTITION_REMEDIES[state]) ??
      signerRemedy({ code }) ??
      'check that the token is connected and that its module is configured; `pdfseal hsm list` tries the token',
  }),
  findingOfEach('partitions', {
    ...{ id: 'partition_withdrawn', severity: 'info', metric: 'pdfseal_partition_ready', ...ofPartition },
    when: ({ state }) => state === 'withdrawn',
    says: ({ since, returns_at: back }) =>
      `withdrawn since ${since}${back === undefined ? '' : `, back at ${back}`}`,
    remedy: 'nothing: a drill took it out, and it comes back by itself',
  }),
  findingOfEach('partitions', {
    ...{ id: 'signer_refuses', severity: 'warning', metric: 'pdfseal_partition_refusals_total' },
    ...ofPartition,
    when: ({ state, refusals }) => state === 'ready' && refusals > 0,
    says: ({ refusals }) =>
      `it signs, but refused ${refusals === 1 ? 'once' : `${refusals} times`} since the start`,
    remedy:
      'find out what asked it to sign: the journals of the daemon (event partition_useless) and of the signer have each refusal. If neither a restored store nor a clock that jumped explains it, assume that somebody has broken into the machine: see "A signer refuses to sign" and "What is trusted for what" in the manual',
  }),
  findingOfEach('timestamps', {
    ...{ id: 'unit_down', severity: 'warning', metric: 'pdfseal_authority_up' },
    among: ({ units }) => units,
    subject: ({ subject }) => `time-stamping key ${subject}`,
    when: ({ ready }) => !ready,
    says: ({ revoked }) =>
      revoked ? 'the daemon holds a certificate that was revoked, so it does not sign' : 'it does not sign',
    remedy: ({ revoked }) =>
      revoked
        ? 'if another certificate is installed for the key, restart the daemon; else certify another key with `pdfseal hsm certify`'
        : 'see the partition on the same token',
  }),
  findingOfEach('timestamps', {
    ...{ id: 'authority_down', severity: 'warning', metric: 'pdfseal_authority_up' },
    among: ({ authorities }) => authorities,
    subject: ({ name }) => `authority ${name}`,
    when: ({ trouble }) => trouble !== undefined,
    says: ({ trouble, tokens, failures }) =>
      `${trouble}; ${tokens} time-stamps, ${failures} failures since the start`,
    remedy:
      'read the log of the daemon; check the address of the authority, its roots and the network. Meanwhile, the other authorities give the time-stamps',
  }),
  findingOfEach('witnesses', {
    ...{ id: 'witness_fails', severity: 'warning', metric: 'pdfseal_cosigner_up' },
    among: ({ members }) => members,
    subject: ({ name }) => `witness ${name}`,
    when: ({ state }) => state === 'failing',
    says: ({ state, trouble = state, detail, tree_size, cosigned_at: at }) =>
      `${trouble}: ${detail}; it holds ${tree_size} leaves${at ? `, cosigned ${at}` : ''}`,
    remedy: ({ trouble = '' }) =>
      WITNESS_REMEDIES[trouble] ?? 'check its URL in the policy, witness.ca_file and the network',
  }),
  finding('witnesses', {
    ...{ id: 'not_witnessed', severity: 'warning', metric: 'pdfseal_witnessed_timestamp_seconds' },
    when: ({ witnessed, by_hand: byHand }, _, now) =>
      isOlder(witnessed?.cosigned_at, byHand ? WITNESSED_BY_HAND_MS_MAX : WITNESSED_MS_MAX, now),
    says: ({ witnessed }) =>
      `the newest witnessed checkpoint has ${witnessed?.tree_size} leaves, ${witnessed?.cosigned_at}`,
    remedy:
      'bring witnesses back: too few cosign for the quorum of the policy. To one without a URL, carry a request: `pdfseal witness request`',
  }),
  finding('witness', {
    ...{ id: 'last_checkpoint_behind', severity: 'warning', subject: 'last-checkpoint file' },
    metric: 'pdfseal_last_checkpoint_current_timestamp_seconds',
    when: ({ current_at: at }, _, now) => isOlder(at, LAST_CHECKPOINT_MS_MAX, now),
    says: ({ current_at: at }) => `it was last known to hold the newest checkpoint ${at}`,
    remedy: 'check log.last_checkpoint_file and its disk; the log of the daemon has the reason',
  }),
  finding('egress', {
    ...{ id: 'egress_down', severity: 'warning', subject: 'egress process', metric: 'pdfseal_egress_up' },
    when: ({ answers }) => !answers,
    says: ({ trouble = 'it does not answer yet', mode, restarts }) =>
      `${trouble}; ${mode === 'unit' ? 'a unit of its own' : `a child of the daemon, ${restarts} restarts`}`,
    remedy: ({ mode }) =>
      mode === 'unit'
        ? '`systemctl status pdfseal-egress@ENVIRONMENT` says why; then restart pdfseal-egress@ENVIRONMENT.socket'
        : 'read the log of the daemon: it says why the process ended',
  }),
  finding('config', {
    ...{ id: 'config_pending', severity: 'info', subject: 'configuration' },
    metric: 'pdfseal_config_pending_keys',
    when: ({ pending }) => pending.length > 0,
    says: ({ pending }) => `these keys take effect when you restart the daemon: ${pending.join(', ')}`,
    remedy: 'restart the daemon at a time of your choice',
  }),
];

/** Whether a time is on record that is so long ago. */
export function isOlder(time: string | undefined, msMax: number, now: number): boolean {
  return time !== undefined && now - Date.parse(time) > msMax;
}
