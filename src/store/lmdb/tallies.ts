import { emptyTally } from '../outboxEntry.ts';
import { encodeRecord, parseRecord } from '../records.ts';
import type { EndpointTally, WebhookEndpoint } from '../webhookStore.ts';
import type { Change, Commits } from './commits.ts';
import type { Databases, NamedDatabase } from './databases.ts';
import { JOB_KEY_BYTES, ownIdKey } from './keyLayout.ts';

/** An endpoint as this process counts it. */
export interface Channel {
  key: Buffer;
  /** The endpoint's revision when the entries were counted: another process may have queued something since. */
  revision: number;
  tally: EndpointTally;
  /** Writes under way, which the tally includes already: until they are done, entries in the store cannot be counted. */
  writes: number;
}

/** The channels of all endpoints. A tally changes when a write is decided on, so that the next write sees how much of the backlog is left. */
export class Tallies {
  readonly #databases: Databases;
  readonly #commits: Commits;
  readonly #channels = new Map<string, Channel>();

  constructor(databases: Databases, commits: Commits) {
    this.#databases = databases;
    this.#commits = commits;
  }

  /** Counts the stored entries again once another process, or a test, may have added some. */
  of(endpoint: WebhookEndpoint): Channel {
    const known = this.#channels.get(endpoint.id);
    if (known !== undefined && (known.revision === endpoint.revision || known.writes > 0)) return known;
    const { outbox, deadLetters, tallies } = this.#databases;
    const key = ownIdKey('we', endpoint.id);
    const bytes = tallies.getBinary(key);
    const stored = known?.tally ?? (bytes === undefined ? emptyTally() : parseRecord<EndpointTally>(bytes));
    const counts = { pending: countEntries(outbox, key), deadLetters: countEntries(deadLetters, key) };
    const channel = { key, revision: endpoint.revision, tally: { ...stored, ...counts }, writes: 0 };
    this.#channels.set(endpoint.id, channel);
    return channel;
  }

  /** Forgets endpoints that were removed. Clients can make and remove any number of them. */
  forgetUnless(isThere: (endpointId: string) => boolean): void {
    for (const [id, { writes }] of this.#channels)
      if (writes === 0 && !isThere(id)) this.#channels.delete(id);
  }

  change({ key, tally }: Channel): Change {
    return { database: this.#databases.tallies, key, value: encodeRecord(tally) };
  }

  /** Writes changes that the tallies of these channels include already. */
  async write(channels: readonly Channel[], changes: Change[]): Promise<void> {
    for (const channel of channels) channel.writes += 1;
    await this.#commits.write({ changes });
    for (const channel of channels) channel.writes -= 1;
  }
}

/** Changes of one write to tallies, before it is known whether the write takes place. */
export class Counting {
  readonly #before = new Map<Channel, EndpointTally>();

  /** Call this before the tally of this channel is changed. */
  on(channel: Channel): void {
    if (this.#before.has(channel)) return;
    this.#before.set(channel, { ...channel.tally });
    channel.writes += 1;
  }

  /** Call this once all is counted, and the function it returns once the outcome is known: if nothing was written, nothing counts. */
  end(): (happened: boolean) => void {
    const counted = Array.from(this.#before, ([channel, before]) => ({
      channel,
      before,
      after: { ...channel.tally },
    }));
    return (happened) => {
      for (const { channel, before, after } of counted) {
        channel.writes -= 1;
        if (!happened) takeBack(channel.tally, before, after);
      }
    };
  }
}

/** Takes back only the difference, because others may have counted since. */
function takeBack(tally: EndpointTally, before: EndpointTally, after: EndpointTally): void {
  for (const count of ['pending', 'deadLetters', 'dropped'] as const) {
    tally[count] -= after[count] - before[count];
  }
  if (tally.dropped > 0) return;
  delete tally.droppedFrom;
  delete tally.droppedTo;
}

export function drop(tally: EndpointTally, occurredAt: number): void {
  tally.dropped += 1;
  tally.droppedFrom = Math.min(tally.droppedFrom ?? occurredAt, occurredAt);
  tally.droppedTo = Math.max(tally.droppedTo ?? occurredAt, occurredAt);
}

/** Sorts after every key that begins with the prefix. */
export function endOf(prefix: Uint8Array): Buffer {
  return Buffer.concat([prefix, Buffer.alloc(JOB_KEY_BYTES, 0xff)]);
}

export function countEntries(database: NamedDatabase, prefix: Uint8Array): number {
  return database.getKeysCount({ start: prefix, end: endOf(prefix) });
}
