import { OperatorError } from '../../base/errors.ts';
import type { Store } from '../../store/store.ts';
import type { WebhookEndpoint } from '../../store/webhookStore.ts';

/** Throws OperatorError `not_found`. */
export async function findEndpoint(store: Pick<Store, 'webhooks'>, id: string): Promise<WebhookEndpoint> {
  const endpoint = await store.webhooks.endpoints.get(id);
  if (endpoint === undefined) throw noEndpoint(id);
  return endpoint;
}

export function noEndpoint(id: string): OperatorError {
  return new OperatorError(`there is no webhook endpoint ${id}; see \`pdfseal webhooks list\``, {
    code: 'not_found',
  });
}
