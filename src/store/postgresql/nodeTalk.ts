import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import * as z from 'zod';
import { BoundedMap } from '../../base/bounded.ts';
import { packageVersion } from '../../base/package.ts';
import type { Nodes, OtherNode, RequestCounts } from '../nodes.ts';
import type { Notifier } from './notifier.ts';

const SAY_MS = 1_000;
/** A node that is silent for this long has ended, or cannot be reached. */
const SILENT_MS_MAX = 5_000;
/** PostgreSQL accepts 7,999 bytes in all, and the name of a client has at most 63. */
const COUNTS_BYTES_MAX = 7_000;
const NODES_MAX = 100;
const REQUESTS_MAX = 1_000_000;

const printable = z.string().regex(/^[\x20-\x7e]{1,100}$/);
const saying = z.tuple([
  z.uuid(),
  printable,
  z.enum(['front', 'sealing']),
  printable,
  z.array(z.tuple([z.string(), z.int().min(1).max(REQUESTS_MAX)])),
]);

interface Heard extends OtherNode {
  /** By the monotonic clock of this process, in milliseconds. */
  at: number;
}

/** Sends and receives the messages of nodes by NOTIFY: no table contains them. */
export function nodeTalk(notifier: Notifier, role: OtherNode['role']): Nodes & { leave(): void } {
  const ownId = randomUUID();
  const ownName = `process ${process.pid} on ${hostname()}`.slice(0, 100);
  const ownVersion = packageVersion();
  const heard = new BoundedMap<string, Heard>({ max: NODES_MAX, whenFull: 'refuse it' });
  const timer = setInterval(say, SAY_MS).unref();
  let shared: RequestCounts | undefined;
  notifier.onMessage(hear);

  function say(): void {
    if (!notifier.isConnected) return;
    const counts: (readonly [string, number])[] = [];
    let bytes = 0;
    for (const [clientId, requests] of shared?.uncountedElsewhere() ?? []) {
      const one = [clientId, Math.min(requests, REQUESTS_MAX)] as const;
      counts.push(one);
      bytes += Buffer.byteLength(JSON.stringify(one)) + 1;
      if (bytes > COUNTS_BYTES_MAX) break;
    }
    notifier.send(JSON.stringify([ownId, ownName, role, ownVersion, counts]));
  }

  function hear(text: string): void {
    const said = saying.safeParse(parsed(text)).data;
    if (said === undefined) return;
    const [id, name, role, version, counts] = said;
    if (id === ownId) return;
    forget();
    heard.set(id, { name, role, version, at: performance.now() });
    for (const [clientId, requests] of counts) shared?.countElsewhere(clientId, requests);
  }

  function forget(): void {
    for (const [id, { at }] of heard) if (performance.now() - at > SILENT_MS_MAX) heard.delete(id);
  }

  return {
    share(counts) {
      shared = counts;
    },

    others() {
      forget();
      return Array.from(heard.values(), ({ at: _, ...node }) => node);
    },

    onFlood: (listener) => notifier.onFlood(listener),

    leave() {
      clearInterval(timer);
    },
  };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
