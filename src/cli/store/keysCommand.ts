import { randomBytes } from 'node:crypto';
import { Command, InvalidArgumentError, Option } from 'commander';
import { systemClock, toRfc3339 } from '../../base/clock.ts';
import { OperatorError } from '../../base/errors.ts';
import { hashApiKey, newApiKey } from '../../job/apikey.ts';
import { actOfProcess } from '../../store/acts.ts';
import { type Credential, SCOPES, type Scope, type Store } from '../../store/store.ts';
import { auditedEndpoint, disabled } from '../../webhook/endpoints.ts';
import { presentEndpoint } from '../../webhook/presentEndpoint.ts';
import { explain } from '../help.ts';
import { configOption, parseDurationArgument, parseNameArgument, withStore } from '../options.ts';
import { note, print, printJson, printRows } from '../terminal.ts';
import { forPeople } from '../times.ts';
import { auditedKey } from './keyCheck.ts';

interface StoreOptions {
  config: string;
  json?: true;
}

const SCOPES_DEFAULT: Scope[] = ['jobs:create', 'jobs:read'];
const DAY_MS = 86_400_000;

export function keysCommand(): Command {
  const command = new Command('keys').description(
    'Manages API keys. Each key belongs to a client, and each client to an organization. Changes take effect at once, also in a ' +
      'running daemon, which reads the store for every request.',
  );
  explain(
    command
      .command('issue')
      .description(
        'Creates an API key and prints it. This is the only time: the store keeps only the SHA-256 of the key.',
      )
      .addOption(configOption())
      .requiredOption('--client <name>', 'client that uses the key', parseNameArgument)
      .requiredOption('--organization <name>', 'organization of the client', parseNameArgument)
      .addOption(
        new Option('--scopes <list>', `scopes with commas between them: ${SCOPES.join(', ')}`)
          .argParser(parseScopes)
          .default(SCOPES_DEFAULT, SCOPES_DEFAULT.join(',')),
      )
      .option(
        '--validity <duration>',
        'how long the key is valid, such as 90d (default: until it is revoked)',
        parseDurationArgument,
      )
      .action(issue),
    {
      formerly: { '--expires': '--validity' },
      examples: [
        'pdfseal keys issue --config production.toml --client invoices --organization acme --validity 365d',
        'pdfseal keys issue --config production.toml --client audit --organization acme --scopes jobs:read >audit.key',
      ],
    },
  );
  explain(
    command
      .command('list')
      .description('Lists the keys by their ids. The store does not contain the keys themselves.')
      .addOption(configOption())
      .option('--client <name>', 'only keys of this client', parseNameArgument)
      .action(list),
    {
      examples: [
        'pdfseal keys list --config production.toml',
        `pdfseal keys list --config production.toml --json | jq -r 'select(.state == "active") | .id'`,
      ],
    },
  );
  explain(
    command
      .command('rotate')
      .description('Creates a key that replaces another one. The old key stays valid for the overlap.')
      .argument('<key_id>', 'id of the key to replace (key_…)')
      .addOption(configOption())
      .addOption(
        new Option('--overlap <duration>', 'how long the old key stays valid')
          .argParser(parseDurationArgument)
          .default(DAY_MS, '1d'),
      )
      .option(
        '--validity <duration>',
        'how long the new key is valid (default: as long as the old key was when it was issued)',
        parseDurationArgument,
      )
      .action(rotate),
    {
      formerly: { '--expires': '--validity' },
      examples: [
        'pdfseal keys rotate key_0a1b2c3d4e5f6071 --config production.toml --overlap 7d',
        'pdfseal keys rotate key_0a1b2c3d4e5f6071 --config production.toml --overlap 0s   (the old key ends now)',
      ],
    },
  );
  explain(
    command
      .command('revoke')
      .description(
        'Ends a key at once and for ever, and lists the webhook endpoints of its client. An endpoint that no other valid key of the client ' +
          'can manage is disabled; if the client has no valid key left, all of its endpoints are.',
      )
      .argument('<key_id>', 'id of the key (key_…)')
      .addOption(configOption())
      .action(revoke),
    { examples: ['pdfseal keys revoke key_0a1b2c3d4e5f6071 --config production.toml'] },
  );
  return command;
}

interface IssueOptions extends StoreOptions {
  client: string;
  organization: string;
  scopes: Scope[];
  validity?: number;
}

async function issue({ config, client, organization, scopes, validity, json }: IssueOptions): Promise<void> {
  await withStore(config, 'write', async (store) => {
    const known = (await store.credentials.all()).find((one) => one.clientId === client);
    if (known !== undefined && known.organization !== organization) {
      throw new OperatorError(
        `client ${client} belongs to organization ${known.organization}; a client cannot belong to two organizations`,
      );
    }
    const { apiKey, credential } = makeKey(store, { clientId: client, organization, scopes }, validity);
    await store.credentials.put([credential], actOfProcess('command', 'key.issue', auditedKey(credential)));
    printNewKey(apiKey, credential, json);
  });
}

async function list({ config, client, json }: StoreOptions & { client?: string }): Promise<void> {
  const credentials = await withStore(config, 'read', (store) => store.credentials.all());
  const wanted = credentials
    .filter(({ clientId }) => client === undefined || clientId === client)
    .sort((a, b) => a.createdAt - b.createdAt);
  printRows(wanted.map(present), json, {
    KEY: ({ id }) => id,
    CLIENT: ({ client }) => client,
    ORGANIZATION: ({ organization }) => organization,
    SCOPES: ({ scopes }) => scopes.join(','),
    STATE: ({ state }) => state,
    CREATED: ({ created_at: at }) => at,
    EXPIRES: ({ expires_at: at }) => (at === undefined ? 'never' : forPeople(at)),
  });
}

interface RotateOptions extends StoreOptions {
  overlap: number;
  validity?: number;
}

async function rotate(keyId: string, { config, overlap, validity, json }: RotateOptions): Promise<void> {
  await withStore(config, 'write', async (store) => {
    const old = await findKey(store, keyId);
    const now = systemClock();
    if (stateOf(old, now) !== 'active')
      throw new OperatorError(`${keyId} is ${stateOf(old, now)}: issue a new key`);
    if (old.replacedBy !== undefined)
      throw new OperatorError(`${keyId} was already replaced by ${old.replacedBy}; to end it now, revoke it`);
    const lifetimeMs = validity ?? (old.expiresAt === undefined ? undefined : old.expiresAt - old.createdAt);
    const { apiKey, credential } = makeKey(store, old, lifetimeMs);
    const expiresAt = Math.min(old.expiresAt ?? Number.POSITIVE_INFINITY, now + overlap);
    const replaced = { ...old, expiresAt, replacedBy: credential.id };
    const object = { ...auditedKey(credential), replaces: keyId, replaced_expires_at: toRfc3339(expiresAt) };
    await store.credentials.put([credential, replaced], actOfProcess('command', 'key.rotate', object));
    note(`${keyId} stays valid until ${toRfc3339(expiresAt)}`);
    printNewKey(apiKey, credential, json);
  });
}

async function revoke(keyId: string, { config, json }: StoreOptions): Promise<void> {
  await withStore(config, 'write', async (store) => {
    const found = await findKey(store, keyId);
    const revoked = { ...found, revokedAt: found.revokedAt ?? systemClock() };
    const act = actOfProcess('command', 'key.revoke', { key: keyId, client: found.clientId });
    if (found.revokedAt === undefined) await store.credentials.put([revoked], act);
    // If we stop here, the same command completes it.
    const endpoints = await disableUnmanaged(store, found);
    if (json) {
      printJson({ ...present(revoked), webhook_endpoints: endpoints.map(({ shown }) => shown) });
      return;
    }
    note(`${keyId} of client ${found.clientId} is revoked`);
    for (const { shown, wasDisabled } of endpoints) {
      const what = wasDisabled
        ? `is now disabled: no valid key of the client can manage it; to enable it: pdfseal webhooks enable ${shown.id}`
        : shown.status === 'enabled'
          ? `still receives messages; to stop them: pdfseal webhooks disable ${shown.id}`
          : 'was already disabled';
      note(`webhook endpoint ${shown.id} (${shown.url}) ${what}`);
    }
  });
}

interface Left {
  shown: ReturnType<typeof presentEndpoint>;
  /** By this revocation. */
  wasDisabled: boolean;
}

/** Disables the webhook endpoints that no valid key can manage any more. Returns all endpoints of the client. */
async function disableUnmanaged(store: Store, { clientId, scopes }: Credential): Promise<Left[]> {
  const now = systemClock();
  const live = (await store.credentials.all()).filter(
    (one) => one.clientId === clientId && stateOf(one, now) === 'active',
  );
  const isManaged = live.some((one) => one.scopes.includes('webhooks:manage'));
  const isUnmanaged = live.length === 0 || (scopes.includes('webhooks:manage') && !isManaged);
  const left: Left[] = [];
  for (const endpoint of await store.webhooks.endpoints.all(clientId)) {
    const wasDisabled = isUnmanaged && endpoint.disabled === undefined;
    const act = actOfProcess('command', 'webhook.disable', auditedEndpoint(endpoint));
    const changed = wasDisabled
      ? await store.webhooks.endpoints.change(endpoint.id, disabled(now), act)
      : endpoint;
    if (changed !== undefined) left.push({ shown: presentEndpoint(changed, now), wasDisabled });
  }
  return left;
}

type Holder = Pick<Credential, 'clientId' | 'organization' | 'scopes'>;

function makeKey(
  { identity }: Store,
  { clientId, organization, scopes }: Holder,
  lifetimeMs: number | undefined,
): { apiKey: string; credential: Credential } {
  const apiKey = newApiKey(identity.environment);
  const createdAt = systemClock();
  const credential: Credential = {
    keyHash: hashApiKey(apiKey),
    id: `key_${randomBytes(8).toString('hex')}`,
    clientId,
    organization,
    scopes,
    createdAt,
    ...(lifetimeMs !== undefined && { expiresAt: createdAt + lifetimeMs }),
  };
  return { apiKey, credential };
}

/** Only the key goes to standard output, so that it can be written straight into a file or a secret store. */
function printNewKey(apiKey: string, credential: Credential, json: true | undefined): void {
  if (json) {
    printJson({ api_key: apiKey, ...present(credential) });
    return;
  }
  const { id, client, organization, scopes, expires_at } = present(credential);
  const until = expires_at === undefined ? 'valid until revoked' : `valid until ${expires_at}`;
  note(
    `${id}: client ${client} of ${organization}, ${scopes.join(', ')}, ${until}. Keep the key: it is not shown again.`,
  );
  print(apiKey);
}

async function findKey(store: Store, keyId: string): Promise<Credential> {
  const credential = (await store.credentials.all()).find(({ id }) => id === keyId);
  if (credential !== undefined) return credential;
  throw new OperatorError(`there is no key ${keyId}; see \`pdfseal keys list\``, { code: 'not_found' });
}

function stateOf({ revokedAt, expiresAt }: Credential, now: number): 'active' | 'revoked' | 'expired' {
  if (revokedAt !== undefined) return 'revoked';
  return expiresAt !== undefined && expiresAt <= now ? 'expired' : 'active';
}

function present(credential: Credential) {
  return {
    id: credential.id,
    client: credential.clientId,
    organization: credential.organization,
    scopes: credential.scopes,
    state: stateOf(credential, systemClock()),
    created_at: toRfc3339(credential.createdAt),
    ...(credential.expiresAt !== undefined && { expires_at: toRfc3339(credential.expiresAt) }),
    ...(credential.revokedAt !== undefined && { revoked_at: toRfc3339(credential.revokedAt) }),
    ...(credential.replacedBy !== undefined && { replaced_by: credential.replacedBy }),
  };
}

function parseScopes(text: string): Scope[] {
  return [...new Set(text.split(','))].map((name) => {
    const scope = SCOPES.find((known) => known === name.trim());
    if (scope === undefined) throw new InvalidArgumentError(`Expected scopes from ${SCOPES.join(', ')}.`);
    return scope;
  });
}
