import { setTimeout as sleep } from 'node:timers/promises';
import { OperatorError } from '../../base/errors.ts';
import { counted } from '../../base/phrases.ts';
import type { Config } from '../../config/config.ts';
import {
  addWebhook,
  changeWebhook,
  disableWebhook,
  enableWebhook,
  removeWebhook,
  rotateWebhook,
  type ShownEndpoint,
} from '../../ops/endpointOperations.ts';
import {
  listDeliveries,
  listWebhooks,
  replayWebhook,
  showWebhook,
  testWebhook,
} from '../../ops/webhookMessages.ts';
import type { Delivery } from '../../store/webhookStore.ts';
import { group } from '../command.ts';
import { operationCommand } from '../operationCommand.ts';
import { isJson, note, print, printFields, printJson, printResult, printRows } from '../terminal.ts';
import { forPeople } from '../times.ts';
import { withStore } from '../withStore.ts';

/** Example calls of a command on an endpoint, with these options too. */
function examplesOf(name: string, ...more: string[]): string[] {
  const example = `pdfseal webhooks ${name} we_0198c2d4e5f678901a2b3c4d5e6f7081 --config production.toml`;
  return [example, ...more.map((options) => `${example} ${options}`)];
}

const addCommand = operationCommand('add', addWebhook, {
  examples: [
    'pdfseal webhooks add --config production.toml --client invoices --url https://erp.example.com/hooks/seal >hook.secret',
    'pdfseal webhooks add --config production.toml --client invoices --url https://x.example.com/ --events job.failed',
  ],
  show: printSecret,
});

const listCommand = operationCommand('list', listWebhooks, {
  examples: ['pdfseal webhooks list --config production.toml --client invoices'],
  show: ({ webhook_endpoints: rows }) =>
    printRows(rows, {
      ENDPOINT: ({ id }) => id,
      CLIENT: ({ client }) => client,
      STATUS: ({ status }) => status,
      PENDING: ({ deliveries }) => String(deliveries.pending),
      DEAD: ({ deliveries }) => String(deliveries.dead_letters),
      DROPPED: ({ deliveries }) => String(deliveries.dropped),
      EVENTS: ({ events }) => events.join(','),
      URL: ({ url }) => url,
    }),
});

const showCommand = operationCommand('show', showWebhook, {
  examples: examplesOf('show'),
  show: (shown) => printResult(shown, () => printFields(shown)),
});

/** For pages and programs, which have read the endpoint before. */
const READ_BEFORE = ['revision'] as const;

const changeCommand = operationCommand('change', changeWebhook, {
  finds: READ_BEFORE,
  examples: examplesOf('change', '--events job.failed', '--description ""'),
  show: (shown) => printResult(shown, () => printFields(shown)),
});

const rotateCommand = operationCommand('rotate', rotateWebhook, {
  examples: examplesOf('rotate', '--overlap 0s   (the old secret ends now)'),
  show: printSecret,
});

const ENABLING = {
  finds: READ_BEFORE,
  show: (shown: ShownEndpoint) =>
    printResult(shown, () => note(`${shown.id} of client ${shown.client} is ${shown.status}`)),
} as const;

const enableCommand = operationCommand('enable', enableWebhook, {
  ...ENABLING,
  examples: examplesOf('enable'),
});

const disableCommand = operationCommand('disable', disableWebhook, {
  ...ENABLING,
  examples: examplesOf('disable'),
});

const removeCommand = operationCommand('remove', removeWebhook, {
  asks: (id) => `${id} and all that waits for it will be gone.`,
  examples: examplesOf('remove'),
  show: (removed) => printResult(removed, () => note(`${removed.id} of client ${removed.client} is removed`)),
});

const testCommand = operationCommand('test', testWebhook, {
  description: 'Sends a message of type webhook.test through the running daemon, and prints the result.',
  examples: examplesOf('test'),
  async show({ id, webhook_id: webhookId }, config) {
    if (!isJson()) print(webhookId);
    const reason = await outcomeOf(config, id, webhookId);
    if (isJson())
      printJson({ id, webhook_id: webhookId, delivered: reason === undefined, reason: reason ?? null });
    if (reason !== undefined) throw new OperatorError(`the test message to ${id} failed: ${reason}`);
    if (!isJson()) note(`${id} received the test message`);
  },
});

/** Time limit for a test message: longer than an attempt may take. */
const TEST_MS_MAX = 20_000;
const TEST_LOOK_MS = 200;

/** Waits for the first attempt. Undefined if it succeeds, otherwise the reason for its failure. */
function outcomeOf(config: Config, endpointId: string, webhookId: string): Promise<string | undefined> {
  const everything = { limit: 2 * config.webhooks.backlogMax };
  const isIt = (one: Delivery) => one.webhookId === webhookId;
  const giveUpAt = performance.now() + TEST_MS_MAX;
  return withStore(config.file, 'read', async ({ webhooks: { outbox } }) => {
    while (performance.now() < giveUpAt) {
      await sleep(TEST_LOOK_MS);
      const waiting = (await outbox.pending(endpointId, everything)).find(isIt);
      if (waiting?.attempts === 0) continue;
      const dead = waiting ?? (await outbox.deadLetters(endpointId, everything)).find(isIt);
      return dead?.failure?.reason;
    }
    return 'it still waits: other messages are due first, or earlier ones failed (see `pdfseal webhooks show`)';
  });
}

const deliveriesCommand = operationCommand('deliveries', listDeliveries, {
  examples: examplesOf('deliveries', '--dead'),
  show({ deliveries, dead_letters: deadLetters = [], next_cursor: next }) {
    if (deliveries === undefined)
      printRows(deadLetters, {
        ...MESSAGE_COLUMNS,
        'GIVEN UP': ({ given_up_at: at }) => forPeople(at),
        ...ATTEMPT_COLUMNS,
        CAUSE: ({ cause }) => cause,
      });
    else
      printRows(deliveries, {
        ...MESSAGE_COLUMNS,
        DUE: ({ due_at: at }) => forPeople(at),
        ...ATTEMPT_COLUMNS,
      });
    if (next !== undefined) note(`There are more messages: repeat this with --cursor ${next}`);
  },
});

const MESSAGE_COLUMNS = {
  MESSAGE: ({ webhook_id: id }: { webhook_id: string }) => id,
  TYPE: ({ type }: { type: string }) => type,
  OCCURRED: ({ occurred_at: at }: { occurred_at: string }) => at,
};

const ATTEMPT_COLUMNS = {
  ATTEMPTS: ({ attempts }: { attempts: number }) => String(attempts),
  'LAST FAILURE': ({ last_failure: failure }: { last_failure?: { reason: string } | undefined }) =>
    failure?.reason ?? '',
};

const replayCommand = operationCommand('replay', replayWebhook, {
  examples: examplesOf('replay'),
  show({ id, replayed, status }, _config, _typed, { webhook_ids: chosen = [] }) {
    const waits = status === 'disabled' ? '; nothing is sent until the endpoint is enabled' : '';
    printResult({ id, replayed }, () =>
      note(
        replayed === 0
          ? `no dead letter of ${id} was queued: no dead letter matches, or the backlog is full`
          : `queued again of ${id}: ${counted(replayed, 'dead letter')}${waits}`,
      ),
    );
    if (replayed < chosen.length)
      throw new OperatorError(
        'not all messages were queued: the others are not dead letters, or the backlog is full',
      );
  },
});

export const webhooksCommand = group(
  'webhooks',
  'Manages webhook endpoints. An endpoint belongs to a client and receives messages about the jobs of that client. Changes take ' +
    'effect at once, also in a running daemon.',
  [
    addCommand,
    listCommand,
    showCommand,
    changeCommand,
    rotateCommand,
    enableCommand,
    disableCommand,
    removeCommand,
    testCommand,
    deliveriesCommand,
    replayCommand,
  ],
);

/** Prints only the secret on standard output, so that it can be written straight into a file or a secret store. */
function printSecret({ secret, ...shown }: ShownEndpoint & { secret: string }): void {
  const until = shown.previous_secret_expires_at;
  const overlap = until === undefined ? '' : ` Messages are also signed with the old secret until ${until}.`;
  printResult({ secret, ...shown }, () => {
    note(
      `${shown.id}: client ${shown.client}, ${shown.events.join(', ')}. Keep the secret: it is not shown again.${overlap}`,
    );
    print(secret);
  });
}
