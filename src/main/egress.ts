/**
 * The egress process: sends the daemon's requests to other machines, as far as its own configuration file permits.
 *
 * A compromised daemon can use it only to: fetch from the targets of `sources.allow`, with any path; post any bytes to the targets of
 * `webhooks.allow`, because clients register their endpoints at the daemon; post any bytes to the exact URLs of the configured authorities
 * and witnesses. It cannot choose an address, because each connection looks up the name and checks the address itself; nor a certificate
 * authority; nor a header that directs a request elsewhere; and it cannot use one purpose's share for another.
 */
import '../base/inspector.ts';
import { existsSync, readFileSync, rmdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { parseArgs } from 'node:util';
import { stopSignal } from '../base/ending.ts';
import { fromEnvironment, inheritedSockets, watchdogMs } from '../base/env.ts';
import { OperatorError } from '../base/errors.ts';
import { createLogger, endRefused } from '../base/logger.ts';
import { packageVersion } from '../base/package.ts';
import { type Config, loadConfig, parseConfig } from '../config/config.ts';
import { Supervision } from '../watch/supervision.ts';
import { openEgressServer } from '../web/egressServer.ts';
import { destinationsOf } from './destinations.ts';

const USAGE = 'usage: egress --config FILE [--listen SOCKET]\n';

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: { config: { type: 'string' }, listen: { type: 'string' }, help: { type: 'boolean' } },
  });
  if (values.help) return void process.stdout.write(USAGE);
  const listen = inheritedSockets()[0] ?? (values.listen === undefined ? undefined : { path: values.listen });
  if (values.config === undefined || listen === undefined) throw new OperatorError(USAGE);
  const isChild = process.send !== undefined;
  const stopped = endOf(isChild);
  const config = readConfig(values.config);
  const logger = createLogger(config.logging.level).child({ process: 'egress' });
  const destinations = destinationsOf(config);
  const about = { version: packageVersion(), configSha256: config.sha256 };
  const server = await openEgressServer({ listen, destinations, about, logger });
  // For a child, the daemon logs this.
  const say = isChild ? 'debug' : 'info';
  logger[say]({ event: 'started', purposes: [...destinations.keys()] }, 'the egress process answers');
  process.send?.('listening');
  const supervision = new Supervision({
    socket: fromEnvironment('NOTIFY_SOCKET'),
    watchdogMs: watchdogMs(),
    status: () => 'sends for the daemon',
    logger,
  });
  supervision.ready();
  await stopped;
  supervision.stopping();
  await server.close();
  if (values.listen !== undefined) removeFolderOf(values.listen);
  logger[say]({ event: 'stopped' }, 'the egress process has stopped');
  process.exit();
}

/** As a child of the daemon, it ends with the daemon, for whatever reason that ends; signals from a terminal go to the whole group. */
function endOf(isChild: boolean): Promise<unknown> {
  if (!isChild) return stopSignal();
  for (const signal of ['SIGINT', 'SIGHUP'] as const) process.on(signal, () => {});
  return new Promise((resolve) => {
    process.once('disconnect', resolve);
    process.once('SIGTERM', resolve);
  });
}

/** The daemon created the folder for this socket only. */
function removeFolderOf(socket: string): void {
  try {
    rmdirSync(dirname(socket));
  } catch {
    // It contains something else, or the daemon has removed it.
  }
}

/** As a separate unit, it may read the copy passed by systemd; relative paths begin at the original file. Throws OperatorError. */
function readConfig(file: string): Config {
  const folder = fromEnvironment('CREDENTIALS_DIRECTORY');
  const copy = folder === undefined ? file : join(folder, 'config');
  return existsSync(copy)
    ? parseConfig(readFileSync(copy, 'utf8'), file)
    : loadConfig(file, { files: 'unused' });
}

main().catch((error: unknown) => endRefused('pdfseal-egress', error));
