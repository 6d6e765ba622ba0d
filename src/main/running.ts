import type { Logger } from 'pino';
import type { Config } from '../config/config.ts';
import type { LiveConfig } from '../config/reload.ts';
import type { HttpServer } from '../http/server.ts';
import type { Supervision } from '../watch/supervision.ts';

/** A process that serves the API, from before any of its parts is open. */
export interface Program {
  config: Config;
  live: LiveConfig;
  logger: Logger;
  onFatal(error: unknown): void;
  supervision: Supervision;
  /** Resolves with the signal that requests a stop. */
  stopped: Promise<NodeJS.Signals>;
  /** Aborts at the same time. */
  stopping: AbortSignal;
  /** The open parts, closed in the reverse order. */
  parts: AsyncDisposableStack;
  /** Adds a part to those that are closed at the end. */
  own<Part extends { close(): void | Promise<void> }>(part: Part): Part;
}

/** A program that listens. */
export interface Running {
  server: HttpServer;
  /** The name of the hash engine. */
  engine: string;
  /** The number of jobs waiting to be sealed. */
  waiting(): number;
  /** Called when no request is in progress any more, before the parts are closed. */
  onDrained?(): Promise<void>;
}
