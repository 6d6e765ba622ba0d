import { setTimeout as sleep } from 'node:timers/promises';
import { toRfc3339 } from '../../base/clock.ts';
import { OperatorError } from '../../base/errors.ts';
import type { Config } from '../../config/config.ts';
import { lockHolder } from '../../store/lock.ts';
import type { Store } from '../../store/store.ts';
import type { Delivery } from '../../store/webhookStore.ts';
import { withStore } from '../options.ts';
import { note, print, printJson } from '../terminal.ts';
import { findEndpoint } from './webhookEndpoint.ts';

/** How long a test message is waited for: longer than an attempt may take. */
const TEST_MS_MAX = 20_000;
const TEST_LOOK_MS = 200;

/** Has a message of type `webhook.test` sent, and waits for its first attempt. Throws OperatorError unless it was a success. */
export async function testWebhook(
  id: string,
  { config, json }: { config: string; json?: true },
): Promise<void> {
  await withStore(config, 'write', async (store, { webhooks, lockFile }) => {
    await requireTestable(store, id, lockFile);
    const webhookId = (await store.webhooks.outbox.test(id)) ?? '';
    if (!json) print(webhookId);
    const reason = await outcomeOf(store, id, webhookId, webhooks);
    if (json)
      printJson({ id, webhook_id: webhookId, delivered: reason === undefined, reason: reason ?? null });
    if (reason !== undefined) throw new OperatorError(`${id} was not told: ${reason}`);
    if (!json) note(`${id} was told`);
  });
}

/** Throws OperatorError where no message would be sent, however long anybody waits for it. */
async function requireTestable(store: Store, id: string, lockFile: string): Promise<void> {
  const { disabled } = await findEndpoint(store, id);
  if (disabled !== undefined) {
    const why = disabled.reason === 'gone' ? 'it answered 410' : 'on request';
    throw new OperatorError(
      `${id} is disabled since ${toRfc3339(disabled.at)} (${why}): nothing is sent to it`,
      {
        remedy: `pdfseal webhooks enable ${id}`,
      },
    );
  }
  if (lockHolder(lockFile) === undefined)
    throw new OperatorError('no pdfseald runs that would send it', { code: 'no_daemon' });
}

/** Waits for the first attempt; undefined when that was a success, otherwise why it was none. */
async function outcomeOf(
  store: Store,
  endpointId: string,
  webhookId: string,
  { backlogMax }: Config['webhooks'],
): Promise<string | undefined> {
  const everything = { limit: 2 * backlogMax };
  const isIt = (one: Delivery) => one.webhookId === webhookId;
  const giveUpAt = performance.now() + TEST_MS_MAX;
  while (performance.now() < giveUpAt) {
    await sleep(TEST_LOOK_MS);
    const waiting = (await store.webhooks.outbox.pending(endpointId, everything)).find(isIt);
    if (waiting?.attempts === 0) continue;
    const dead = waiting ?? (await store.webhooks.outbox.deadLetters(endpointId, everything)).find(isIt);
    return dead?.failure?.reason;
  }
  return 'it still waits: others are due before it, or earlier ones failed (`pdfseal webhooks show`)';
}
