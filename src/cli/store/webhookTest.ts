import { setTimeout as sleep } from 'node:timers/promises';
import { toRfc3339 } from '../../base/clock.ts';
import { OperatorError } from '../../base/errors.ts';
import { lockHolder } from '../../base/lock.ts';
import type { Config } from '../../config/config.ts';
import type { Store } from '../../store/store.ts';
import type { Delivery } from '../../store/webhookStore.ts';
import { findEndpoint } from '../../webhook/endpointActs.ts';
import { isJson, note, print, printJson } from '../terminal.ts';
import { withStore } from '../withStore.ts';

/** Time limit for a test message: longer than an attempt may take. */
const TEST_MS_MAX = 20_000;
const TEST_LOOK_MS = 200;

/** Queues a message of type `webhook.test`, and waits for its first attempt. Throws OperatorError if the attempt fails. */
export async function testWebhook(config: string, id: string): Promise<void> {
  await withStore(config, 'write', async (store, { webhooks, lockFile }) => {
    await requireTestable(store, id, lockFile);
    const webhookId = (await store.webhooks.outbox.test(id)) ?? '';
    if (!isJson()) print(webhookId);
    const reason = await outcomeOf(store, id, webhookId, webhooks);
    if (isJson())
      printJson({ id, webhook_id: webhookId, delivered: reason === undefined, reason: reason ?? null });
    if (reason !== undefined) throw new OperatorError(`the test message to ${id} failed: ${reason}`);
    if (!isJson()) note(`${id} received the test message`);
  });
}

/** Throws OperatorError if no message would ever be sent. */
async function requireTestable(store: Store, id: string, lockFile: string): Promise<void> {
  const { disabled } = await findEndpoint(store, id);
  if (disabled !== undefined) {
    const why = disabled.reason === 'gone' ? 'it answered 410' : 'on request';
    throw new OperatorError(
      `${id} is disabled since ${toRfc3339(disabled.at)} (${why}), so no message is sent to it`,
      {
        remedy: `pdfseal webhooks enable ${id}`,
      },
    );
  }
  if (lockHolder(lockFile) === undefined)
    throw new OperatorError('no pdfseald is running, so the message cannot be sent', { code: 'no_daemon' });
}

/** Waits for the first attempt. Undefined if it succeeds, otherwise the reason for its failure. */
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
  return 'it still waits: other messages are due first, or earlier ones failed (see `pdfseal webhooks show`)';
}
