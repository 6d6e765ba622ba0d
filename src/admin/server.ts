import type { RequestListener } from 'node:http';
import type { Logger } from 'pino';
import { systemClock } from '../base/clock.ts';
import { StatusReader, type StatusSources } from '../health/statusReader.ts';
import type { AnswerOptions } from '../http/errorResponses.ts';
import { RequestLog } from '../http/requestLog.ts';
import { refusingWith } from '../http/transport.ts';
import type { Drills } from '../ops/drills.ts';
import type { ConsoleDoor } from '../ops/operationParts.ts';
import type { Signing } from '../seal/signing.ts';
import type { Canary } from '../watch/canary.ts';
import type { Carrying } from '../watch/carrying.ts';
import type { ListenAddress } from '../web/address.ts';
import { openServer, type WebServer } from '../web/server.ts';
import type { Metrics } from './metrics.ts';
import { type AdminParts, createAdminApp } from './routes.ts';

interface AdministrationOptions extends StatusSources {
  store: AdminParts['store'];
  /** Undefined in a front. */
  signing: { partitions: Signing; canary: Canary; drills: Drills } | undefined;
  metrics: Metrics;
  carrying?: Carrying | undefined;
  console?: ConsoleDoor | undefined;
  logger: Logger;
  onFatal: AnswerOptions['onFatal'];
}

const HEAD_MS_MAX = 5_000;
const REQUEST_MS_MAX = 120_000;
const CONNECTIONS_MAX = 256;

const ADMIN_SCOPES: readonly string[] = ['admin:read', 'admin'];

/** Builds the administration and starts to listen. Throws OperatorError if the address is not available. */
export async function openAdministration(
  options: AdministrationOptions,
): Promise<{ readonly status: StatusReader; close(): Promise<void> }> {
  const { live, store, signing, timestamping, carrying, console, time, logger } = options;
  const { admin: listen, environment } = live.current;
  const status = new StatusReader(options);
  const parts = {
    ...options,
    ...{ status, timestamping, carrying, console, canary: signing?.canary, drills: signing?.drills },
    clock: systemClock,
    config: () => live.current,
    // The API keys that count where the kernel does not report the user.
    auth: { store, environment, organizations: () => live.current.organizations, clock: time.date },
  };
  const open = (forAnyone: boolean, at: ListenAddress) =>
    openAdminListener(createAdminApp({ ...parts, forAnyone }), at, logger);
  await using opened = new AsyncDisposableStack();
  opened.adopt(await open(false, listen.socket), (listener) => listener.close());
  if (listen.port !== undefined) {
    opened.adopt(await open(true, listen.port), (listener) => listener.close());
    await warnOfNoReader(options);
  }
  opened.defer(() => status.close());
  const all = opened.move();
  return { status, close: () => all.disposeAsync() };
}

/** Otherwise nobody notices why a scraper without a key reads nothing. */
async function warnOfNoReader({ store, logger }: AdministrationOptions): Promise<void> {
  const credentials = await store.credentials.all();
  if (credentials.some(({ scopes }) => scopes.some((scope) => ADMIN_SCOPES.includes(scope)))) return;
  logger.warn(
    'no API key has the scope admin:read, which reading /metrics and /status requires, because any user of this machine can reach the address in admin.listen',
  );
}

/** Serves the administration at its address. Throws OperatorError if the address is taken, or if other users could replace the socket. */
export function openAdminListener(
  handle: RequestListener,
  address: ListenAddress,
  logger: Logger,
): Promise<WebServer> {
  return openServer({
    at: address,
    key: 'admin.listen',
    headMsMax: HEAD_MS_MAX,
    requestMsMax: REQUEST_MS_MAX,
    connectionsMax: CONNECTIONS_MAX,
    handle,
    refuse: refusingWith(new RequestLog(logger)),
    logger,
  });
}
