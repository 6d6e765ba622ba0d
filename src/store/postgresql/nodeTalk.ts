import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { z } from 'zod';
import { packageVersion } from '../../base/package.ts';
import type { Nodes, OtherNode, RequestCounts } from '../nodes.ts';
import type { Bell } from './bell.ts';

const SAY_MS = 1_000;
/** A node that said nothing for so long has ended, or cannot be reached. */
const SILENT_MS_MAX = 5_000;
/** PostgreSQL takes 7,999 bytes in all, and the name of a client has 63 at most. */
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

/** Sends and hears what nodes say by NOTIFY: nothing of it is in a table. */
export class NodeTalk implements Nodes {
  readonly #bell: Bell;
  readonly #id = randomUUID();
  readonly #name = `process ${process.pid} on ${hostname()}`.slice(0, 100);
  readonly #version = packageVersion();
  readonly #role: OtherNode['role'];
  readonly #heard = new Map<string, Heard>();
  readonly #timer: NodeJS.Timeout;
  #counts: RequestCounts | undefined;

  constructor(bell: Bell, role: OtherNode['role']) {
    this.#bell = bell;
    this.#role = role;
    bell.onSaid((text) => this.#hear(text));
    this.#timer = setInterval(() => this.#say(), SAY_MS).unref();
  }

  share(counts: RequestCounts): void {
    this.#counts = counts;
  }

  others(): OtherNode[] {
    this.#forget();
    return Array.from(this.#heard.values(), ({ at: _, ...node }) => node);
  }

  close(): void {
    clearInterval(this.#timer);
  }

  #say(): void {
    if (!this.#bell.isConnected) return;
    const counts: (readonly [string, number])[] = [];
    let bytes = 0;
    for (const [clientId, requests] of this.#counts?.uncountedElsewhere() ?? []) {
      const one = [clientId, Math.min(requests, REQUESTS_MAX)] as const;
      counts.push(one);
      bytes += Buffer.byteLength(JSON.stringify(one)) + 1;
      if (bytes > COUNTS_BYTES_MAX) break;
    }
    this.#bell.say(JSON.stringify([this.#id, this.#name, this.#role, this.#version, counts]));
  }

  #hear(text: string): void {
    const said = saying.safeParse(parsed(text)).data;
    if (said === undefined) return;
    const [id, name, role, version, counts] = said;
    if (id === this.#id) return;
    this.#forget();
    if (this.#heard.size < NODES_MAX || this.#heard.has(id))
      this.#heard.set(id, { name, role, version, at: performance.now() });
    for (const [clientId, requests] of counts) this.#counts?.countElsewhere(clientId, requests);
  }

  #forget(): void {
    for (const [id, { at }] of this.#heard)
      if (performance.now() - at > SILENT_MS_MAX) this.#heard.delete(id);
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
