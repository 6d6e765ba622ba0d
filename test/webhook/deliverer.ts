import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import type { Test } from 'tap';
import { type Clock, systemClock } from '../../src/base/clock.ts';
import { createLogger } from '../../src/base/logger.ts';
import type { Job } from '../../src/job/job.ts';
import { createStore, openStore } from '../../src/store/lmdb/open.ts';
import type { Store } from '../../src/store/store.ts';
import type { NewEndpoint } from '../../src/store/webhookStore.ts';
import { HttpClient } from '../../src/web/httpClient.ts';
import { TargetPolicy } from '../../src/web/policy.ts';
import { Deliverer, type DelivererOptions } from '../../src/webhook/deliver.ts';
import { epoch, identity, sampleBatch, sampleEndpoint, sampleJob } from '../store/samples.ts';
import type { Receiver } from '../support/receiver.ts';

/** A store and a deliverer on it. */
export interface DeliveryRig {
  store: Store;
  /** Stands for the one that runs now. */
  deliverer(): Deliverer;
  log: Record<string, unknown>[];
  /** Adds an endpoint of a client of its own. */
  endpoint(receiver: Pick<Receiver, 'url' | 'secrets'>, fields?: Partial<NewEndpoint>): Promise<NewEndpoint>;
  /** Seals that many jobs of the endpoint's client; returns the ids of the messages. */
  seal(endpoint: NewEndpoint, count: number, fields?: Partial<Job>): Promise<string[]>;
  /** Closes the deliverer and opens another one. */
  restart(options?: Partial<DelivererOptions>): Promise<void>;
}

/** Reaches this machine. `ca`: PEM of the only certificate authority to trust. */
export function clientOf(ca?: string): HttpClient {
  return new HttpClient({ policy: new TargetPolicy(['127.0.0.0/8']), ca, idleConnectionsMax: 4 });
}

export async function openDeliveryRig(
  t: Test,
  options: Partial<DelivererOptions> & { backlogMax?: number; monotonicMs?: Clock } = {},
): Promise<DeliveryRig> {
  const path = join(t.testdir(), 'store');
  await createStore({ path, identity, epoch });
  const { backlogMax, monotonicMs } = options;
  const store = await openStore({
    path,
    ...(backlogMax && { backlogMax }),
    ...(monotonicMs && { monotonicMs }),
  });
  const lines: Record<string, unknown>[] = [];
  const open = (more: Partial<DelivererOptions> = {}) => {
    const deliverer = new Deliverer({
      store,
      client: clientOf(),
      inFlightMax: 16,
      perEndpointMax: 4,
      timeoutMs: 60_000,
      retryDelaysMs: [20, 20, 20],
      probeIntervalMs: 50,
      deadLetterMs: 60_000,
      present: ({ job, outcome }) => ({ id: job.id, kind: outcome?.kind, reference: job.customerReference }),
      clock: systemClock,
      logger: createLogger('debug', { write: (line) => void lines.push(JSON.parse(line)) }),
      onFatal: (error) => void t.fail(`fatal: ${error}`),
      ...options,
      ...more,
    });
    deliverer.start();
    return deliverer;
  };
  let deliverer = open();
  t.teardown(async () => {
    await deliverer.close();
    await store.close();
  });
  return {
    store,
    deliverer: () => deliverer,
    log: lines,
    async endpoint(receiver, fields) {
      const endpoint = sampleEndpoint({ url: receiver.url, clientId: `client-${randomUUID()}`, ...fields });
      receiver.secrets = endpoint.secrets.map(({ secret }) => secret);
      await store.webhooks.endpoints.add(endpoint, 100, null);
      return endpoint;
    },
    async seal({ clientId }, count, fields = {}) {
      const acceptedAt = Date.now();
      const jobs = Array.from({ length: count }, () => sampleJob({ acceptedAt, clientId, ...fields }));
      await Promise.all(jobs.map((job) => store.jobs.accept(job)));
      const head = await store.log.head();
      await store.log.commit(sampleBatch(head?.treeSize ?? 0, jobs));
      return jobs.map(({ id }) => id.replace('job_', 'msg_'));
    },
    async restart(more) {
      await deliverer.close();
      deliverer = open(more);
    },
  };
}
