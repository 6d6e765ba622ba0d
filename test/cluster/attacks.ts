/** What can happen to a cluster, each from beginning to end. */
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { until } from '../support/until.ts';
import { NODES, type NodeName } from './configuration.ts';
import type { PatroniCluster } from './patroni.ts';
import type { Site } from './site.ts';

export interface Attack {
  name: string;
  run(cluster: PatroniCluster, site: Site, random: () => number): Promise<void>;
}

const DATABASE = 'pdfseal';
const STORM_CONNECTIONS = 60;
/** A daemon whose clock is behind the log's seals nothing until it has caught up. */
const CLOCK_SECONDS_MAX = 30;
/** Long enough for a daemon to end, to start again, and to answer what it believes. */
const CANCELLING_MS = 8_000;
const CANCEL_PAUSE_MS = 150;
/** Patroni lets a leader go after 20 s: in about half of the rounds, it comes back before that. */
const CUT_OFF_MS_MAX = 33_000;
const TAKE_OVER_SECONDS_MAX = 60;

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
      await sleep(2_000 + random() * CUT_OFF_MS_MAX);
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
    name: 'the disk of the primary is slow',
    run: async (cluster, _, random) => {
      const primary = await cluster.primary();
      if (primary === undefined) return;
      const end = cluster.slowDown(primary, 50 + random() * 1_500);
      await sleep(5_000 + random() * 10_000);
      end();
    },
  },
  {
    name: 'the clock of a daemon is set, forward or back',
    run: async (_, site, random) => {
      const all = [...site.nodes, ...site.fronts];
      const seconds = CLOCK_SECONDS_MAX * (2 * random() - 1) ** 3;
      all[Math.floor(random() * all.length)]?.date.jump(seconds / 3600);
      await sleep(random() * 5_000);
    },
  },
  {
    name: 'commits are acknowledged although no standby has them',
    run: async (cluster) => {
      const primary = await cluster.primary();
      if (primary === undefined) return;
      await acknowledgeAlone(cluster, primary);
      cluster.setReplication(primary, 'up');
    },
  },
  {
    name: 'commits are acknowledged although no standby has them, and the primary is lost',
    run: async (cluster) => {
      const primary = await cluster.primary();
      if (primary === undefined) return;
      await acknowledgeAlone(cluster, primary);
      cluster.setLink(primary, 'down');
      cluster.setReplication(primary, 'up');
      const hasOther = async () => ![undefined, primary].includes(await cluster.primary());
      // Where Patroni has seen that no standby is synchronous any more, nobody may lead until this one is back.
      await until('another is the primary', hasOther, TAKE_OVER_SECONDS_MAX).catch(() => {});
      cluster.setLink(primary, 'up');
    },
  },
];

/**
 * Standbys receive nothing any more, and whoever waits for them is told that it is enough, again and again: the server says so in a warning,
 * and the commit succeeds.
 */
async function acknowledgeAlone(cluster: PatroniCluster, primary: NodeName): Promise<void> {
  cluster.setReplication(primary, 'down');
  const cancel = `SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'`;
  const since = performance.now();
  while (performance.now() - since < CANCELLING_MS) {
    await cluster.query(primary, cancel);
    await sleep(CANCEL_PAUSE_MS);
  }
}
