import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { Superseded } from '../store.ts';
import type { Databases } from './databases.ts';

/** The fence is the only key of the database `identity` that begins with this. Its value names the process that raised it. */
const PREFIX = Buffer.from('fence ');
const END = Buffer.from('fence!');

/** A mark in the store of the daemon that opened it last. */
export interface Fence {
  /** Stays in the database `identity` until another daemon opens the store. */
  readonly key: Buffer;
  /** The error for a commit that found another fence. */
  superseded(): Superseded;
}

/**
 * Takes over from the previous daemon: its fence is removed, so every commit that needs that fence fails. The lock file can be removed, and
 * a file system can grant its lock to every process; a mark in the store holds for all committers.
 */
export async function raiseFence({ root, lock, identity }: Databases, path: string): Promise<Fence> {
  const key = Buffer.concat([PREFIX, Buffer.from(randomUUID())]);
  const holder = Buffer.from(`process ${process.pid} on ${hostname()}`);
  await lock.holding('shared', async () => {
    const changes: Promise<boolean>[] = [];
    root.transactionSync(() => {
      const former = Array.from(identity.getKeys({ start: PREFIX, end: END }));
      changes.push(...former.map((each) => identity.remove(each)), identity.put(key, holder));
    });
    await Promise.all(changes);
    await root.flushed;
  });
  return {
    key,
    superseded: () => {
      root.resetReadTxn();
      const [found] = identity.getRange({ start: PREFIX, end: END });
      const by = found === undefined ? 'another daemon' : `another daemon (${found.value})`;
      return new Superseded(
        `${by} has taken over the store in ${path}, and this one writes nothing more to it: stop one of the two, and leave the lock file of the state folder in its place`,
      );
    },
  };
}
