import type { DiskSpace } from '../diskSpace.ts';
import type { ServiceTimeOptions } from '../runningTime.ts';
import type { Store, StoreIdentity } from '../store.ts';
import { Commits } from './commits.ts';
import { CopyRecords } from './copyRecords.ts';
import { CredentialRecords } from './credentialRecords.ts';
import type { Databases } from './databases.ts';
import { EndpointRecords } from './endpointRecords.ts';
import { EpochRecords } from './epochRecords.ts';
import { IdempotencyEntries } from './idempotencyEntries.ts';
import { IndexRepair } from './indexRepair.ts';
import { JobRecords } from './jobRecords.ts';
import { LogRecords } from './logRecords.ts';
import { Outbox } from './outbox.ts';
import { PageUse } from './pageUse.ts';
import { QuotaCounts } from './quotaCounts.ts';
import { RenewalRecords } from './renewalRecords.ts';
import { lmdbServiceTime } from './serviceTimeRecord.ts';
import { TrailRecords } from './trailRecords.ts';
import { LmdbWitnessing } from './witnessRecord.ts';

interface LmdbOptions extends ServiceTimeOptions {
  backlogMax: number;
  diskSpace?: DiskSpace | undefined;
}

/** The embedded store: one LMDB environment, one writing process, any number of readers. Every group of the contract is one object. */
export function lmdbStore(databases: Databases, identity: StoreIdentity, options: LmdbOptions): Store {
  const { clock, diskSpace, backlogMax } = options;
  const commits = new Commits(databases, { diskSpace });
  const serviceTime = lmdbServiceTime(databases, commits, options);
  const trail = new TrailRecords(databases, commits, {
    environment: identity.environment,
    clock,
    accept: (job) => jobs.changesFor(job),
  });
  const epochs = new EpochRecords(databases, trail);
  const endpoints = new EndpointRecords(databases, trail);
  const outbox = new Outbox(databases, commits, endpoints, { clock, serviceTime, backlogMax });
  const copies = new CopyRecords(databases, commits);
  const jobs = new JobRecords(databases, commits, {
    idempotency: new IdempotencyEntries(databases, serviceTime),
    quotas: new QuotaCounts(databases),
    copies,
    outbox,
  });
  return {
    identity,
    jobs,
    copies,
    log: new LogRecords(databases, commits, { jobs, outbox, epochs }),
    epochs,
    credentials: new CredentialRecords(databases, trail),
    webhooks: { endpoints, outbox },
    trail,
    witnessing: new LmdbWitnessing(databases, commits),
    renewals: new RenewalRecords(databases, commits, trail),
    serviceTime,
    indexes: new IndexRepair(databases, commits, identity, clock),
    pages: new PageUse(databases, options.monotonicMs),
    close: async () => {
      await commits.idle();
      await databases.close();
    },
  };
}
