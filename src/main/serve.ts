import type { Logger } from 'pino';
import { systemClock } from '../base/clock.ts';
import { EXIT_SOFTWARE, stopSignal } from '../base/ending.ts';
import { fromEnvironment, watchdogMs } from '../base/env.ts';
import { waitForLock } from '../base/lock.ts';
import { createLogger } from '../base/logger.ts';
import { packageVersion } from '../base/package.ts';
import { loadConfig } from '../config/config.ts';
import { LiveConfig } from '../config/reload.ts';
import { QuietCollector } from '../watch/quietCollector.ts';
import { Supervision } from '../watch/supervision.ts';
import { formatAddress } from '../web/address.ts';
import { openDaemon } from './daemon.ts';
import { openFront } from './front.ts';
import type { Program, Running } from './running.ts';

/** A command that changes the store while no daemon runs holds the lock for about a second. */
const COMMAND_MS_MAX = 5_000;
/** How long the parts may take to close after the drain. Then the process ends regardless: everything acknowledged is durable. */
const CLOSE_MS_MAX = 10_000;

/** Opens a daemon or a front, serves until a signal arrives, and closes all parts in reverse order. `file`: the configuration. */
export async function serve(file: string): Promise<void> {
  const config = loadConfig(file);
  const logger = createLogger(config.logging.level);
  const onFatal = (error: unknown) => endAtOnce(logger, error);
  process.on('uncaughtException', onFatal);
  process.on('unhandledRejection', onFatal);
  for (const name of config.formerNames) logger.warn(name);
  const stop = new AbortController();
  const stopped = stopSignal().then((signal) => {
    stop.abort();
    return signal;
  });
  const live = new LiveConfig(config, systemClock, logger);
  process.on('SIGHUP', () => live.reload().catch(onFatal));

  await using parts = new AsyncDisposableStack();
  const own: Program['own'] = (part) => parts.adopt(part, (open) => open.close());
  const lock = await waitForLock(config.lockFile, {
    waitMs: COMMAND_MS_MAX,
    signal: stop.signal,
    onWait: ({ holder }) =>
      logger.info({ event: 'waiting', holder }, `waits for process ${holder}, which has the state folder`),
  });
  if (lock === undefined) return logger.info({ event: 'stopped' }, 'stopped');
  parts.use(lock).watch(onFatal);
  let running: Running | undefined;
  const supervision = own(
    new Supervision({
      socket: fromEnvironment('NOTIFY_SOCKET'),
      watchdogMs: watchdogMs(),
      status: () => `${running?.waiting() ?? 0} jobs wait`,
      logger,
    }),
  );
  own(new QuietCollector());
  const stopping = stop.signal;
  const program = { config, live, logger, onFatal, supervision, stopped, stopping, parts, own };
  running = await (config.isFront ? openFront(program) : openDaemon(program));
  if (running !== undefined) await runUntilStopped(running, program);
  await parts.disposeAsync();
  logger.info({ event: 'stopped' }, 'stopped');
}

/** Everything acknowledged is on disk, so after a broken invariant the process can end and be restarted. */
function endAtOnce(logger: Logger, err: unknown): void {
  logger.fatal({ event: 'cannot_go_on', err }, 'pdfseald cannot continue');
  process.exit(EXIT_SOFTWARE);
}

/** Serves until a signal arrives, and resolves once no request is in progress. */
async function runUntilStopped(
  { server, engine, waiting, onDrained }: Running,
  { config, supervision, stopped, logger, onFatal }: Program,
): Promise<void> {
  logger.info(
    {
      event: 'started',
      version: packageVersion(),
      environment: config.environment,
      addresses: server.addresses.map(formatAddress),
      hash_engine: engine,
    },
    'listening',
  );
  supervision.ready();
  logger.info({ event: 'stopping', signal: await stopped, waiting: waiting() }, 'stopping');
  setTimeout(
    () => onFatal(new Error('the stop took too long')),
    config.drainTimeoutMs + CLOSE_MS_MAX,
  ).unref();
  supervision.stopping();
  await server.drain(config.drainTimeoutMs);
  await onDrained?.();
}
