import type { DiskSpace } from '../diskSpace.ts';
import type { OneRecord } from '../records.ts';
import { openServiceTime, type ServiceTimeOptions } from '../serviceTime.ts';
import type { Store, StoreIdentity } from '../store.ts';
import { witnessStoreIn } from '../witnessStore.ts';
import { Commits } from './commits.ts';
import { copyRecords } from './copyRecords.ts';
import { credentialRecords } from './credentialRecords.ts';
import type { Databases } from './databases.ts';
import { endpointRecords } from './endpointRecords.ts';
import { epochRecords } from './epochRecords.ts';
import type { Fence } from './fence.ts';
import { IdempotencyEntries } from './idempotencyEntries.ts';
import { indexRepair } from './indexRepair.ts';
import { jobRecords } from './jobRecords.ts';
import { logRecords } from './logRecords.ts';
import { outboxRecords } from './outboxRecords.ts';
import { PageUse } from './pageUse.ts';
import { QuotaCounts } from './quotaCounts.ts';
import { renewalRecords } from './renewalRecords.ts';
import { trailRecords } from './trailRecords.ts';

interface LmdbOptions extends ServiceTimeOptions {
  backlogMax: number;
  diskSpace?: Pick<DiskSpace, 'forCommit'> | undefined;
  fence?: Fence | undefined;
}

/** The embedded store: one LMDB environment, one writing process, any number of readers. Every group of the contract is one object. */
export async function lmdbStore(
  databases: Databases,
  identity: StoreIdentity,
  options: LmdbOptions,
): Promise<Store> {
  const { clock, diskSpace, fence, backlogMax } = options;
  const commits = new Commits(databases, { diskSpace, fence });
  const one = (name: string) => besideIdentity(databases, commits, name);
  const [newest] = databases.batches.getRange({ reverse: true, limit: 1 });
  const serviceTime = await openServiceTime(one('service_time'), newest?.value, options);
  const trail = trailRecords(databases, commits, {
    environment: identity.environment,
    clock,
    accept: (job) => jobs.changesFor(job),
  });
  const epochs = epochRecords(databases, trail);
  const endpoints = endpointRecords(databases, trail);
  const outbox = outboxRecords(databases, commits, endpoints, { clock, serviceTime, backlogMax });
  const copies = copyRecords(databases, commits);
  const jobs = jobRecords(databases, commits, {
    idempotency: new IdempotencyEntries(databases, serviceTime),
    quotas: new QuotaCounts(databases),
    copies,
    outbox,
  });
  return {
    identity,
    jobs,
    copies,
    log: logRecords(databases, commits, { jobs, outbox, epochs }),
    epochs,
    credentials: credentialRecords(databases, commits, trail),
    webhooks: { endpoints, outbox },
    trail,
    witnessing: witnessStoreIn(one('witnessing')),
    renewals: renewalRecords(databases, commits, trail),
    serviceTime,
    indexes: indexRepair(databases, commits, identity, clock),
    pages: new PageUse(databases, options.monotonicMs),
    close: async () => {
      await commits.idle();
      await databases.close();
    },
  };
}

/** A record stored next to the identity. */
function besideIdentity(databases: Databases, commits: Commits, name: string): OneRecord {
  const key = Buffer.from(name);
  return {
    read: async () => databases.identity.getBinary(key),
    write: async (value) => {
      await commits.write({ changes: [{ database: databases.identity, key, value }] });
    },
  };
}
