import { ServiceError } from '../base/errors.ts';
import type { Middleware } from './requestContext.ts';

const CHANGES = /^\/(?:webhook-endpoints|keys)/;

/** Whether a front lacks the operations at this path: webhook endpoints with their secrets, and API keys. */
export function isElsewhere(path: string): boolean {
  return CHANGES.test(path);
}

export const refuseAtFront: Middleware = () => {
  throw new ServiceError(
    'not_found',
    'Webhook endpoints and API keys are not managed at this address. Ask the administrator of this service for the one where they are.',
  );
};
