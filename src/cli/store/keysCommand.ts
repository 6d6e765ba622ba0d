import {
  issueApiKey,
  listApiKeys,
  type PresentedKey,
  revokeApiKey,
  rotateApiKey,
} from '../../ops/apiKeyOperations.ts';
import { group, option } from '../command.ts';
import { operationCommand } from '../operationCommand.ts';
import { note, print, printResult, printRows } from '../terminal.ts';
import { forPeople } from '../times.ts';
import { readBinding } from './certificateOptions.ts';

const FORMERLY = { '--expires': '--for', '--validity': '--for' } as const;

const issueCommand = operationCommand('issue', issueApiKey, {
  options: [
    option(
      '--bind-certificate <file>',
      'PEM file with the client certificate of the client: the key is refused on a connection without it',
      { conflicts: 'certificateName' },
    ),
  ],
  finds: ['bound_certificate_sha256'],
  find: ({ bindCertificate }) => bindingIn(bindCertificate),
  formerly: FORMERLY,
  examples: [
    'pdfseal keys issue --config production.toml --client invoices --organization acme --for 365d',
    'pdfseal keys issue --config production.toml --client audit --organization acme --scopes jobs:read >audit.key',
  ],
  show({ api_key: apiKey, ...key }) {
    if (apiKey === undefined) printResult(key, () => note(describeIssued(key)));
    else printNewKey(apiKey, key);
  },
});

const listCommand = operationCommand('list', listApiKeys, {
  examples: [
    'pdfseal keys list --config production.toml',
    `pdfseal keys list --config production.toml --json | jq -r 'select(.state == "active") | .id'`,
  ],
  show: ({ keys }) =>
    printRows(keys, {
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
    }),
});

const rotateCommand = operationCommand('rotate', rotateApiKey, {
  options: [
    option(
      '--bind-certificate <file>',
      'PEM file with the client certificate to bind the new key to (default: that of the old key, if it is bound)',
    ),
  ],
  finds: ['bound_certificate_sha256'],
  find: ({ bindCertificate }) => bindingIn(bindCertificate),
  formerly: FORMERLY,
  examples: [
    'pdfseal keys rotate key_0a1b2c3d4e5f6071 --config production.toml --overlap 7d',
    'pdfseal keys rotate key_0a1b2c3d4e5f6071 --config production.toml --overlap 0s   (the old key ends now)',
  ],
  show({ api_key: apiKey, ...key }) {
    const { replaced_expires_at: end } = key;
    note(end <= key.created_at ? `${key.replaces} has ended` : `${key.replaces} stays valid until ${end}`);
    printNewKey(apiKey, key);
  },
});

const revokeCommand = operationCommand('revoke', revokeApiKey, {
  asks: (id) => `${id} will never be valid again.`,
  examples: [
    'pdfseal keys revoke key_0a1b2c3d4e5f6071 --config production.toml',
    'pdfseal keys revoke key_0a1b2c3d4e5f6071 --config production.toml --with-successors   (the key was stolen)',
  ],
  show: (answer) =>
    printResult(answer, () => {
      const { id: keyId, client, revoked_successors: ended, active_successors: active } = answer;
      for (const id of [keyId, ...ended]) note(`${id} of client ${client} is revoked`);
      for (const id of active)
        note(`${id}, which replaced it, stays valid; to end it: pdfseal keys revoke ${id}`);
      if (active.length > 0)
        note(
          `If ${keyId} was stolen, end all keys that replaced it: pdfseal keys revoke ${keyId} --with-successors`,
        );
      for (const { id, url, status, disabled_now: isDisabledNow } of answer.webhook_endpoints) {
        const what = isDisabledNow
          ? `is now disabled: no valid key of the client can manage it; to enable it: pdfseal webhooks enable ${id}`
          : status === 'enabled'
            ? `still receives messages; to stop them: pdfseal webhooks disable ${id}`
            : 'was already disabled';
        note(`webhook endpoint ${id} (${url}) ${what}`);
      }
    }),
});

export const keysCommand = group(
  'keys',
  'Manages API keys. Each key belongs to a client, and each client to an organization. Changes take effect at once, also in a ' +
    'running daemon, which reads the store for every request.',
  [issueCommand, listCommand, rotateCommand, revokeCommand],
);

function bindingIn(file: string | undefined) {
  return file === undefined ? {} : { bound_certificate_sha256: readBinding(file) };
}

/** Prints only the key on standard output, so that it can be written straight into a file or a secret store. */
function printNewKey(apiKey: string, key: PresentedKey): void {
  printResult({ api_key: apiKey, ...key }, () => {
    note(`${describeIssued(key)} Keep the key: it is not shown again.`);
    print(apiKey);
  });
}

function describeIssued(key: PresentedKey): string {
  const { id, client, organization, scopes, expires_at: end, certificate_name: name } = key;
  const { bound_certificate_sha256: boundTo } = key;
  const until = end === undefined ? 'valid until revoked' : `valid until ${end}`;
  const bound = boundTo === undefined ? '' : `, bound to the certificate ${boundTo}`;
  const named = name === undefined ? '' : `client certificates named ${name} stand for `;
  return `${id}: ${named}client ${client} of ${organization}, ${scopes.join(', ')}, ${until}${bound}.`;
}
