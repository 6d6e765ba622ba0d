/** What the screens read and change. */
import type { Backups } from '../admin/backups.ts';
import type { Drills } from '../admin/drills.ts';
import type { PresentedEpoch } from '../admin/presentEpochs.ts';
import type { AdminQuotas } from '../admin/status/quotasSection.ts';
import type { AdminStatus } from '../admin/statusSchema.ts';
import type { Job, Sealed } from '../job/job.ts';
import type { TargetPolicy } from '../net/policy.ts';
import type { Batch, Store } from '../store/store.ts';
import type { History } from './loadHistory.ts';
import type { EpochActs, Proposals } from './proposals.ts';
import type { Sessions } from './sessions.ts';
import type { TrailChecks } from './trailChecks.ts';

export interface Sources {
  environment: string;
  store: Store;
  clock(): number;
  /** Requests are counted by this daemon, of clients that sent some. */
  status: { read(): Promise<AdminStatus>; quotas(): AdminQuotas };
  /** Of every client with a key, the jobs as the store counts them. */
  quotas(): Promise<AdminQuotas['clients']>;
  history: History;
  sessions: Pick<Sessions, 'list' | 'endOne'>;
  /** Every epoch of the log, the first one first. */
  epochs(): readonly PresentedEpoch[];
  epochActs: EpochActs;
  proposals: Pick<Proposals, 'waiting' | 'propose' | 'approve' | 'refuse'>;
  backups: Pick<Backups, 'state' | 'ask'>;
  drills: Pick<Drills, 'takeOut' | 'putBack' | 'spare'>;
  evidence: SealedFiles;
  trailChecks: Pick<TrailChecks, 'begin' | 'isUnderWay' | 'last'>;
  /** The URLs that endpoints can have. */
  webhookPolicy: Pick<TargetPolicy, 'guard'>;
  /** Unless `isWhole`, without what can be a secret, such as the path of a URL. */
  settings(how: { isWhole: boolean }): readonly ShownSetting[];
}

/** The files of sealed jobs, as the API hands them out. */
export interface SealedFiles {
  receipt(job: Job, outcome: Sealed): Promise<string>;
  proof(job: Job, outcome: Sealed): Promise<string>;
  /** Undefined for a batch that nothing has stamped. `reader`: who shares the time with others. */
  record(batch: Batch, reader: string): Promise<Uint8Array | undefined>;
  /** Undefined until witnesses have seen the receipt. `reader` as above. */
  bundle(job: Job, outcome: Sealed, reader: string): Promise<string | undefined>;
  /** The copy without metadata; undefined where there is none, or no longer. Nothing is read before the first chunk is asked for. */
  copy(job: Job): Promise<AsyncIterable<Uint8Array> | undefined>;
  trust(): string;
}

/** A key of the configuration. Values are spelled as in the file, without secrets; undefined for one that is not set. */
export interface ShownSetting {
  key: string;
  value: string | undefined;
  source: 'file' | 'default' | 'unset';
  /** Whether it is other than the default. */
  changed: boolean;
  /** What the file says, where that takes a restart. */
  next?: { value: string | undefined };
}
