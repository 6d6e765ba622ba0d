import type { Logger } from 'pino';
import { inheritedSockets } from '../base/env.ts';
import type { Config } from '../config.ts';
import type { App } from '../http/app.ts';
import { type HttpServer, listen } from '../http/server.ts';
import { TlsCertificates } from '../net/tls.ts';

/** Has the app listen where the configuration says, or on the sockets of the service manager where it brings some. */
export async function openNetwork(
  app: App,
  config: Config,
  { logger, parts }: { logger: Logger; parts: AsyncDisposableStack },
): Promise<HttpServer> {
  const { http } = config;
  const inherited = inheritedSockets();
  const tls = http.tls && openTls(new TlsCertificates(http.tls, logger), parts);
  return listen(app, {
    listen: inherited.length > 0 ? inherited : http.listen,
    ...(tls && { tls }),
    clearTextBeyondLoopback: http.clearTextBeyondLoopback,
    headerTimeoutMs: http.headerTimeoutMs,
    silenceMsMax: silenceMsMax(config),
    logger,
  });
}

function openTls(tls: TlsCertificates, parts: AsyncDisposableStack): TlsCertificates {
  parts.defer(() => tls.close());
  process.on('SIGHUP', () => tls.reload());
  return tls;
}

/** How long a connection may be still while we have it wait: for the verdict on its document, then for the receipt. */
function silenceMsMax({ blocking, http, scan }: Config): number {
  const scanMs = scan.clamd === undefined ? 0 : scan.timeoutMs;
  return 2 * Math.max(blocking.timeoutMs, http.bodyIdleTimeoutMs, scanMs);
}
