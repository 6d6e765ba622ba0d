import { Command, InvalidArgumentError, Option } from 'commander';
import { toRfc3339 } from '../../base/clock.ts';
import { actorOfProcess } from '../../store/acts.ts';
import { type Credential, SCOPES, type Scope } from '../../store/credentialStore.ts';
import { issueKey, replaceKey } from '../../store/keyActs.ts';
import { explain } from '../help.ts';
import { configOption, parseDurationArgument, parseNameArgument, withStore } from '../options.ts';
import { isJson, note, print, printJson, printResult, printRows } from '../terminal.ts';
import { forPeople } from '../times.ts';
import { parseCertificateName, readBinding, requireClientCa } from './certificateOptions.ts';
import { presentKey, revokeKey } from './revokeKeys.ts';

interface StoreOptions {
  config: string;
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
        '--for <duration>',
        'how long the key is valid, such as 1h or 90d (default: until it is revoked)',
        parseDurationArgument,
      )
      .option(
        '--bind-certificate <file>',
        'PEM file with the client certificate of the client: the key is refused on a connection without it',
      )
      .addOption(
        new Option(
          '--certificate-name <name>',
          'creates no key: client certificates with this name stand for the client. A subject (CN=invoices,O=Example), DNS:<name> or URI:<uri>',
        )
          .argParser(parseCertificateName)
          .conflicts('bindCertificate'),
      )
      .action(issue),
    {
      formerly: { '--expires': '--for', '--validity': '--for' },
      examples: [
        'pdfseal keys issue --config production.toml --client invoices --organization acme --for 365d',
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
        '--for <duration>',
        'how long the new key is valid (default: as long as the old key was when it was issued)',
        parseDurationArgument,
      )
      .option(
        '--bind-certificate <file>',
        'PEM file with the client certificate to bind the new key to (default: that of the old key, if it is bound)',
      )
      .action(rotate),
    {
      formerly: { '--expires': '--for', '--validity': '--for' },
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
      .option('--with-successors', 'ends also every key that rotations put in its place')
      .action(revokeKey),
    {
      examples: [
        'pdfseal keys revoke key_0a1b2c3d4e5f6071 --config production.toml',
        'pdfseal keys revoke key_0a1b2c3d4e5f6071 --config production.toml --with-successors   (the key was stolen)',
      ],
    },
  );
  return command;
}

interface IssueOptions extends StoreOptions {
  client: string;
  organization: string;
  scopes: Scope[];
  for?: number;
  bindCertificate?: string;
  certificateName?: string;
}

async function issue({ config: file, ...options }: IssueOptions): Promise<void> {
  const { client: clientId, organization, scopes, for: lifetimeMs, certificateName } = options;
  await withStore(file, 'write', async (store, config) => {
    if (certificateName !== undefined) requireClientCa(config);
    const boundTo =
      options.bindCertificate === undefined ? undefined : readBinding(options.bindCertificate, config);
    const holder = { clientId, organization, scopes, ...(boundTo !== undefined && { boundTo }) };
    const wanted = { holder, certificateName, lifetimeMs };
    const { apiKey, credential } = await issueKey(store, wanted, actorOfProcess('command'));
    if (certificateName === undefined) printNewKey(apiKey, credential);
    else printResult(presentKey(credential), () => note(describeIssued(credential)));
  });
}

async function list({ config, client }: StoreOptions & { client?: string }): Promise<void> {
  const credentials = await withStore(config, 'read', (store) => store.credentials.all());
  const wanted = credentials
    .filter(({ clientId }) => client === undefined || clientId === client)
    .sort((a, b) => a.createdAt - b.createdAt);
  printRows(wanted.map(presentKey), {
    KEY: ({ id }) => id,
    CLIENT: ({ client }) => client,
    ORGANIZATION: ({ organization }) => organization,
    SCOPES: ({ scopes }) => scopes.join(','),
    STATE: ({ state }) => state,
    CREATED: ({ created_at: at }) => at,
    CERTIFICATE: ({ certificate_name: name, bound_certificate_sha256: bound }) =>
      name ?? (bound === undefined ? '' : `bound to ${bound.slice(0, 16)}…`),
    EXPIRES: ({ expires_at: at }) => (at === undefined ? 'never' : forPeople(at)),
    'REPLACED BY': ({ replaced_by: successor = '' }) => successor,
  });
}

interface RotateOptions extends StoreOptions {
  overlap: number;
  for?: number;
  bindCertificate?: string;
}

async function rotate(keyId: string, { config: file, overlap, ...options }: RotateOptions): Promise<void> {
  await withStore(file, 'write', async (store, config) => {
    const boundTo =
      options.bindCertificate === undefined ? undefined : readBinding(options.bindCertificate, config);
    const wanted = { overlapMs: overlap, lifetimeMs: options.for, boundTo };
    const rotation = await replaceKey(store, keyId, wanted, actorOfProcess('command'));
    const { expiresAt = 0 } = rotation.replaced;
    note(overlap === 0 ? `${keyId} has ended` : `${keyId} stays valid until ${toRfc3339(expiresAt)}`);
    printNewKey(rotation.apiKey, rotation.successor);
  });
}

/** Only the key goes to standard output, so that it can be written straight into a file or a secret store. */
function printNewKey(apiKey: string, credential: Credential): void {
  if (isJson()) {
    printJson({ api_key: apiKey, ...presentKey(credential) });
    return;
  }
  note(`${describeIssued(credential)} Keep the key: it is not shown again.`);
  print(apiKey);
}

function describeIssued(credential: Credential): string {
  const { id, client, organization, scopes, expires_at, certificate_name } = presentKey(credential);
  const until = expires_at === undefined ? 'valid until revoked' : `valid until ${expires_at}`;
  const bound = credential.boundTo === undefined ? '' : `, bound to the certificate ${credential.boundTo}`;
  const named =
    certificate_name === undefined ? '' : `client certificates named ${certificate_name} stand for `;
  return `${id}: ${named}client ${client} of ${organization}, ${scopes.join(', ')}, ${until}${bound}.`;
}

function parseScopes(text: string): Scope[] {
  return [...new Set(text.split(','))].map((name) => {
    const scope = SCOPES.find((known) => known === name.trim());
    if (scope === undefined) throw new InvalidArgumentError(`Expected scopes from ${SCOPES.join(', ')}.`);
    return scope;
  });
}
