import type { Clock } from '../base/clock.ts';
import { encodeRecord } from './records.ts';
import type { ServiceTime } from './serviceTime.ts';
import type { DeadLetter, Delivery, EndpointTally } from './webhookStore.ts';

/** The value of an entry, without its key. */
export type OutboxEntry = Pick<Delivery, 'type' | 'occurredAt' | 'attempts' | 'failure'> &
  Partial<Pick<DeadLetter, 'death'>>;

export interface OutboxOptions {
  clock: Clock;
  serviceTime: ServiceTime;
  backlogMax: number;
}

/** Maximum number of entries changed by one call of sweep: few enough that a batch waiting behind it does not notice. */
export const SWEEP_ENTRIES_MAX = 500;

export function emptyTally(): EndpointTally {
  return { pending: 0, deadLetters: 0, delivered: 0, failures: 0, dropped: 0 };
}

/** The part of a tally that does not follow from the messages, always in the same order. */
export function portableTally(tally: EndpointTally = emptyTally()): Buffer {
  const { delivered, failures, dropped, droppedFrom, droppedTo, deliveredAt, failure } = tally;
  return encodeRecord({ delivered, failures, dropped, droppedFrom, droppedTo, deliveredAt, failure });
}
