import type { Clock } from '../base/clock.ts';
import { ServiceError } from '../base/errors.ts';
import type { Person } from '../base/people.ts';
import type { Config } from '../config/config.ts';
import type { StatusReader } from '../health/statusReader.ts';
import type { Timestamping } from '../seal/timestamping.ts';
import type { Store } from '../store/store.ts';
import type { Canary } from '../watch/canary.ts';
import type { Carrying } from '../watch/carrying.ts';
import type { Drills } from './drills.ts';

/** The parts that operations on the store need. A command without a daemon opens them itself. */
export interface StoreParts {
  store: Store;
  /** As it is in force. */
  config(): Pick<Config, 'file' | 'http' | 'webhooks'>;
  clock: Clock;
}

/** What operations have in common that only owners of the store may do. */
export const OF_OWNERS = { role: 'owner', needs: 'store' } as const;

/** The parts that operations on a running daemon need. */
export interface DaemonParts {
  status: Pick<StatusReader, 'read' | 'quotas'>;
  store: Pick<Store, 'trail'>;
  clock: Clock;
  /** Absent in a front. */
  canary: Pick<Canary, 'run'> | undefined;
  drills: Pick<Drills, 'takeOut' | 'putBack'> | undefined;
  /** Undefined if the configuration names no policy of witnesses. */
  carrying: Pick<Carrying, 'request' | 'accept'> | undefined;
  /** Undefined if receipts carry no time-stamp. */
  timestamping: Pick<Timestamping, 'renew' | 'status' | 'acceptDate'> | undefined;
  /** The sessions of the console. Undefined if none is configured. */
  console: ConsoleDoor | undefined;
}

/** Opens and closes the console. */
export interface ConsoleDoor {
  /** The secret of a new one-time link. */
  invite(person: Person): string;
  /** Ends the sessions and links of everybody, or of one name. Returns how many sessions there were. */
  endAll(name?: string): number;
}

/** Throws ServiceError, which says why, for a part that this daemon does not have. */
export function existing<Part>(part: Part | undefined, otherwise: string): Part {
  if (part !== undefined) return part;
  throw new ServiceError('not_found', otherwise);
}

export const IS_FRONT = 'This is a front, which seals nothing. Ask the daemon that seals.';
