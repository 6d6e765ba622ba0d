import type { Logger } from 'pino';
import { packageVersion } from '../base/package.ts';
import type { Config } from '../config/config.ts';
import type { HttpServer } from '../http/server.ts';
import type { Supervision } from '../watch/supervision.ts';
import { formatAddress } from '../web/address.ts';

/** A daemon that listens. */
export interface Running {
  server: HttpServer;
  /** The name of the hash engine. */
  engine: string;
  /** The number of jobs waiting to be sealed. */
  waiting(): number;
}

export interface RunOptions {
  config: Config;
  supervision: Pick<Supervision, 'ready' | 'stopping'>;
  stopped: Promise<NodeJS.Signals>;
  logger: Logger;
  onFatal(error: unknown): void;
}

/** How long the parts may take to close after the drain. Then the process ends regardless: everything acknowledged is durable. */
const CLOSE_MS_MAX = 10_000;

/** Serves until a signal arrives, and resolves once no request is in progress. */
export async function runUntilStopped(
  { server, engine, waiting }: Running,
  { config, supervision, stopped, logger, onFatal }: RunOptions,
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
}
