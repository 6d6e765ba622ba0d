import type { Logger } from 'pino';
import type { Canary } from '../canary.ts';
import type { AnswerOptions } from '../http/answer.ts';
import type { AuthOptions } from '../http/auth.ts';
import type { ListenAddress } from '../net/address.ts';
import type { Signing } from '../signing.ts';
import { createAdminApp } from './app.ts';
import { Drills } from './drills.ts';
import { type AdminListener, openAdminListener } from './listener.ts';
import type { Metrics } from './metrics.ts';
import { StatusReader, type StatusSources } from './statusReader.ts';

export interface AdministrationOptions {
  listen: ListenAddress;
  status: Omit<StatusSources, 'drills' | 'partitions' | 'canary'>;
  partitions: Signing;
  canary: Canary;
  metrics: Metrics;
  /** Asked for on an address that any user of the machine can reach. */
  auth: AuthOptions;
  logger: Logger;
  onFatal: AnswerOptions['onFatal'];
}

/** Puts the administration together and listens. Throws OperatorError when the address cannot be used. */
export async function openAdministration(options: AdministrationOptions): Promise<AdminListener> {
  const { listen, partitions, canary, metrics, auth, logger, onFatal } = options;
  const { clock } = options.status;
  const drills = new Drills({ partitions, trail: options.status.store.trail, clock, logger, onFatal });
  const status = new StatusReader({ ...options.status, partitions, canary, drills });
  const isForAnyone = !('path' in listen);
  const app = createAdminApp({
    status,
    metrics,
    canary,
    drills,
    auth: isForAnyone ? auth : undefined,
    clock,
    logger,
    onFatal,
  });
  const listener = await openAdminListener(app, listen, logger);
  return {
    async close() {
      drills.close();
      status.close();
      await listener.close();
    },
  };
}
