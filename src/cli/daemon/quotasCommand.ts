import { systemClock } from '../../base/clock.ts';
import { formatDuration } from '../../base/units.ts';
import { type Config, loadConfig } from '../../config/config.ts';
import type { PresentedLimit } from '../../health/sections/quotasSection.ts';
import { storedQuotas } from '../../health/sections/quotasSection.ts';
import { listQuotas } from '../../ops/daemonOperations.ts';
import type { Store } from '../../store/store.ts';
import { command, group, option } from '../command.ts';
import { CONFIG, parseNameArgument } from '../options.ts';
import { printRows } from '../terminal.ts';
import { forPeople } from '../times.ts';
import { withStore } from '../withStore.ts';
import { NobodyAnswers } from './adminClient.ts';
import { askOperation } from './operationClient.ts';

const listCommand = command('list', {
  description:
    'Lists how much of its quotas each client has used in the current window. Rates of requests are listed while the daemon ' +
    'runs, because only the daemon counts them.',
  options: [CONFIG, option('--client <name>', 'only limits of this client', parseNameArgument)],
  examples: [
    'pdfseal quotas list --config /etc/pdfseal/production.toml --client invoices',
    `pdfseal quotas list --config /etc/pdfseal/production.toml --json | jq 'select(.used >= .limit)'`,
  ],
  async run({ config: file, client }) {
    const rates = await ratesOf(loadConfig(file, { files: 'unused' }));
    const usages = [...rates, ...(await withStore(file, 'read', quotasOf))]
      .filter((one) => client === undefined || one.client === client)
      .sort((a, b) => (a.client === b.client ? 0 : a.client < b.client ? -1 : 1));
    printRows(usages, {
      CLIENT: (one) => one.client,
      'LIMIT OF': ({ kind, name }) => (kind === 'rate' ? 'requests' : `jobs: ${name}`),
      USED: ({ used }) => String(used),
      LIMIT: ({ limit }) => String(limit),
      WINDOW: ({ window_seconds: seconds }) => formatDuration(seconds * 1000),
      RESETS: ({ resets_at: at }) => forPeople(at),
    });
  },
});

export const quotasCommand = group(
  'quotas',
  'Shows how much of their limits clients have used. The config file sets the limits: [quotas.<purpose>], [limits.rate], [clients.<name>].',
  [listCommand],
);

interface Usage extends PresentedLimit {
  client: string;
  kind: 'quota' | 'rate';
  /** The purpose of the quota, or `default`. */
  name?: string;
}

async function quotasOf(store: Store, { policies }: Config): Promise<Usage[]> {
  const clients = await storedQuotas(store, policies, systemClock());
  return clients.flatMap(({ client_id: client, quotas }) =>
    quotas.map(({ name, ...limit }) => ({ client, kind: 'quota' as const, name, ...limit })),
  );
}

async function ratesOf({ admin }: Config): Promise<Usage[]> {
  try {
    const { clients } = await askOperation(listQuotas, admin.socket, {});
    return clients.flatMap(({ client_id: client, rate }) =>
      rate === undefined ? [] : [{ client, kind: 'rate' as const, ...rate }],
    );
  } catch (error) {
    if (error instanceof NobodyAnswers) return [];
    throw error;
  }
}
