import type { Outcome } from '../../../job/job.ts';
import type { EndpointTally, WebhookEndpoint } from '../../webhookStore.ts';
import type { Database } from '../databases.ts';
import { REVISIONS_KEPT } from '../endpointRecords.ts';
import {
  COUNTER_BYTES,
  counterKey,
  DELIVERY_KEY_BYTES,
  ENDPOINT_KEY_BYTES,
  JOB_KEY_BYTES,
  NOTHING,
  parseCounterKey,
  parseDeliveryKey,
} from '../keyLayout.ts';
import { batchOfLeaf } from '../logRecords.ts';
import type { Entry } from '../outbox.ts';
import { encodeRecord } from '../records.ts';
import { countEntries, emptyTally } from '../tallies.ts';
import { eachKey, type Facts, type Flaw, inHex, judge, readable } from './flaw.ts';

/** The last revisions without a gap, up to one that no endpoint is ahead of. */
export function* checkRevisions({ databases }: Facts): Iterable<Flaw[]> {
  const { endpointRevisions: database, endpoints } = databases;
  const keys = Array.from(database.getKeys({}), (key) => Buffer.from(key));
  const known = keys.filter((key) => key.length === COUNTER_BYTES).map(parseCounterKey);
  const used = Array.from(
    endpoints.getKeys({}),
    (key) => readable<WebhookEndpoint>(endpoints, key)?.revision ?? 0,
  );
  let newest = Math.max(0, ...used);
  // One that lies further on than can have been made since is none.
  for (const revision of known) if (revision - newest <= REVISIONS_KEPT) newest = Math.max(newest, revision);
  const oldest = Math.max(1, newest - REVISIONS_KEPT + 1);
  const at = (key: Buffer) => ({ index: 'endpoint_revisions', database, key, entry: inHex(key) }) as const;
  const expected = Array.from({ length: newest - oldest + 1 }, (_, n) => counterKey(oldest + n));
  const names = new Set(expected.map(inHex));
  yield [
    ...keys.filter((key) => !names.has(inHex(key))).flatMap((key) => judge(at(key), undefined)),
    ...expected.flatMap((key) => judge(at(key), NOTHING)),
  ];
}

export function checkOutbox(facts: Facts): Iterable<Flaw[]> {
  return checkDeliveries(facts, 'outbox', facts.databases.outbox, {});
}

/** What is lost of a damaged entry is how often it was tried, and why it was given up. */
export function checkDeadLetters(facts: Facts): Iterable<Flaw[]> {
  return checkDeliveries(facts, 'dead_letters', facts.databases.deadLetters, { death: 'overdue' });
}

/** Nobody is told but of his own jobs, and of these how they ended. What was of endpoints that are no more goes with the sweep. */
function checkDeliveries(
  facts: Facts,
  index: 'outbox' | 'dead_letters',
  database: Database,
  afresh: Pick<Entry, 'death'>,
): Iterable<Flaw[]> {
  return eachKey(database, (key) => {
    if (key.length !== DELIVERY_KEY_BYTES)
      return judge({ index, database, key, entry: inHex(key) }, undefined);
    const at = { index, database, key, entry: parseDeliveryKey(key).webhookId } as const;
    const endpoint = endpointOf(facts, key);
    if (endpoint === undefined) return [];
    const entry = readable<Entry>(database, key);
    if (entry?.type === 'webhook.test') return [];
    const jobKey = key.subarray(-JOB_KEY_BYTES);
    const job = facts.job(jobKey);
    const outcome = facts.outcome(jobKey);
    const told = job && outcome && job.clientId === endpoint.clientId ? eventOf(facts, outcome) : undefined;
    if (told === undefined) return judge(at, undefined);
    const isRight = entry?.type === told.type && entry.occurredAt === told.occurredAt;
    return isRight ? [] : judge(at, encodeRecord({ attempts: 0, ...afresh, ...entry, ...told }));
  });
}

function endpointOf({ databases: { endpoints } }: Facts, key: Uint8Array): WebhookEndpoint | undefined {
  return readable<WebhookEndpoint>(endpoints, key.subarray(0, ENDPOINT_KEY_BYTES));
}

function eventOf({ databases }: Facts, outcome: Outcome): Pick<Entry, 'type' | 'occurredAt'> | undefined {
  if (outcome.kind === 'failed') return { type: 'job.failed', occurredAt: outcome.failure.failedAt };
  const batch = batchOfLeaf(databases, outcome.leafIndex);
  return batch && { type: 'job.completed', occurredAt: batch.sealedAt };
}

/** Statistics, which follow from nothing; but one that cannot be read would end every commit for its endpoint. */
export function* checkTallies({ databases }: Facts): Iterable<Flaw[]> {
  const { tallies: database, outbox, deadLetters } = databases;
  yield* eachKey(database, (key) => {
    const at = { index: 'tallies', database, key, entry: `we_${inHex(key)}` } as const;
    if (key.length !== ENDPOINT_KEY_BYTES) return judge(at, undefined);
    if (readable<EndpointTally>(database, key) !== undefined) return [];
    const counts = { pending: countEntries(outbox, key), deadLetters: countEntries(deadLetters, key) };
    return judge(at, encodeRecord({ ...emptyTally(), ...counts }));
  });
}
