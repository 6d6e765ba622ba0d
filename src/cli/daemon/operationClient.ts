/** Runs operations: in the daemon that owns the store or, while none runs, in this process. */
import { setTimeout as sleep } from 'node:timers/promises';
import type * as z from 'zod';
import { systemClock } from '../../base/clock.ts';
import { ERROR_KINDS } from '../../base/errorKinds.ts';
import { type ErrorCode, OperatorError, ServiceError } from '../../base/errors.ts';
import { acquireLock, FolderInUse } from '../../base/lock.ts';
import type { Config } from '../../config/config.ts';
import { encodeReportedActor } from '../../manifest/auditRecord.ts';
import {
  ACTOR_HEADER,
  type AdminOperation,
  type Field,
  type GivenFields,
  perform,
} from '../../ops/operation.ts';
import type { StoreParts } from '../../ops/operationParts.ts';
import { actorOfProcess } from '../../store/acts.ts';
import type { SocketPath } from '../../web/address.ts';
import { withStoreAt } from '../withStore.ts';
import { AdminRefusal, askAdministration, NobodyAnswers } from './adminClient.ts';

type Fields = Readonly<Record<string, Field>>;

/** A daemon that starts holds the state folder before it answers. */
const START_MS_MAX = 20_000;
const LOOK_MS = 100;

/**
 * Runs an operation on the store of an environment. In the embedded store, one process does what operations do: the daemon is asked, or this
 * process locks the state folder for as long as it writes. A reader needs neither, and a database is open to several. Commands that run no
 * operation write beside the daemon. Throws OperatorError.
 */
export async function runOnStore<Own extends Fields, Answer extends z.ZodType>(
  stated: AdminOperation<StoreParts, Own, Answer>,
  config: Config,
  given: GivenFields<Own>,
): Promise<z.output<Answer>> {
  const isReader = stated.route.method === 'get';
  const options = {
    expected: { environment: config.environment, logOrigin: config.log.origin },
    readOnly: isReader,
    backlogMax: config.webhooks.backlogMax,
  };
  const here = () =>
    withStoreAt(config.store, options, (store) => {
      const parts = { store, config: () => config, clock: systemClock };
      return perform(stated, parts, given, actorOfProcess('command'));
    });
  if (isReader || config.store.engine === 'postgresql') return here();
  const giveUpAt = performance.now() + START_MS_MAX;
  for (;;) {
    try {
      return await askOperation(stated, config.admin.socket, given);
    } catch (error) {
      if (!(error instanceof NobodyAnswers)) throw error;
    }
    try {
      return await whileLocked(config.lockFile, here);
    } catch (error) {
      if (!(error instanceof FolderInUse)) throw error;
      if (performance.now() < giveUpAt) await sleep(LOOK_MS);
      else
        throw new OperatorError(
          `process ${error.holder} uses the state folder, but does not answer at ${config.admin.socket.path}`,
          { cause: error, code: 'daemon_starting' },
        );
    }
  }
}

/**
 * A function of its own: with `using` in the body of the loop above, V8 of Node 24 throws what an earlier turn of the loop has caught, after
 * the work is done.
 */
async function whileLocked<Result>(path: string, work: () => Promise<Result>): Promise<Result> {
  using _ = acquireLock(path);
  return await work();
}

/** Asks the running daemon for an operation. Throws NobodyAnswers, or another OperatorError. */
export async function askOperation<Own extends Fields, Answer extends z.ZodType>(
  stated: AdminOperation<never, Own, Answer>,
  socket: SocketPath,
  given: GivenFields<Own>,
): Promise<z.output<Answer>> {
  const { method, path, sends = 'query' } = stated.route;
  const others = new Map(Object.entries(given).filter(([, value]) => value !== undefined));
  const take = (name: string) => {
    const value = String(others.get(name) ?? '');
    others.delete(name);
    return value;
  };
  const place = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(take(name)));
  const text = typeof sends === 'object' ? take(sends.text) : '';
  const isJson = sends === 'json';
  const query = isJson
    ? ''
    : String(new URLSearchParams(Object.fromEntries(others) as Record<string, string>));
  const content = {
    body: isJson ? JSON.stringify(Object.fromEntries(others)) : text,
    headers: {
      ...(stated.needs === 'store' && { [ACTOR_HEADER]: encodeReportedActor(actorOfProcess('command')) }),
      ...(isJson && { 'Content-Type': 'application/json' }),
    },
  };
  try {
    return await askAdministration(
      socket,
      method === 'get' ? 'GET' : 'POST',
      query === '' ? place : `${place}?${query}`,
      content,
    );
  } catch (error) {
    throw error instanceof AdminRefusal ? refusalOf(stated, error) : error;
  }
}

/** The refusal as this process would have thrown it. */
function refusalOf({ name, role }: AdminOperation<never>, refusal: AdminRefusal): Error {
  const { code, told, message } = refusal;
  if (code === 'not_found' && told.startsWith('There is nothing at this path'))
    return new OperatorError(`the running daemon does not know ${name.replace('.', ' ')}`, {
      cause: refusal,
      code: 'older_daemon',
    });
  if (role !== 'owner') return refusal;
  if (code === 'insufficient_scope')
    return new OperatorError(message, { cause: refusal, code, remedy: 'run this as root' });
  if (code === 'not_found' || code === 'invalid_request')
    return new OperatorError(told, { code: code === 'not_found' ? code : undefined });
  return Object.hasOwn(ERROR_KINDS, code) ? new ServiceError(code as ErrorCode, told) : refusal;
}
