import { join, resolve } from 'node:path';
import { assert } from '../base/assert.ts';
import { credentialsDirectory } from '../base/env.ts';
import type { PartitionOptions } from '../kms/partitions.ts';
import type { LimitPolicies, QuotaPolicy, RatePolicy } from '../limits/policies.ts';
import { formatAddress } from '../net/address.ts';
import type { TlsFiles } from '../net/tls.ts';
import type { ClockSource } from '../tsa/synchronization.ts';
import type { ConfigTables } from './schema.ts';

export function toTls(
  table: NonNullable<ConfigTables['http']['tls']>,
  environment: string,
  folder: string,
): TlsFiles {
  return {
    certificateFile: resolve(folder, table.certificate_file),
    keyFile: secretFile(table.key_file, table.key_credential, environment, folder),
    ...(table.client_ca_file !== undefined && { clientCaFile: resolve(folder, table.client_ca_file) }),
  };
}

/** A Unix socket alone has none: then the file must say it. */
export function defaultUrl({ listen, tls }: ConfigTables['http']): string {
  const address = listen.find((each) => 'host' in each);
  assert(address, 'the file was checked for it');
  return `${tls ? 'https' : 'http'}://${formatAddress(address)}`;
}

/** One of the two is there. */
function secretFile(
  file: string | undefined,
  credential: string | undefined,
  environment: string,
  folder: string,
): string {
  return credential === undefined
    ? resolve(folder, file ?? '')
    : join(credentialsDirectory() ?? unitCredentials(environment), credential);
}

export function toPolicies({ limits, quotas, clients }: ConfigTables): LimitPolicies {
  return {
    rate: toRate(limits.rate),
    quotas: mapValues(quotas, toQuota),
    clients: mapValues(clients, (own) => ({
      ...(own.rate && { rate: toRate(own.rate) }),
      quotas: mapValues(own.quotas, toQuota),
    })),
  };
}

function toRate({ requests, window }: ConfigTables['limits']['rate']): RatePolicy {
  return { requests, windowMs: window };
}

function toQuota({ jobs, window }: ConfigTables['quotas'][string]): QuotaPolicy {
  return { jobs, windowMs: window };
}

export function mapValues<From, To>(
  record: Record<string, From>,
  map: (value: From) => To,
): Record<string, To> {
  return Object.fromEntries(Object.entries(record).map(([name, value]) => [name, map(value)]));
}

export function toPartition(
  table: ConfigTables['kms']['partitions'][number],
  environment: string,
  folder: string,
): PartitionOptions {
  return {
    region: table.region,
    module: resolve(folder, table.module),
    ...(table.token_label !== undefined && { tokenLabel: table.token_label }),
    ...(table.token_serial !== undefined && { tokenSerial: table.token_serial }),
    keyLabel: table.key_label,
    pinFile: secretFile(table.pin_file, table.pin_credential, environment, folder),
    ...(table.pin_credential !== undefined && {
      pinSource: describeCredential(table.pin_credential, environment, folder),
    }),
    ...(table.environment !== undefined && { environment: table.environment }),
  };
}

export function toClockSource({ trust, program }: ConfigTables['clock'], folder: string): ClockSource {
  return trust === 'system'
    ? { trust }
    : { trust, program: resolve(folder, program ?? CLOCK_PROGRAMS[trust]) };
}

/** The unit of the package makes `pin_<name>` from the file `<name>` of a folder (LoadCredential=); its copy goes with the process. */
function describeCredential(credential: string, environment: string, folder: string): string {
  const [, name] = /^pin_(.+)$/.exec(credential) ?? [];
  return name === undefined
    ? `credential ${credential}`
    : `${join(folder, `${environment}.pins`, name)} (credential ${credential})`;
}

/** Where systemd keeps the credentials of the daemon's unit while it runs; readable to root. */
function unitCredentials(environment: string): string {
  return `/run/credentials/pdfseald@${environment}.service`;
}

/** Where Debian has them. */
const CLOCK_PROGRAMS = { chrony: '/usr/bin/chronyc', timedatectl: '/usr/bin/timedatectl' };
