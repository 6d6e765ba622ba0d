/** Sources that the screens read and change. */

import type { AdminQuotas } from '../health/sections/quotasSection.ts';
import type { AdminStatus } from '../health/statusSchema.ts';
import type { Job, Sealed } from '../job/job.ts';
import type { Backups } from '../ops/backups.ts';
import type { Drills } from '../ops/drills.ts';
import type { StoreParts } from '../ops/operationParts.ts';
import type { PresentedEpoch } from '../ops/presentEpochs.ts';
import type { Batch, Store } from '../store/store.ts';
import type { History } from './loadHistory.ts';
import type { EpochActs, Proposals } from './proposals.ts';
import type { Sessions } from './sessions.ts';
import type { TrailChecks } from './trailChecks.ts';

export interface Sources {
  environment: string;
  store: Store;
  clock(): number;
  /** Requests are counted by this daemon, for the clients that sent some. */
  status: { read(): Promise<AdminStatus>; quotas(): AdminQuotas };
  /** For every client with a key, its jobs as counted by the store. */
  quotas(): Promise<AdminQuotas['clients']>;
  history: History;
  sessions: Pick<Sessions, 'list' | 'endOne'>;
  /** Every epoch of the log, oldest first. */
  epochs(): Promise<readonly PresentedEpoch[]>;
  epochActs: EpochActs;
  proposals: Pick<Proposals, 'waiting' | 'last' | 'propose' | 'approve' | 'refuse'>;
  backups: Pick<Backups, 'state' | 'ask'>;
  drills: Pick<Drills, 'takeOut' | 'putBack' | 'spare'>;
  evidence: SealedFiles;
  /** Whether people may download sealed PDFs here. */
  givesSealedPdfs: boolean;
  trailChecks: Pick<TrailChecks, 'begin' | 'isUnderWay' | 'last'>;
  /** As it is in force. */
  config: StoreParts['config'];
  /** Values that may contain secrets, such as the path of a URL, are omitted unless `isWhole`. */
  settings(how: { isWhole: boolean }): readonly ShownSetting[];
}

/** The files of sealed jobs, as the API returns them. */
export interface SealedFiles {
  receipt(job: Job, outcome: Sealed): Promise<string>;
  proof(job: Job, outcome: Sealed): Promise<string>;
  /** Undefined for a batch without time-stamps. `reader`: takes turns with other readers. */
  record(batch: Batch, reader: string): Promise<Uint8Array | undefined>;
  /** Undefined until witnesses have seen the receipt. `reader` as above. */
  bundle(job: Job, outcome: Sealed, reader: string): Promise<string | undefined>;
  /** The copy without metadata; undefined where there is none, or no longer. Nothing is read before the first chunk is asked for. */
  copy(job: Job): Promise<AsyncIterable<Uint8Array> | undefined>;
  /** What follows the document in its sealed PDF; undefined if none was requested. */
  suffix(job: Job, outcome: Sealed): Promise<Uint8Array | undefined>;
  /** The document with its receipt attached; undefined if none was requested, or the document is no longer kept. Read as a copy is. */
  sealedPdf(job: Job, outcome: Sealed): Promise<AsyncIterable<Uint8Array> | undefined>;
  trust(): string;
}

/** A configuration key. Values are spelled as in the file, without secrets; undefined for a key that is not set. */
export interface ShownSetting {
  key: string;
  value: string | undefined;
  source: 'file' | 'default' | 'unset';
  /** Whether it differs from the default. */
  changed: boolean;
  /** The value in the file, if it takes effect only after a restart. */
  next?: { value: string | undefined };
}
