import { readFileSync } from 'node:fs';
import { hostname, userInfo } from 'node:os';
import { fromEnvironment } from '../base/env.ts';
import type { Act, ActName, ActObject, Actor } from '../manifest/auditRecord.ts';
import type { TrailStore } from './trail.ts';

export function actBy(actor: Actor, act: ActName, object: ActObject): Act {
  return { act, actor, object, outcome: 'done' };
}

/** An act of this process: by the person who called the command, or by the daemon itself. */
export function actOfProcess(via: 'command' | 'daemon', act: ActName, object: ActObject): Act {
  return actBy(actorOfProcess(via), act, object);
}

/**
 * Whether a person or a client requests the act and can repeat it: then a store without space refuses it. Acts of the daemon itself, and
 * the end of an act that has begun, must be recorded.
 */
export function isRefusable(act: Act | null): boolean {
  return act !== null && act.actor.via !== 'daemon' && act.concludes === undefined;
}

/** The person who called the command, or the daemon itself. */
export function actorOfProcess(via: 'command' | 'daemon'): Actor {
  const uid = process.geteuid?.();
  const user = userName();
  const login = loginUid();
  const sudo = fromEnvironment('SUDO_USER');
  return {
    via,
    uid,
    user,
    login_uid: login,
    sudo_user: sudo,
    host: hostname(),
    pid: process.pid,
  };
}

/** Undefined if the system has no name for the user. */
function userName(): string | undefined {
  try {
    return userInfo().username;
  } catch {
    return undefined;
  }
}

/** The value in proc(5) without a login: (uid_t) -1. */
const NO_LOGIN = 2 ** 32 - 1;

/** The login id, which the kernel sets once at login, and which survives su and sudo. Undefined without a login, as in a service. */
function loginUid(): number | undefined {
  try {
    const uid = Number(readFileSync('/proc/self/loginuid', 'utf8'));
    return uid === NO_LOGIN ? undefined : uid;
  } catch {
    return undefined;
  }
}

/**
 * Does work outside the store and records it. The record of its beginning is durable first, so that the work always leaves a trace; a
 * second record says how it ended. `describe` adds facts that only the work made known.
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
