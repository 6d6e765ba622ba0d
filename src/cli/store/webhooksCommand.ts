import { systemClock } from '../../base/clock.ts';
import { OperatorError } from '../../base/errors.ts';
import { counted } from '../../base/phrases.ts';
import { actorOfProcess } from '../../store/acts.ts';
import { WEBHOOK_EVENTS } from '../../store/webhookStore.ts';
import { TargetPolicy } from '../../web/policy.ts';
import {
  addEndpoint,
  alterEndpoint,
  findEndpoint,
  removeEndpoint,
  replaceSecret,
  replayLetters,
} from '../../webhook/endpointActs.ts';
import {
  disabled,
  type EndpointChange,
  enabled,
  OVERLAP_MS_DEFAULT,
  readEndpointFields,
} from '../../webhook/endpoints.ts';
import {
  presentDeadLetter,
  presentDelivery,
  presentEndpoint,
  presentTally,
} from '../../webhook/presentEndpoint.ts';
import { argument, command, group, option } from '../command.ts';
import { CONFIG, parseCountArgument, parseDurationArgument, parseNameArgument } from '../options.ts';
import { note, print, printFields, printResult, printRows } from '../terminal.ts';
import { forPeople } from '../times.ts';
import { withStore } from '../withStore.ts';
import { testWebhook } from './webhookTest.ts';

const LIMIT_DEFAULT = 50;

const ENDPOINT = argument('<endpoint_id>', 'id of the endpoint (we_…)');

/** Example calls of a command on an endpoint, with these options too. */
function examplesOf(name: string, ...more: string[]): string[] {
  const example = `pdfseal webhooks ${name} we_0198c2d4e5f678901a2b3c4d5e6f7081 --config production.toml`;
  return [example, ...more.map((options) => `${example} ${options}`)];
}

const addCommand = command('add', {
  description: 'Adds an endpoint and prints its secret. This is the only time.',
  options: [
    CONFIG,
    option('--client <name>', 'client whose jobs the messages are about', {
      parse: parseNameArgument,
      required: true,
    }),
    option('--url <url>', 'URL of the endpoint; webhooks.allow in the config file must allow it', {
      required: true,
    }),
    option('--events <name...>', 'types of messages that it receives', {
      choices: WEBHOOK_EVENTS,
      default: [...WEBHOOK_EVENTS],
    }),
    option('--description <text>', 'a note for administrators'),
  ],
  examples: [
    'pdfseal webhooks add --config production.toml --client invoices --url https://erp.example.com/hooks/seal >hook.secret',
    'pdfseal webhooks add --config production.toml --client invoices --url https://x.example.com/ --events job.failed',
  ],
  async run({ config, client, url, events, description }) {
    await withStore(config, 'write', async (store, { webhooks }) => {
      const fields = { url, events, description };
      const names = ['url', 'events', 'description'] as const;
      const read = readEndpointFields(fields, names, new TargetPolicy(webhooks.allow));
      const endpoint = await addEndpoint(store, client, read, actorOfProcess('command'));
      printSecret(endpoint.secrets[0]?.secret ?? '', endpoint);
    });
  },
});

const listCommand = command('list', {
  description: 'Lists the endpoints.',
  options: [CONFIG, option('--client <name>', 'only endpoints of this client', parseNameArgument)],
  examples: ['pdfseal webhooks list --config production.toml --client invoices'],
  async run({ config, client }) {
    const rows = await withStore(config, 'read', async (store) => {
      const endpoints = await store.webhooks.endpoints.all(client);
      const tallies = await store.webhooks.outbox.tallies(endpoints.map(({ id }) => id));
      return endpoints.flatMap((one, n) => {
        const tally = tallies[n];
        return tally === undefined ? [] : [{ ...present(one), deliveries: presentTally(tally) }];
      });
    });
    printRows(rows, {
      ENDPOINT: ({ id }) => id,
      CLIENT: ({ client }) => client,
      STATUS: ({ status }) => status,
      PENDING: ({ deliveries }) => String(deliveries.pending),
      DEAD: ({ deliveries }) => String(deliveries.dead_letters),
      DROPPED: ({ deliveries }) => String(deliveries.dropped),
      EVENTS: ({ events }) => events.join(','),
      URL: ({ url }) => url,
    });
  },
});

const showCommand = command('show', {
  description: 'Shows an endpoint and its deliveries.',
  arguments: [ENDPOINT],
  options: [CONFIG],
  examples: examplesOf('show'),
  async run({ config }, id) {
    const shown = await withStore(config, 'read', async (store) => {
      const endpoint = await findEndpoint(store, id);
      return { ...present(endpoint), deliveries: presentTally(await store.webhooks.outbox.tally(id)) };
    });
    printResult(shown, () => printFields(shown));
  },
});

const rotateCommand = command('rotate', {
  description: 'Creates a new secret and prints it. This is the only time.',
  arguments: [ENDPOINT],
  options: [
    CONFIG,
    option('--overlap <duration>', 'how long messages are also signed with the old secret', {
      parse: parseDurationArgument,
      default: OVERLAP_MS_DEFAULT,
      shown: '1d',
    }),
  ],
  examples: examplesOf('rotate', '--overlap 0s   (the old secret ends now)'),
  async run({ config, overlap }, id) {
    await withStore(config, 'write', async (store) => {
      const { secret, endpoint } = await replaceSecret(store, id, overlap, actorOfProcess('command'));
      printSecret(secret, endpoint);
    });
  },
});

/** Enables or disables an endpoint. */
function changeCommand(name: 'enable' | 'disable', description: string, make: () => EndpointChange) {
  return command(name, {
    description,
    arguments: [ENDPOINT],
    options: [CONFIG],
    examples: examplesOf(name),
    async run({ config }, id) {
      const act = { name: `webhook.${name}` as const, actor: actorOfProcess('command') };
      const changed = await withStore(config, 'write', (store) => alterEndpoint(store, id, make(), act));
      printResult(present(changed), () => note(`${id} of client ${changed.clientId} is ${name}d`));
    },
  });
}

const enableCommand = changeCommand(
  'enable',
  'Enables an endpoint, also one that was disabled because it answered 410.',
  () => enabled,
);

const disableCommand = changeCommand(
  'disable',
  'Disables an endpoint: until you enable it, nothing is sent to it or queued for it.',
  () => disabled(systemClock()),
);

const removeCommand = command('remove', {
  description: 'Removes an endpoint, with all messages that wait for it.',
  arguments: [ENDPOINT],
  options: [CONFIG],
  examples: examplesOf('remove'),
  async run({ config }, id) {
    await withStore(config, 'write', async (store) => {
      const { clientId: client } = await removeEndpoint(store, id, actorOfProcess('command'));
      printResult({ id, client, removed: true }, () => note(`${id} of client ${client} is removed`));
    });
  },
});

const testCommand = command('test', {
  description: 'Sends a message of type webhook.test through the running daemon, and prints the result.',
  arguments: [ENDPOINT],
  options: [CONFIG],
  examples: examplesOf('test'),
  run: ({ config }, id) => testWebhook(config, id),
});

const deliveriesCommand = command('deliveries', {
  description: 'Lists the messages that wait, the next one first.',
  arguments: [ENDPOINT],
  options: [
    CONFIG,
    option('--dead', 'list the dead letters instead: messages that are no longer retried'),
    option('--limit <count>', 'how many messages the list has at most', {
      parse: parseCountArgument,
      default: LIMIT_DEFAULT,
    }),
  ],
  examples: examplesOf('deliveries', '--dead'),
  async run({ config, dead, limit }, id) {
    await withStore(config, 'read', async (store) => {
      await findEndpoint(store, id);
      const dateOf = (stamp: number) => store.serviceTime.dateOf(stamp);
      if (dead) {
        const letters = await store.webhooks.outbox.deadLetters(id, { limit });
        const rows = letters.map((one) => presentDeadLetter(one, dateOf));
        return printRows(rows, {
          ...MESSAGE_COLUMNS,
          'GIVEN UP': ({ given_up_at: at }) => forPeople(at),
          ...ATTEMPT_COLUMNS,
          CAUSE: ({ cause }) => cause,
        });
      }
      const waiting = await store.webhooks.outbox.pending(id, { limit });
      const rows = waiting.map((one) => presentDelivery(one, dateOf));
      printRows(rows, {
        ...MESSAGE_COLUMNS,
        DUE: ({ due_at: at }) => forPeople(at),
        ...ATTEMPT_COLUMNS,
      });
    });
  },
});

const MESSAGE_COLUMNS = {
  MESSAGE: ({ webhook_id: id }: PresentedDelivery) => id,
  TYPE: ({ type }: PresentedDelivery) => type,
  OCCURRED: ({ occurred_at: at }: PresentedDelivery) => at,
};

const ATTEMPT_COLUMNS = {
  ATTEMPTS: ({ attempts }: PresentedDelivery) => String(attempts),
  'LAST FAILURE': ({ last_failure: failure }: PresentedDelivery) => failure?.reason ?? '',
};

type PresentedDelivery = Omit<ReturnType<typeof presentDelivery>, 'due_at'>;

const replayCommand = command('replay', {
  description: 'Sends dead letters again with their old webhook-id: those that you name, or all of them.',
  arguments: [ENDPOINT, argument('[webhook_id...]', 'ids of the messages (msg_…)')],
  options: [CONFIG],
  examples: examplesOf('replay'),
  async run({ config }, id, webhookIds) {
    await withStore(config, 'write', async (store) => {
      const wanted = webhookIds.length > 0 ? webhookIds : undefined;
      const { replayed, isDisabled } = await replayLetters(store, id, wanted, actorOfProcess('command'));
      const waits = isDisabled ? '; nothing is sent until the endpoint is enabled' : '';
      printResult({ id, replayed }, () =>
        note(
          replayed === 0
            ? `no dead letter of ${id} was queued: no dead letter matches, or the backlog is full`
            : `queued again of ${id}: ${counted(replayed, 'dead letter')}${waits}`,
        ),
      );
      if (replayed < webhookIds.length)
        throw new OperatorError(
          'not all messages were queued: the others are not dead letters, or the backlog is full',
        );
    });
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
    rotateCommand,
    enableCommand,
    disableCommand,
    removeCommand,
    testCommand,
    deliveriesCommand,
    replayCommand,
  ],
);

type Shown = Parameters<typeof presentEndpoint>[0];

function present(endpoint: Shown) {
  const { id, ...rest } = presentEndpoint(endpoint, systemClock());
  return { id, client: endpoint.clientId, ...rest };
}

/** Prints only the secret on standard output, so that it can be written straight into a file or a secret store. */
function printSecret(secret: string, endpoint: Shown): void {
  const shown = present(endpoint);
  const until = shown.previous_secret_expires_at;
  const overlap = until === undefined ? '' : ` Messages are also signed with the old secret until ${until}.`;
  printResult({ secret, ...shown }, () => {
    note(
      `${shown.id}: client ${shown.client}, ${shown.events.join(', ')}. Keep the secret: it is not shown again.${overlap}`,
    );
    print(secret);
  });
}
