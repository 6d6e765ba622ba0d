/** What can happen to a cluster, each from beginning to end. */
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { until } from '../support/until.ts';
import { NODES, type PatroniCluster } from './patroni.ts';
import type { Site } from './site.ts';

export interface Attack {
  name: string;
  run(cluster: PatroniCluster, site: Site, random: () => number): Promise<void>;
}

const DATABASE = 'pdfseal';
const STORM_CONNECTIONS = 60;

export const ATTACKS: Attack[] = [
  {
    name: 'kill -9 of the active daemon',
    run: async (_, site) => (await site.active())?.signal('SIGKILL'),
  },
  {
    name: 'the active daemon hangs, another takes over, it comes back',
    run: async (_, site, random) => {
      const node = await site.active();
      if (node === undefined) return;
      site.freeze(node);
      await sleep(3_000 + random() * 9_000);
      node.signal('SIGCONT');
    },
  },
  {
    name: 'kill -9 of a front',
    run: async (_, { fronts }, random) => fronts[Math.floor(random() * fronts.length)]?.signal('SIGKILL'),
  },
  {
    name: 'a front hangs',
    run: async (_, site, random) => {
      const front = site.fronts[Math.floor(random() * site.fronts.length)];
      if (front === undefined) return;
      site.freeze(front);
      await sleep(3_000 + random() * 9_000);
      front.signal('SIGCONT');
    },
  },
  {
    name: 'kill -9 of the primary',
    run: async (cluster) => {
      const primary = await cluster.primary();
      if (primary) cluster.signal(primary, 'SIGKILL', 'postgres');
    },
  },
  {
    name: 'the primary is cut off',
    run: async (cluster, _, random) => {
      const primary = await cluster.primary();
      if (primary === undefined) return;
      cluster.setLink(primary, 'down');
      await sleep(2_000 + random() * 50_000);
      cluster.setLink(primary, 'up');
    },
  },
  {
    name: 'a standby is cut off',
    run: async (cluster, _, random) => {
      const primary = await cluster.primary();
      const standby = NODES.find((node) => node !== primary) ?? NODES[0];
      cluster.setLink(standby, 'down');
      await sleep(1_000 + random() * 10_000);
      cluster.setLink(standby, 'up');
    },
  },
  {
    name: 'the primary hangs',
    run: async (cluster, _, random) => {
      const primary = await cluster.primary();
      if (primary === undefined) return;
      cluster.signal(primary, 'SIGSTOP', 'postgres');
      await sleep(1_000 + random() * 12_000);
      cluster.signal(primary, 'SIGCONT', 'postgres');
    },
  },
  {
    name: 'a switchover',
    run: async (cluster) => cluster.switchover(),
  },
  {
    name: 'every session is ended',
    run: async (cluster) => {
      const primary = await cluster.primary();
      const text = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '${DATABASE}'`;
      if (primary) await cluster.query(primary, text);
    },
  },
  {
    name: 'a storm of connections',
    run: async (cluster, _, random) => {
      const primary = await cluster.primary();
      if (primary === undefined) return;
      const storm = Array.from({ length: STORM_CONNECTIONS }, async () => {
        const client = new pg.Client(cluster.connection(primary));
        client.on('error', () => {});
        await client.connect().catch(() => {});
        await sleep(random() * 3_000);
        await client.end().catch(() => {});
      });
      await Promise.all(storm);
    },
  },
  {
    name: 'commits are acknowledged although no standby has them',
    run: async (cluster) => {
      const primary = await cluster.primary();
      if (primary === undefined) return;
      const standbys = NODES.filter((node) => node !== primary);
      for (const node of standbys) cluster.signal(node, 'SIGSTOP', 'postgres');
      try {
        const cancel = `SELECT pg_cancel_backend(pid) FROM pg_stat_activity
          WHERE datname = '${DATABASE}' AND wait_event = 'SyncRep'`;
        await until(
          'a commit waits',
          async () => ((await cluster.query(primary, cancel)) ?? []).length > 0,
          20,
        ).catch(
          () => {}, // Patroni may have been faster.
        );
        await sleep(500);
      } finally {
        for (const node of standbys) cluster.signal(node, 'SIGCONT', 'postgres');
      }
    },
  },
];
