import type { Logger } from 'pino';
import { inheritedSockets } from '../base/env.ts';
import type { Config } from '../config/config.ts';
import { stripAnswerMsMax } from '../copy/copies.ts';
import type { App } from '../http/app.ts';
import { type HttpServer, listen } from '../http/server.ts';
import { TlsCertificates } from '../net/tls.ts';

/** The certificates of the API; undefined where the API does not use TLS. */
export function openTlsOf(
  { http }: Config,
  logger: Logger,
  parts: AsyncDisposableStack,
): TlsCertificates | undefined {
  if (http.tls === undefined) return undefined;
  const tls = new TlsCertificates(http.tls, logger);
  parts.defer(() => tls.close());
  process.on('SIGHUP', () => tls.reload());
  return tls;
}

/** Listens where the configuration says, or on the sockets that the service manager passed. */
export async function openNetwork(
  app: App,
  config: Config,
  { logger, tls }: { logger: Logger; tls: TlsCertificates | undefined },
): Promise<HttpServer> {
  const { http } = config;
  const inherited = inheritedSockets();
  return listen(app, {
    listen: inherited.length > 0 ? inherited : http.listen,
    ...(tls && { tls }),
    clearTextBeyondLoopback: http.clearTextBeyondLoopback,
    headerTimeoutMs: http.headerTimeoutMs,
    silenceMsMax: silenceMsMax(config),
    logger,
  });
}

/** How long a connection may be silent while its caller waits for the virus scan, for the copy without metadata, and for the receipt. */
function silenceMsMax({ blocking, http, scan, complianceMode, limits }: Config): number {
  const scanMs = scan.clamd === undefined ? 0 : scan.timeoutMs;
  const stripMs = complianceMode ? stripAnswerMsMax(limits.documentBytesMax) : 0;
  return 2 * Math.max(blocking.timeoutMs, http.bodyIdleTimeoutMs, scanMs) + stripMs;
}
