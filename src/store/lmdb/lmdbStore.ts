import type { DiskSpace } from '../diskSpace.ts';
import type { OneRecord } from '../records.ts';
import { openServiceTime, type ServiceTimeOptions } from '../runningTime.ts';
import type { Store, StoreIdentity } from '../store.ts';
import { witnessStoreIn } from '../witnessStore.ts';
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
import { TrailRecords } from './trailRecords.ts';

interface LmdbOptions extends ServiceTimeOptions {
  backlogMax: number;
  diskSpace?: DiskSpace | undefined;
}

/** The embedded store: one LMDB environment, one writing process, any number of readers. Every group of the contract is one object. */
export async function lmdbStore(
  databases: Databases,
  identity: StoreIdentity,
  options: LmdbOptions,
): Promise<Store> {
  const { clock, diskSpace, backlogMax } = options;
  const commits = new Commits(databases, { diskSpace });
  const one = (name: string) => besideIdentity(databases, commits, name);
  const [newest] = databases.batches.getRange({ reverse: true, limit: 1 });
  const serviceTime = await openServiceTime(one('service_time'), newest?.value, options);
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
    witnessing: witnessStoreIn(one('witnessing')),
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

/** A record beside the identity. */
function besideIdentity(databases: Databases, commits: Commits, name: string): OneRecord {
  const key = Buffer.from(name);
  return {
    read: async () => databases.identity.getBinary(key),
    write: async (value) => {
      await commits.write({ changes: [{ database: databases.identity, key, value }] });
    },
  };
}
