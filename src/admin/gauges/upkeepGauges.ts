import { URGENCIES } from '../../base/validity.ts';
import { epochSeconds, one, type StatusMetric } from './statusMetric.ts';

/** What needs an administrator now and then: certificates, disk, backup, check, witness. */
export const UPKEEP: StatusMetric[] = [
  {
    name: 'pdfseal_certificate_not_after_timestamp_seconds',
    help: 'When a certificate of TLS, or one that time-stamps rest on, ends; 0 for one that is missing',
    labelNames: ['authority', 'role', 'subject'],
    samples: ({ certificates }) =>
      certificates.map(({ authority, role, subject = '', not_after }) => ({
        labels: { authority, role, subject },
        value: epochSeconds(not_after) ?? 0,
      })),
  },
  {
    name: 'pdfseal_certificate_urgency',
    help: 'How near that end is: 0 far away, 1 plan the renewal, 2 renew it soon, 3 renew it now (or it is missing)',
    labelNames: ['authority', 'role', 'subject'],
    samples: ({ certificates }) =>
      certificates.map(({ authority, role, subject = '', urgency }) => ({
        labels: { authority, role, subject },
        value: URGENCIES.indexOf(urgency),
      })),
  },
  {
    name: 'pdfseal_config_pending_keys',
    help: 'Keys of the configuration that were changed and wait for a restart',
    samples: ({ config }) => one(config.pending.length),
  },
  {
    name: 'pdfseal_store_bytes',
    help: 'What the store takes on disk',
    samples: ({ store }) => one(store.bytes),
  },
  {
    name: 'pdfseal_store_disk_free_bytes',
    help: 'What is left of the disk the store is on',
    samples: ({ store }) => one(store.disk_free_bytes),
  },
  {
    name: 'pdfseal_store_disk_bytes',
    help: 'Size of the disk the store is on',
    samples: ({ store }) => one(store.disk_bytes),
  },
  {
    name: 'pdfseal_store_disk_free_min_bytes',
    help: 'Below so much left no job is accepted (storage.free_bytes_min)',
    samples: ({ store }) => one(store.disk_free_bytes_min),
  },
  {
    name: 'pdfseal_witness_leaves',
    help: 'Size of the log as the witness file has it',
    samples: ({ witness }) => one(witness.tree_size),
  },
  {
    name: 'pdfseal_witness_current_timestamp_seconds',
    help: 'When the witness file was last known to hold the newest checkpoint; absent until it is',
    samples: ({ witness }) => one(epochSeconds(witness.current_at)),
  },
  {
    name: 'pdfseal_backup_timestamp_seconds',
    help: 'When the newest backup that was checked and found good was finished; absent before the first',
    samples: ({ upkeep }) => one(epochSeconds(upkeep.backup?.finished_at)),
  },
  {
    name: 'pdfseal_backup_leaves',
    help: 'Size of the log in that backup',
    samples: ({ upkeep }) => one(upkeep.backup?.tree_size),
  },
  {
    name: 'pdfseal_restore_drill_timestamp_seconds',
    help: 'When a backup was last restored on trial (pdfseal restore --drill); absent before the first time',
    samples: ({ upkeep }) => one(epochSeconds(upkeep.restore_drill?.finished_at)),
  },
  {
    name: 'pdfseal_check_timestamp_seconds',
    help: 'When the store was last checked to its end; absent before the first check',
    samples: ({ upkeep }) => one(epochSeconds(upkeep.check?.finished_at)),
  },
  {
    name: 'pdfseal_check_good',
    help: '1 if that check found the store good',
    samples: ({ upkeep }) => one(upkeep.check?.good),
  },
];
