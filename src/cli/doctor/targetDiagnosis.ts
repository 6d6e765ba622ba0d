import type { Config } from '../../config/config.ts';
import { uselessEntries } from '../../web/policy.ts';
import { type Diagnosis, warning } from './diagnosis.ts';

/** Entries of the lists of targets that can never allow what they name. */
export function diagnoseTargets({ sources, webhooks, environment }: Config): Diagnosis[] {
  const lists = { 'sources.allow': sources.allow, 'webhooks.allow': webhooks.allow };
  return Object.entries(lists).flatMap(([key, allow]) =>
    uselessEntries(allow).map(({ entry, address, isForbidden }) =>
      isForbidden
        ? warning(key, `"${entry}" allows nothing: no entry can allow ${address}`, 'remove the entry')
        : warning(
            key,
            `"${entry}" allows nothing: ${address} is not a public address, and no network of the list contains it`,
            `add its network to ${key}, such as "${address}"; unless it is of this machine, also allow it in IPAddressAllow= of pdfseal-egress@${environment}.service`,
          ),
    ),
  );
}
