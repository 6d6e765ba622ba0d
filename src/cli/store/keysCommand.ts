import { InvalidArgumentError } from 'commander';
import { toRfc3339 } from '../../base/clock.ts';
import { actorOfProcess } from '../../store/acts.ts';
import { type Credential, SCOPES, type Scope } from '../../store/credentialStore.ts';
import { issueKey, replaceKey } from '../../store/keyActs.ts';
import { argument, command, group, option } from '../command.ts';
import { CONFIG, parseDurationArgument, parseLifetimeArgument, parseNameArgument } from '../options.ts';
import { note, print, printResult, printRows } from '../terminal.ts';
import { forPeople } from '../times.ts';
import { withStore } from '../withStore.ts';
import { parseCertificateName, readBinding, requireClientCa } from './certificateOptions.ts';
import { presentKey, revokeKey } from './revokeKeys.ts';

const SCOPES_DEFAULT: Scope[] = ['jobs:create', 'jobs:read'];
const DAY_MS = 86_400_000;
const FORMERLY = { '--expires': '--for', '--validity': '--for' } as const;

const issueCommand = command('issue', {
  description:
    'Creates an API key and prints it. This is the only time: the store keeps only the SHA-256 of the key.',
  options: [
    CONFIG,
    option('--client <name>', 'client that uses the key', { parse: parseNameArgument, required: true }),
    option('--organization <name>', 'organization of the client', {
      parse: parseNameArgument,
      required: true,
    }),
    option('--scopes <list>', `scopes with commas between them: ${SCOPES.join(', ')}`, {
      parse: parseScopes,
      default: SCOPES_DEFAULT,
      shown: SCOPES_DEFAULT.join(','),
    }),
    option(
      '--for <duration>',
      'how long the key is valid, such as 1h or 90d (default: until it is revoked)',
      parseLifetimeArgument,
    ),
    option(
      '--bind-certificate <file>',
      'PEM file with the client certificate of the client: the key is refused on a connection without it',
    ),
    option(
      '--certificate-name <name>',
      'creates no key: client certificates with this name stand for the client. A subject (CN=invoices,O=Example), DNS:<name> or URI:<uri>',
      { parse: parseCertificateName, conflicts: 'bindCertificate' },
    ),
  ],
  formerly: FORMERLY,
  examples: [
    'pdfseal keys issue --config production.toml --client invoices --organization acme --for 365d',
    'pdfseal keys issue --config production.toml --client audit --organization acme --scopes jobs:read >audit.key',
  ],
  async run({ config: file, client: clientId, organization, scopes, ...options }) {
    const { for: lifetimeMs, bindCertificate, certificateName } = options;
    await withStore(file, 'write', async (store, config) => {
      if (certificateName !== undefined) requireClientCa(config);
      const boundTo = bindCertificate === undefined ? undefined : readBinding(bindCertificate, config);
      const holder = { clientId, organization, scopes, boundTo };
      const wanted = { holder, certificateName, lifetimeMs };
      const { apiKey, credential } = await issueKey(store, wanted, actorOfProcess('command'));
      if (certificateName === undefined) printNewKey(apiKey, credential);
      else printResult(presentKey(credential), () => note(describeIssued(credential)));
    });
  },
});

const listCommand = command('list', {
  description: 'Lists the keys by their ids. The store does not contain the keys themselves.',
  options: [CONFIG, option('--client <name>', 'only keys of this client', parseNameArgument)],
  examples: [
    'pdfseal keys list --config production.toml',
    `pdfseal keys list --config production.toml --json | jq -r 'select(.state == "active") | .id'`,
  ],
  async run({ config, client }) {
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
  },
});

const rotateCommand = command('rotate', {
  description: 'Creates a key that replaces another one. The old key stays valid for the overlap.',
  arguments: [argument('<key_id>', 'id of the key to replace (key_…)')],
  options: [
    CONFIG,
    option('--overlap <duration>', 'how long the old key stays valid', {
      parse: parseDurationArgument,
      default: DAY_MS,
      shown: '1d',
    }),
    option(
      '--for <duration>',
      'how long the new key is valid (default: as long as the old key was when it was issued)',
      parseLifetimeArgument,
    ),
    option(
      '--bind-certificate <file>',
      'PEM file with the client certificate to bind the new key to (default: that of the old key, if it is bound)',
    ),
  ],
  formerly: FORMERLY,
  examples: [
    'pdfseal keys rotate key_0a1b2c3d4e5f6071 --config production.toml --overlap 7d',
    'pdfseal keys rotate key_0a1b2c3d4e5f6071 --config production.toml --overlap 0s   (the old key ends now)',
  ],
  async run({ config: file, overlap, for: lifetimeMs, bindCertificate }, keyId) {
    await withStore(file, 'write', async (store, config) => {
      const boundTo = bindCertificate === undefined ? undefined : readBinding(bindCertificate, config);
      const wanted = { overlapMs: overlap, lifetimeMs, boundTo };
      const rotation = await replaceKey(store, keyId, wanted, actorOfProcess('command'));
      const { expiresAt = 0 } = rotation.replaced;
      note(overlap === 0 ? `${keyId} has ended` : `${keyId} stays valid until ${toRfc3339(expiresAt)}`);
      printNewKey(rotation.apiKey, rotation.successor);
    });
  },
});

const revokeCommand = command('revoke', {
  description:
    'Revokes a key immediately and permanently, and lists the webhook endpoints of its client. An endpoint that no other valid key of the client ' +
    'can manage is disabled; if the client has no valid key left, all of its endpoints are.',
  arguments: [argument('<key_id>', 'id of the key (key_…)')],
  options: [CONFIG, option('--with-successors', 'ends also every key that rotations put in its place')],
  examples: [
    'pdfseal keys revoke key_0a1b2c3d4e5f6071 --config production.toml',
    'pdfseal keys revoke key_0a1b2c3d4e5f6071 --config production.toml --with-successors   (the key was stolen)',
  ],
  run: ({ config, withSuccessors }, keyId) => revokeKey(config, keyId, withSuccessors === true),
});

export const keysCommand = group(
  'keys',
  'Manages API keys. Each key belongs to a client, and each client to an organization. Changes take effect at once, also in a ' +
    'running daemon, which reads the store for every request.',
  [issueCommand, listCommand, rotateCommand, revokeCommand],
);

/** Prints only the key on standard output, so that it can be written straight into a file or a secret store. */
function printNewKey(apiKey: string, credential: Credential): void {
  printResult({ api_key: apiKey, ...presentKey(credential) }, () => {
    note(`${describeIssued(credential)} Keep the key: it is not shown again.`);
    print(apiKey);
  });
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
