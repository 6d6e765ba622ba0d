import { readFileSync } from 'node:fs';
import { hostname, userInfo } from 'node:os';
import type { Logger } from 'pino';
import { sudoUser } from '../base/env.ts';
import {
  type Act,
  type ActName,
  type ActObject,
  type Actor,
  auditDigest,
  parseAuditRecord,
} from '../manifest/auditRecord.ts';
import type { Sealer } from '../seal/sealer.ts';
import type { Store } from '../store/store.ts';
import type { TrailEntry, TrailStore } from '../store/trail.ts';

/** An act of this process: of whoever called the command, or of the daemon by itself. */
export function actOfProcess(via: 'command' | 'daemon', act: ActName, object: ActObject): Act {
  return { act, actor: actorOfProcess(via), object, outcome: 'done' };
}

function actorOfProcess(via: 'command' | 'daemon'): Actor {
  const uid = process.geteuid?.();
  const user = userName();
  const login = loginUid();
  const sudo = sudoUser();
  return {
    via,
    ...(uid !== undefined && { uid }),
    ...(user !== undefined && { user }),
    ...(login !== undefined && { login_uid: login }),
    ...(sudo !== undefined && { sudo_user: sudo }),
    host: hostname(),
    pid: process.pid,
  };
}

/** Undefined for a user that the system has no name for. */
function userName(): string | undefined {
  try {
    return userInfo().username;
  } catch {
    return undefined;
  }
}

/** What proc(5) says where nobody logged in: (uid_t) -1. */
const NO_LOGIN = 2 ** 32 - 1;

/** The kernel sets it once, at the login, and it stays through su and sudo. Undefined where nobody logged in, as in a service. */
function loginUid(): number | undefined {
  try {
    const uid = Number(readFileSync('/proc/self/loginuid', 'utf8'));
    return uid === NO_LOGIN ? undefined : uid;
  } catch {
    return undefined;
  }
}

/**
 * Does what is no write to the store, on record: that it begins is durable before, so that it is never done without a trace;
 * then how it ended. `describe` says what became known only by doing it.
 */
export async function onRecord<Result>(
  trail: Pick<TrailStore, 'append'>,
  act: Act,
  work: () => Promise<Result>,
  describe: (result: Result) => ActObject = () => ({}),
): Promise<Result> {
  const concludes = await trail.append({ ...act, outcome: 'begun' });
  let result: Result;
  try {
    result = await work();
  } catch (error) {
    await trail.append({ ...act, outcome: 'failed', concludes });
    throw error;
  }
  const object = { ...act.object, ...describe(result) };
  await trail.append({ ...act, object, outcome: 'done', concludes });
  return result;
}

export interface AuditFeedOptions {
  store: Pick<Store, 'trail'>;
  sealer: Pick<Sealer, 'adopt'>;
  /** The newest record when the sealer was opened, or an earlier one. */
  after: number;
  logger: Logger;
  /** How often new records are looked for. Default: a second. */
  intervalMs?: number;
  /** Told when the store can no longer be read. */
  onFatal(error: unknown): void;
}

const INTERVAL_MS = 1000;
const PAGE = 100;

/**
 * Has the records sealed that any process adds to the trail, and tells the daemon's log of them: what was forwarded to another
 * machine by then cannot be taken back here. Returns the function that ends it.
 */
export function startAuditFeed({
  intervalMs = INTERVAL_MS,
  ...options
}: AuditFeedOptions): () => Promise<void> {
  const { store, sealer, logger, onFatal } = options;
  let seen = options.after;
  const look = async () => {
    if ((await store.trail.newest()) === seen) return;
    for (const entry of await store.trail.entries(seen, PAGE)) {
      await sealer.adopt(entry.jobId);
      logger.info(summaryOf(entry), 'an administrative act is on record');
      seen = entry.number;
    }
  };
  let looking: Promise<void> = Promise.resolve();
  const timer = setInterval(() => {
    looking = looking.then(look).catch(onFatal);
  }, intervalMs).unref();
  return async () => {
    clearInterval(timer);
    await looking;
  };
}

/** What is told of a record: enough to know it again, and nothing of what it is about. */
function summaryOf({ number, text }: TrailEntry): object {
  const { act, outcome, actor } = parseAuditRecord(text) ?? {};
  return { audit_number: number, audit_digest: auditDigest(text), act, outcome, actor };
}
