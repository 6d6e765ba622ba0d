import { Command, Option } from 'commander';
import { systemClock } from '../../base/clock.ts';
import { OperatorError } from '../../base/errors.ts';
import type { ActName } from '../../manifest/auditRecord.ts';
import { TargetPolicy } from '../../net/policy.ts';
import { actOfProcess } from '../../store/acts.ts';
import type { Store } from '../../store/store.ts';
import { WEBHOOK_EVENTS, type WebhookEndpoint, type WebhookEvent } from '../../store/webhookStore.ts';
import {
  auditedEndpoint,
  disabled,
  ENDPOINTS_PER_CLIENT_MAX,
  type EndpointChange,
  enabled,
  newEndpoint,
  OVERLAP_MS_DEFAULT,
  readEndpointFields,
  tooManyEndpoints,
  withSecret,
} from '../../webhook/endpoints.ts';
import {
  presentDeadLetter,
  presentDelivery,
  presentEndpoint,
  presentTally,
} from '../../webhook/presentEndpoint.ts';
import { newSecret } from '../../webhook/signature.ts';
import { explain } from '../help.ts';
import {
  configOption,
  jsonOption,
  parseCountArgument,
  parseDurationArgument,
  parseNameArgument,
  withStore,
} from '../options.ts';
import { note, print, printFields, printJson, printTable } from '../terminal.ts';
import { forPeople } from '../times.ts';
import { findEndpoint, noEndpoint } from './webhookEndpoint.ts';
import { testWebhook } from './webhookTest.ts';

interface CommonOptions {
  config: string;
  json?: true;
}

const LIMIT_DEFAULT = 50;

export function webhooksCommand(): Command {
  const command = new Command('webhooks').description(
    'Webhook endpoints. Each belongs to a client, which is told there what becomes of its jobs. Changes take effect at ' +
      'once, also in a running daemon.',
  );
  addAdd(command);
  explain(
    command
      .command('list')
      .description('Lists the endpoints.')
      .addOption(configOption())
      .option('--client <name>', 'only those of this client', parseNameArgument)
      .addOption(jsonOption())
      .action(list),
    { examples: ['pdfseal webhooks list --config production.toml --client invoices'] },
  );
  onEndpoint(command, 'show', 'Shows an endpoint and how its deliveries go.').action(show);
  addRotate(command);
  onEndpoint(command, 'enable', 'Has it sent to again: one that answered 410 too.').action(
    (id: string, options: CommonOptions) => change(id, options, enabled, 'webhook.enable', 'is enabled'),
  );
  onEndpoint(command, 'disable', 'Has nothing sent to it or queued for it until it is enabled.').action(
    (id: string, options: CommonOptions) =>
      change(id, options, disabled(systemClock()), 'webhook.disable', 'is disabled'),
  );
  onEndpoint(command, 'remove', 'Removes it, and with it what was still to be sent.').action(remove);
  onEndpoint(
    command,
    'test',
    'Has the running daemon send a message of type webhook.test, and says how that went.',
  ).action(testWebhook);
  addDeliveries(command);
  return command;
}

function onEndpoint(parent: Command, name: string, description: string, ...more: string[]): Command {
  const command = parent
    .command(name)
    .description(description)
    .argument('<endpoint_id>', 'id of the endpoint, we_…')
    .addOption(configOption())
    .addOption(jsonOption());
  const example = `pdfseal webhooks ${name} we_0198c2d4e5f678901a2b3c4d5e6f7081 --config production.toml`;
  return explain(command, { examples: [example, ...more.map((options) => `${example} ${options}`)] });
}

function addAdd(parent: Command): void {
  explain(
    parent
      .command('add')
      .description('Adds an endpoint and prints its secret, this once.')
      .addOption(configOption())
      .requiredOption('--client <name>', 'client that is told', parseNameArgument)
      .requiredOption('--url <url>', 'where to; webhooks.allow of the configuration must list it')
      .addOption(
        new Option('--events <name...>', 'what it is told of')
          .choices(WEBHOOK_EVENTS)
          .default([...WEBHOOK_EVENTS]),
      )
      .option('--description <text>', 'for people')
      .addOption(jsonOption())
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
  const ends = '--overlap 0s   (the old one ends now)';
  onEndpoint(parent, 'rotate', 'Has it signed with a new secret, and prints that, this once.', ends)
    .addOption(
      new Option('--overlap <duration>', 'how long the old secret signs too')
        .argParser(parseDurationArgument)
        .default(OVERLAP_MS_DEFAULT, '1d'),
    )
    .action(rotate);
}

function addDeliveries(parent: Command): void {
  onEndpoint(parent, 'deliveries', 'Lists what is to be sent, by the time it is due.', '--dead')
    .option('--dead', 'list the dead letters instead: what was given up')
    .option('--limit <count>', 'how many at most', parseCountArgument, LIMIT_DEFAULT)
    .action(deliveries);
  onEndpoint(parent, 'replay', 'Has dead letters sent again, all or those named, under their old webhook-id.')
    .argument('[webhook_id...]', 'ids of the messages, msg_…')
    .action(replay);
}

interface AddOptions extends CommonOptions {
  client: string;
  url: string;
  events: WebhookEvent[];
  description?: string;
}

async function add({ config, client, url, events, description, json }: AddOptions): Promise<void> {
  await withStore(config, 'write', async (store, { webhooks }) => {
    const isKnown = (await store.credentials.all()).some(({ clientId }) => clientId === client);
    if (!isKnown)
      throw new OperatorError(`client ${client} has no API key: issue one first, or check the name`);
    const fields = { url, events, ...(description !== undefined && { description }) };
    const names = ['url', 'events', 'description'] as const;
    const policy = new TargetPolicy(webhooks.allow);
    const endpoint = newEndpoint(client, readEndpointFields(fields, names, policy), systemClock());
    const act = actOfProcess('command', 'webhook.add', auditedEndpoint(endpoint));
    const isAdded = await store.webhooks.endpoints.add(endpoint, ENDPOINTS_PER_CLIENT_MAX, act);
    if (!isAdded) throw tooManyEndpoints();
    printSecret(endpoint.secrets[0]?.secret ?? '', endpoint, json);
  });
}

async function list({ config, client, json }: CommonOptions & { client?: string }): Promise<void> {
  const rows = await withStore(config, 'read', async (store) => {
    const endpoints = await store.webhooks.endpoints.all(client);
    return Promise.all(
      endpoints.map(async (one) => ({
        ...present(one),
        deliveries: presentTally(await store.webhooks.outbox.tally(one.id)),
      })),
    );
  });
  if (json) for (const row of rows) printJson(row);
  else {
    printTable(
      ['ENDPOINT', 'CLIENT', 'STATUS', 'PENDING', 'DEAD', 'DROPPED', 'EVENTS', 'URL'],
      rows.map(({ id, client, status, deliveries, events, url }) => {
        const { pending, dead_letters, dropped } = deliveries;
        return [id, client, status, ...[pending, dead_letters, dropped].map(String), events.join(','), url];
      }),
    );
  }
}

async function show(id: string, { config, json }: CommonOptions): Promise<void> {
  const shown = await withStore(config, 'read', async (store) => {
    const endpoint = await findEndpoint(store, id);
    return { ...present(endpoint), deliveries: presentTally(await store.webhooks.outbox.tally(id)) };
  });
  if (json) printJson(shown);
  else printFields(shown);
}

async function rotate(
  id: string,
  { config, overlap, json }: CommonOptions & { overlap: number },
): Promise<void> {
  await withStore(config, 'write', async (store) => {
    const secret = newSecret();
    const changed = await applied(store, id, withSecret(secret, overlap, systemClock()), 'webhook.rotate');
    printSecret(secret, changed, json);
  });
}

async function change(
  id: string,
  { config, json }: CommonOptions,
  make: EndpointChange,
  name: ActName,
  what: string,
): Promise<void> {
  const changed = await withStore(config, 'write', (store) => applied(store, id, make, name));
  if (json) printJson(present(changed));
  else note(`${id} of client ${changed.clientId} ${what}`);
}

async function remove(id: string, { config, json }: CommonOptions): Promise<void> {
  await withStore(config, 'write', async (store) => {
    const endpoint = await findEndpoint(store, id);
    const act = actOfProcess('command', 'webhook.remove', auditedEndpoint(endpoint));
    await store.webhooks.endpoints.remove(id, act);
    if (json) printJson({ id, client: endpoint.clientId, removed: true });
    else note(`${id} of client ${endpoint.clientId} is removed`);
  });
}

interface DeliveriesOptions extends CommonOptions {
  dead?: true;
  limit: number;
}

async function deliveries(id: string, { config, dead, limit, json }: DeliveriesOptions): Promise<void> {
  const rows = await withStore(config, 'read', async (store) => {
    await findEndpoint(store, id);
    const dateOf = (stamp: number) => store.serviceTime.dateOf(stamp);
    const page = { limit };
    if (dead)
      return (await store.webhooks.outbox.deadLetters(id, page)).map((one) => presentDeadLetter(one, dateOf));
    return (await store.webhooks.outbox.pending(id, page)).map((one) => presentDelivery(one, dateOf));
  });
  if (json) for (const row of rows) printJson(row);
  else {
    printTable(
      [
        'MESSAGE',
        'TYPE',
        'OCCURRED',
        dead ? 'GIVEN UP' : 'DUE',
        'ATTEMPTS',
        'LAST FAILURE',
        ...(dead ? ['CAUSE'] : []),
      ],
      rows.map((row) => {
        const [at, cause] = 'due_at' in row ? [row.due_at, []] : [row.given_up_at, [row.cause]];
        const { webhook_id, type, occurred_at, attempts, last_failure } = row;
        return [
          webhook_id,
          type,
          occurred_at,
          forPeople(at),
          String(attempts),
          last_failure?.reason ?? '',
          ...cause,
        ];
      }),
    );
  }
}

async function replay(id: string, webhookIds: string[], { config, json }: CommonOptions): Promise<void> {
  await withStore(config, 'write', async (store) => {
    const endpoint = await findEndpoint(store, id);
    const act = actOfProcess('command', 'webhook.replay', auditedEndpoint(endpoint));
    const wanted = webhookIds.length > 0 ? webhookIds : undefined;
    const replayed = await store.webhooks.outbox.replay(id, wanted, act);
    if (json) printJson({ id, replayed });
    else note(`${replayed} dead letters of ${id} are due again`);
    if (replayed < webhookIds.length)
      throw new OperatorError('not all of them: the others are no dead letters, or the backlog is full');
  });
}

async function applied(
  store: Store,
  id: string,
  make: EndpointChange,
  name: ActName,
): Promise<WebhookEndpoint> {
  const act = actOfProcess('command', name, auditedEndpoint(await findEndpoint(store, id)));
  const changed = await store.webhooks.endpoints.change(id, make, act);
  if (changed === undefined) throw noEndpoint(id);
  return changed;
}

type Shown = Parameters<typeof presentEndpoint>[0];

function present(endpoint: Shown) {
  const { id, ...rest } = presentEndpoint(endpoint, systemClock());
  return { id, client: endpoint.clientId, ...rest };
}

/** The secret alone goes to standard output, so that it can be sent straight into a file or a secret store. */
function printSecret(secret: string, endpoint: Shown, json: true | undefined): void {
  const shown = present(endpoint);
  if (json) {
    printJson({ secret, ...shown });
    return;
  }
  const until = shown.previous_secret_expires_at;
  const overlap = until === undefined ? '' : ` The old one signs too until ${until}.`;
  note(
    `${shown.id}: client ${shown.client}, ${shown.events.join(', ')}. Keep the secret: it is not shown again.${overlap}`,
  );
  print(secret);
}
