import type { RequestListener } from 'node:http';
import { Router } from '@koa/router';
import Koa from 'koa';
import type { Logger } from 'pino';
import { type Clock, toRfc3339 } from '../base/clock.ts';
import { ServiceError } from '../base/errors.ts';
import { Slots } from '../base/slots.ts';
import { parseDurationMs } from '../base/units.ts';
import { presentRun } from '../health/sections/canarySection.ts';
import type { StatusReader } from '../health/statusReader.ts';
import { refuseUnrouted } from '../http/app.ts';
import { type AuthOptions, requireKey } from '../http/authentication.ts';
import { serveErrorIndex, serveErrorPage } from '../http/errorPages.ts';
import { type AnswerOptions, answerErrors } from '../http/errorResponses.ts';
import { unknownParameter } from '../http/listQuery.ts';
import { observe } from '../http/observe.ts';
import { serveDescription } from '../http/openapiParts.ts';
import { linger, readWhole } from '../http/requestBody.ts';
import {
  answerJson,
  type Middleware,
  type RequestContext,
  type RequestState,
} from '../http/requestContext.ts';
import { invalidField } from '../job/fieldValues.ts';
import { parseCount } from '../log/checkpoint.ts';
import type { ActObject, Actor } from '../manifest/auditRecord.ts';
import type { Timestamping } from '../seal/timestamping.ts';
import { onRecord } from '../store/acts.ts';
import type { TrailStore } from '../store/trail.ts';
import type { Canary } from '../watch/canary.ts';
import type { Carrying } from '../watch/carrying.ts';
import { isLoopback } from '../web/address.ts';
import { presentOutcome, presentRequest } from './carriedSchema.ts';
import { type ConsoleDoor, personName, personOf } from './consoleLink.ts';
import type { Drills } from './drills.ts';
import { METRICS_TYPE, type Metrics } from './metrics.ts';
import { describeAdministration } from './openapi.ts';
import { peerOf } from './peer.ts';
import { renewalStamp } from './renewalStamp.ts';

export interface AdminParts {
  status: Pick<StatusReader, 'read' | 'quotas'>;
  metrics: Pick<Metrics, 'text'>;
  /** Absent in a front. */
  canary: Pick<Canary, 'run'> | undefined;
  drills: Drills | undefined;
  /** Undefined where the configuration names no policy of witnesses. */
  carrying: Pick<Carrying, 'request' | 'accept'> | undefined;
  /** Undefined where receipts carry no time-stamp. */
  timestamping: Pick<Timestamping, 'renew' | 'status' | 'acceptDate'> | undefined;
  /** The sessions of the console. Undefined where none is configured. */
  console: ConsoleDoor | undefined;
  /** Records who requested a cosignature, and who handed in an answer. */
  trail: Pick<TrailStore, 'append'>;
  auth: AuthOptions;
  /** Whether every user of the machine can connect, as on an address; a socket admits only the users who can open it. */
  forAnyone: boolean;
  clock: Clock;
  logger: Logger;
  onFatal: AnswerOptions['onFatal'];
}

/** How long a partition is out of service by default, and at most. */
const OUT_MS = 30_000;
const OUT_MS_MAX = 3_600_000;

/** One run needs one time-stamp of each authority, one after the other. */
const STAMPS_MAX = 4;

/** As long as the answer of a witness on the network. */
const WITNESS_ANSWER = { what: 'The answer of a witness', bytesMax: 64 * 1024, timeoutMs: 10_000 };

/** The administration as a request listener; docs/operate/health.md lists its routes. */
export function createAdminApp(parts: AdminParts): RequestListener {
  const { logger } = parts;
  const router = routesOf(parts);
  const koa = new Koa<RequestState>();
  koa.on('error', (error) => logger.debug({ err: error }, 'a caller of the administration went away'));
  // Not at level info, because probes and scrapes come every few seconds.
  const line = (fields: object) => logger.debug(fields, 'request');
  koa.use(observe({ write: line, writeStranger: line }));
  koa.use(linger);
  koa.use(answerErrors(parts));
  if (parts.forAnyone) koa.use(refuseOtherHosts);
  koa.use(router.routes());
  koa.use(refuseUnrouted(router, 'See /openapi.json.'));
  return koa.callback();
}

function routesOf(parts: AdminParts): Router<RequestState> {
  const { status, metrics, canary, drills, trail, clock, forAnyone } = parts;
  const mayRead = readersOf(parts);
  const mayChange = requireIdentity(parts);
  const stamps = new Slots({ of: 'time-stamps', max: STAMPS_MAX });
  const router = new Router<RequestState>({ sensitive: true, strict: true });
  router.get('/healthz', (ctx) => answerJson(ctx, 200, { alive: true }));
  router.get('/readyz', async (ctx) => {
    const { ready, parts } = await status.read();
    // Load balancers have no key, and look only at the HTTP status.
    const isTold = !forAnyone || ctx.headers.authorization !== undefined;
    const answerIt = async () => answerJson(ctx, ready ? 200 : 503, { ready, parts: isTold ? parts : [] });
    await (isTold ? mayRead(ctx, answerIt) : answerIt());
  });
  router.get('/status', mayRead, async (ctx) => answerJson(ctx, 200, await status.read()));
  router.get('/quotas', mayRead, (ctx) => answerJson(ctx, 200, status.quotas()));
  router.get('/metrics', mayRead, async (ctx) => {
    ctx.type = METRICS_TYPE;
    ctx.body = await metrics.text(await status.read());
  });
  router.post('/canary', mayChange, async (ctx) => {
    queryOf(ctx, []);
    answerJson(ctx, 200, presentRun(await existing(canary, IS_FRONT).run(), clock()));
  });
  router.post('/partitions/:name/out', mayChange, async (ctx) => {
    const name = ctx.params.name ?? '';
    const out = await existing(drills, IS_FRONT).takeOut(name, withdrawalOf(ctx), actorOf(ctx));
    answerJson(ctx, 200, await partitionOf(out));
  });
  router.post('/partitions/:name/in', mayChange, async (ctx) => {
    queryOf(ctx, []);
    const back = await existing(drills, IS_FRONT).putBack(ctx.params.name ?? '', actorOf(ctx));
    answerJson(ctx, 200, await partitionOf(back));
  });
  router.post('/witness/request', mayChange, async (ctx) => {
    const { witness, tree_size: size } = queryOf(ctx, ['witness', 'tree_size']);
    const treeSize = size === undefined ? undefined : parseCount(size);
    if (size !== undefined && treeSize === undefined)
      throw invalidField('tree_size', 'must be a number of leaves.');
    const carrying = existing(parts.carrying, NO_WITNESS);
    const object = carriedObject(witness, treeSize === undefined ? {} : { tree_size: treeSize });
    const found = await onRecord(
      trail,
      { act: 'witness.request', actor: actorOf(ctx), object, outcome: 'done' },
      async () => presentRequest(await carrying.request(witness, treeSize)),
      ({ witness, tree_size }) => ({ witness, tree_size }),
    );
    answerJson(ctx, 200, found);
  });
  router.post('/witness/answer', mayChange, async (ctx) => {
    const { witness, raise_fork_alarm: raise } = queryOf(ctx, ['witness', 'raise_fork_alarm']);
    const raisesAlarm = booleanOf('raise_fork_alarm', raise);
    const text = (await readWhole(ctx, WITNESS_ANSWER)).toString();
    const carrying = existing(parts.carrying, NO_WITNESS);
    const object = carriedObject(witness, { raise_fork_alarm: raisesAlarm });
    const found = await onRecord(
      trail,
      { act: 'witness.accept', actor: actorOf(ctx), object, outcome: 'done' },
      async () => presentOutcome(await carrying.accept(text, witness, raisesAlarm)),
      ({ witness, outcome, tree_size: size }) => {
        return { witness, answer: outcome, tree_size: size };
      },
    );
    answerJson(ctx, 200, found);
  });
  router.post('/clock/accept', mayChange, async (ctx) => {
    queryOf(ctx, []);
    const timestamping = existing(parts.timestamping, NO_TIMESTAMPS);
    const accepted = await onRecord(
      trail,
      { act: 'clock.accept', actor: actorOf(ctx), object: {}, outcome: 'done' },
      async () => {
        const { from, to } = timestamping.acceptDate();
        return { from: toRfc3339(from), to: toRfc3339(to) };
      },
      (dates) => dates,
    );
    answerJson(ctx, 200, accepted);
  });
  router.post('/timestamp', mayChange, async (ctx) => {
    const leave = stamps.take(callerName(ctx));
    try {
      answerJson(ctx, 200, await renewalStamp(parts, queryOf(ctx, ['algorithm', 'digest', 'authority'])));
    } finally {
      leave();
    }
  });
  router.post('/console/link', ownersOnly, async (ctx) => {
    const { name, role } = queryOf(ctx, ['name', 'role']);
    const door = existing(parts.console, NO_CONSOLE);
    const person = personOf(name, role);
    await trail.append({
      act: 'console.invite',
      actor: actorOf(ctx),
      object: { ...person },
      outcome: 'done',
    });
    answerJson(ctx, 200, { link: door.invite(person), ...person });
  });
  router.post('/console/logout', ownersOnly, async (ctx) => {
    const { name: given } = queryOf(ctx, ['name']);
    const door = existing(parts.console, NO_CONSOLE);
    const name = given === undefined ? undefined : personName(given);
    const sessions = door.endAll(name);
    const act = name === undefined ? 'console.logout_all' : 'console.logout';
    const object = { name, sessions };
    await trail.append({ act, actor: actorOf(ctx), object, outcome: 'done' });
    answerJson(ctx, 200, { sessions });
  });
  router.get('/openapi.json', serveDescription(describeAdministration, 'no-cache'));
  router.get('/v1/errors', serveErrorIndex);
  router.get('/v1/errors/:code', serveErrorPage);
  return router;

  async function partitionOf(name: string) {
    const { partitions } = await status.read();
    return partitions.members.find((member) => member.name === name);
  }
}

const IS_FRONT = 'This is a front, which seals nothing. Ask the daemon that seals.';
const NO_WITNESS = 'No witness is configured: name their policy in witness.policy.';
const NO_TIMESTAMPS =
  'The clock is checked only if receipts carry time-stamps, by the daemon that seals. See timestamp.authorities.';
const NO_CONSOLE = 'No console is configured: add the table [console], and restart the daemon.';

/** Throws ServiceError, which says why, for a part that this daemon does not have. */
function existing<Part>(part: Part | undefined, otherwise: string): Part {
  if (part !== undefined) return part;
  throw new ServiceError('not_found', otherwise);
}

/** The asking client, by which shares are divided. */
function callerName(ctx: RequestContext): string {
  const { key, uid } = actorOf(ctx);
  return key ?? `uid ${uid}`;
}

/** On a Unix socket, every user who can open it may read. */
function readersOf({ forAnyone, auth }: AdminParts): Middleware {
  return forAnyone ? requireKey(auth, 'admin:read') : (_ctx, next) => next();
}

/** Every change is recorded with its author: the user of the socket as the kernel reports it, or an API key. */
function requireIdentity({ auth }: AdminParts): Middleware {
  const byKey = requireKey(auth, 'admin');
  return (ctx, next) => (peerOf(ctx.req.socket)?.uid === undefined ? byKey(ctx, next) : next());
}

/** Whoever opens the console may do more there than the scope admin allows, so no API key does, nor a member of the socket's group. */
const ownersOnly: Middleware = (ctx, next) => {
  const { uid } = peerOf(ctx.req.socket) ?? {};
  if (uid === 0 || (uid !== undefined && uid === process.geteuid?.())) return next();
  throw new ServiceError(
    'insufficient_scope',
    'Only root and the user of the daemon can create links to the console, and end its sessions.',
  );
};

/**
 * Stops a web page in a browser on this machine, which reaches this address under a name that resolves to loopback: Host is that name.
 */
const refuseOtherHosts: Middleware = (ctx, next) => {
  const host = URL.parse(`http://${ctx.req.headers.host}`)?.hostname.replaceAll(/[[\]]/g, '');
  if (host !== undefined && (host === 'localhost' || isLoopback(host))) return next();
  throw new ServiceError(
    'invalid_request',
    'The header Host must name a loopback address or localhost, as admin.listen does.',
  );
};

/** The actor of the audit record: the API key or, on a Unix socket, the peer that the kernel reports. */
function actorOf({ state: { caller }, req }: RequestContext): Actor {
  if (caller === undefined) return { via: 'administration', ...peerOf(req.socket) };
  return { via: 'administration', client: caller.viewer.clientId, key: caller.keyId };
}

function withdrawalOf(ctx: RequestContext): { forMs: number; belowQuorum: boolean } {
  const query = queryOf(ctx, ['for', 'below_quorum']);
  const { for: duration, below_quorum: belowQuorum } = query;
  const forMs = duration === undefined ? OUT_MS : parseDurationMs(duration);
  if (forMs === undefined || forMs < 1 || forMs > OUT_MS_MAX) {
    throw invalidField('for', 'must be a duration of at most 1h, such as 30s.');
  }
  return { forMs, belowQuorum: booleanOf('below_quorum', belowQuorum) };
}

function booleanOf(parameter: string, value = 'false'): boolean {
  if (value === 'true' || value === 'false') return value === 'true';
  throw invalidField(parameter, 'must be true or false.');
}

/** The object of an audit record. Any text can be given as the name of a witness. */
function carriedObject(witness: string | undefined, more: ActObject): ActObject {
  return { ...(witness !== undefined && { witness: witness.slice(0, 80) }), ...more };
}

/** The query; each parameter can occur once. Throws ServiceError for unknown parameters. */
function queryOf<Name extends string>(ctx: RequestContext, names: Name[]): Partial<Record<Name, string>> {
  const values: Partial<Record<Name, string>> = {};
  for (const [given, value] of new URLSearchParams(ctx.querystring)) {
    const name = names.find((known) => known === given);
    if (name === undefined) throw unknownParameter(given, ' here.');
    if (values[name] !== undefined) {
      throw new ServiceError('duplicate_parameter', `${name} was sent more than once.`, { parameter: name });
    }
    values[name] = value;
  }
  return values;
}
