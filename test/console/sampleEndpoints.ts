/** Webhook endpoints of a test console, with messages. */
import type { NewEndpoint } from '../../src/store/webhookStore.ts';
import { sampleEndpoint } from '../store/samples.ts';
import type { TestConsole } from './testConsole.ts';

export const EVERY = { limit: 1000 };
const FAILURE = { at: Date.UTC(2026, 10, 23, 12), reason: 'http_503' };

/** An endpoint with so many messages that wait, and so many that were given up. */
export async function addEndpoint(
  { store }: TestConsole,
  { dead = 0, waiting = 0, ...fields }: Partial<NewEndpoint> & { dead?: number; waiting?: number } = {},
): Promise<NewEndpoint> {
  const endpoint = sampleEndpoint(fields);
  const { endpoints, outbox } = store.webhooks;
  await endpoints.add(endpoint, 16, null);
  for (let n = 0; n < dead; n += 1) await outbox.test(endpoint.id);
  for (const one of await outbox.pending(endpoint.id, EVERY))
    await outbox.settle(one, { kind: 'dead', failure: FAILURE });
  for (let n = 0; n < waiting; n += 1) await outbox.test(endpoint.id);
  return endpoint;
}
