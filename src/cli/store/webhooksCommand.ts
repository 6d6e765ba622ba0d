import { Command, Option } from 'commander';
import { systemClock } from '../../base/clock.ts';
import { OperatorError } from '../../base/errors.ts';
import { counted } from '../../base/phrases.ts';
import type { ActName } from '../../manifest/auditRecord.ts';
import { TargetPolicy } from '../../net/policy.ts';
import { actorOfProcess } from '../../store/acts.ts';
import { WEBHOOK_EVENTS, type WebhookEvent } from '../../store/webhookStore.ts';
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
import { explain } from '../help.ts';
import {
  configOption,
  parseCountArgument,
  parseDurationArgument,
  parseNameArgument,
  withStore,
} from '../options.ts';
import { isJson, note, print, printFields, printJson, printResult, printRows } from '../terminal.ts';
import { forPeople } from '../times.ts';
import { testWebhook } from './webhookTest.ts';

interface CommonOptions {
  config: string;
}

const LIMIT_DEFAULT = 50;

export function webhooksCommand(): Command {
  const command = new Command('webhooks').description(
    'Manages webhook endpoints. An endpoint belongs to a client and receives messages about the jobs of that client. Changes take ' +
      'effect at once, also in a running daemon.',
  );
  addAdd(command);
  explain(
    command
      .command('list')
      .description('Lists the endpoints.')
      .addOption(configOption())
      .option('--client <name>', 'only endpoints of this client', parseNameArgument)
      .action(list),
    { examples: ['pdfseal webhooks list --config production.toml --client invoices'] },
  );
  onEndpoint(command, 'show', 'Shows an endpoint and its deliveries.').action(show);
  addRotate(command);
  onEndpoint(
    command,
    'enable',
    'Enables an endpoint, also one that was disabled because it answered 410.',
  ).action((id: string, options: CommonOptions) =>
    change(id, options, enabled, 'webhook.enable', 'is enabled'),
  );
  onEndpoint(
    command,
    'disable',
    'Disables an endpoint: until you enable it, nothing is sent to it or queued for it.',
  ).action((id: string, options: CommonOptions) =>
    change(id, options, disabled(systemClock()), 'webhook.disable', 'is disabled'),
  );
  onEndpoint(command, 'remove', 'Removes an endpoint, with all messages that wait for it.').action(remove);
  onEndpoint(
    command,
    'test',
    'Sends a message of type webhook.test through the running daemon, and prints the result.',
  ).action(testWebhook);
  addDeliveries(command);
  return command;
}

function onEndpoint(parent: Command, name: string, description: string, ...more: string[]): Command {
  const command = parent
    .command(name)
    .description(description)
    .argument('<endpoint_id>', 'id of the endpoint (we_…)')
    .addOption(configOption());
  const example = `pdfseal webhooks ${name} we_0198c2d4e5f678901a2b3c4d5e6f7081 --config production.toml`;
  return explain(command, { examples: [example, ...more.map((options) => `${example} ${options}`)] });
}

function addAdd(parent: Command): void {
  explain(
    parent
      .command('add')
      .description('Adds an endpoint and prints its secret. This is the only time.')
      .addOption(configOption())
      .requiredOption('--client <name>', 'client whose jobs the messages are about', parseNameArgument)
      .requiredOption('--url <url>', 'URL of the endpoint; webhooks.allow in the config file must allow it')
      .addOption(
        new Option('--events <name...>', 'types of messages that it receives')
          .choices(WEBHOOK_EVENTS)
          .default([...WEBHOOK_EVENTS]),
      )
      .option('--description <text>', 'a note for administrators')
      .action(add),
    {
      examples: [
        'pdfseal webhooks add --config production.toml --client invoices --url https://erp.example.com/hooks/seal >hook.secret',
        'pdfseal webhooks add --config production.toml --client invoices --url https://x.example.com/ --events job.failed',
      ],
    },
  );
}

function addRotate(parent: Command): void {
  const ends = '--overlap 0s   (the old secret ends now)';
  onEndpoint(parent, 'rotate', 'Creates a new secret and prints it. This is the only time.', ends)
    .addOption(
      new Option('--overlap <duration>', 'how long messages are also signed with the old secret')
        .argParser(parseDurationArgument)
        .default(OVERLAP_MS_DEFAULT, '1d'),
    )
    .action(rotate);
}

function addDeliveries(parent: Command): void {
  onEndpoint(parent, 'deliveries', 'Lists the messages that wait, the next one first.', '--dead')
    .option('--dead', 'list the dead letters instead: messages that are no longer tried')
    .option('--limit <count>', 'how many messages the list has at most', parseCountArgument, LIMIT_DEFAULT)
    .action(deliveries);
  onEndpoint(
    parent,
    'replay',
    'Sends dead letters again with their old webhook-id: those that you name, or all of them.',
  )
    .argument('[webhook_id...]', 'ids of the messages (msg_…)')
    .action(replay);
}

interface AddOptions extends CommonOptions {
  client: string;
  url: string;
  events: WebhookEvent[];
  description?: string;
}

async function add({ config, client, url, events, description }: AddOptions): Promise<void> {
  await withStore(config, 'write', async (store, { webhooks }) => {
    const fields = { url, events, ...(description !== undefined && { description }) };
    const names = ['url', 'events', 'description'] as const;
    const read = readEndpointFields(fields, names, new TargetPolicy(webhooks.allow));
    const endpoint = await addEndpoint(store, client, read, actorOfProcess('command'));
    printSecret(endpoint.secrets[0]?.secret ?? '', endpoint);
  });
}

async function list({ config, client }: CommonOptions & { client?: string }): Promise<void> {
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
}

async function show(id: string, { config }: CommonOptions): Promise<void> {
  const shown = await withStore(config, 'read', async (store) => {
    const endpoint = await findEndpoint(store, id);
    return { ...present(endpoint), deliveries: presentTally(await store.webhooks.outbox.tally(id)) };
  });
  printResult(shown, () => printFields(shown));
}

async function rotate(id: string, { config, overlap }: CommonOptions & { overlap: number }): Promise<void> {
  await withStore(config, 'write', async (store) => {
    const { secret, endpoint } = await replaceSecret(store, id, overlap, actorOfProcess('command'));
    printSecret(secret, endpoint);
  });
}

async function change(
  id: string,
  { config }: CommonOptions,
  make: EndpointChange,
  name: ActName,
  what: string,
): Promise<void> {
  const act = { name, actor: actorOfProcess('command') };
  const changed = await withStore(config, 'write', (store) => alterEndpoint(store, id, make, act));
  printResult(present(changed), () => note(`${id} of client ${changed.clientId} ${what}`));
}

async function remove(id: string, { config }: CommonOptions): Promise<void> {
  await withStore(config, 'write', async (store) => {
    const endpoint = await removeEndpoint(store, id, actorOfProcess('command'));
    printResult({ id, client: endpoint.clientId, removed: true }, () =>
      note(`${id} of client ${endpoint.clientId} is removed`),
    );
  });
}

interface DeliveriesOptions extends CommonOptions {
  dead?: true;
  limit: number;
}

async function deliveries(id: string, { config, dead, limit }: DeliveriesOptions): Promise<void> {
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
}

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

async function replay(id: string, webhookIds: string[], { config }: CommonOptions): Promise<void> {
  await withStore(config, 'write', async (store) => {
    const wanted = webhookIds.length > 0 ? webhookIds : undefined;
    const { replayed, isDisabled } = await replayLetters(store, id, wanted, actorOfProcess('command'));
    if (isJson()) printJson({ id, replayed });
    else if (replayed === 0)
      note(`no dead letter of ${id} was queued: no dead letter matches, or the backlog is full`);
    else {
      const waits = isDisabled ? '; nothing is sent until the endpoint is enabled' : '';
      note(`queued again of ${id}: ${counted(replayed, 'dead letter')}${waits}`);
    }
    if (replayed < webhookIds.length)
      throw new OperatorError(
        'not all messages were queued: the others are not dead letters, or the backlog is full',
      );
  });
}

type Shown = Parameters<typeof presentEndpoint>[0];

function present(endpoint: Shown) {
  const { id, ...rest } = presentEndpoint(endpoint, systemClock());
  return { id, client: endpoint.clientId, ...rest };
}

/** Only the secret goes to standard output, so that it can be written straight into a file or a secret store. */
function printSecret(secret: string, endpoint: Shown): void {
  const shown = present(endpoint);
  if (isJson()) {
    printJson({ secret, ...shown });
    return;
  }
  const until = shown.previous_secret_expires_at;
  const overlap = until === undefined ? '' : ` Messages are also signed with the old secret until ${until}.`;
  note(
    `${shown.id}: client ${shown.client}, ${shown.events.join(', ')}. Keep the secret: it is not shown again.${overlap}`,
  );
  print(secret);
}
