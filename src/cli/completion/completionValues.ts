import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { type Config, loadConfig } from '../../config/config.ts';
import { kmsKeyId } from '../../manifest/receipt.ts';
import type { Store } from '../../store/store.ts';
import { configuredKeys } from '../hsm/hsmKeys.ts';
import { withStore } from '../options.ts';

/** A word that would fit, and what it means. */
export interface Candidate {
  word: string;
  meaning: string;
}

const FOLDER = '/etc/pdfseal';

type OfConfig = (config: Config) => Candidate[];
type OfStore = (store: Store, config: Config) => Promise<Candidate[]>;

/** Names that stand in the config file. */
const CONFIGURED: Readonly<Record<string, OfConfig>> = {
  '--partition': ({ kms }) => kms.partitions.map((one) => candidate(kmsKeyId(one), 'partition')),
  '--new-keys': ({ kms }) => [
    candidate('all', 'a new key in every partition'),
    candidate('none', 'the keys there are'),
    ...kms.partitions.map((one) => candidate(kmsKeyId(one), 'this partition alone')),
  ],
  '--region': (config) =>
    configuredKeys(config).map(({ token, purpose }) => candidate(token.region, purpose)),
  '--key-label': (config) =>
    configuredKeys(config).map(({ token, purpose }) =>
      candidate(token.keyLabel, `${purpose}, ${token.region}`),
    ),
};

/** What only the store knows. */
const STORED: Readonly<Record<string, OfStore>> = {
  key_id: async (store) =>
    (await store.credentials.all()).map(({ id, clientId, revokedAt }) =>
      candidate(id, `client ${clientId}${revokedAt === undefined ? '' : ', revoked'}`),
    ),
  endpoint_id: async (store) =>
    (await store.webhooks.endpoints.all()).map(({ id, clientId, url }) =>
      candidate(id, `${clientId}: ${url}`),
    ),
  '--client': async (store, config) => [
    ...(await store.credentials.all()).map(({ clientId, organization }) => candidate(clientId, organization)),
    ...Object.keys(config.policies.clients).map((name) => candidate(name, 'with limits of its own')),
  ],
  '--organization': async (store, config) => [
    ...(await store.credentials.all()).map(({ organization }) => candidate(organization, '')),
    ...Object.keys(config.organizations).map((name) => candidate(name, '')),
  ],
};

/** Values for the option or argument `name` that an environment knows; none where it cannot be asked. */
export async function valuesFrom(name: string, configFile: string | undefined): Promise<Candidate[]> {
  try {
    if (name === '--config') return configFiles();
    if (configFile === undefined) return [];
    return distinct(await read(name, configFile));
  } catch {
    // Whoever waits for a word is not to be told of a file that is not there yet.
    return [];
  }
}

async function read(name: string, configFile: string): Promise<Candidate[]> {
  const [ofConfig, ofStore] = [CONFIGURED[name], STORED[name]];
  if (ofConfig) return ofConfig(loadConfig(configFile, { files: 'unused' }));
  return ofStore ? withStore(configFile, 'read', ofStore) : [];
}

function configFiles(): Candidate[] {
  const names = readdirSync(FOLDER).filter((name) => name.endsWith('.toml'));
  return names.map((name) => candidate(join(FOLDER, name), 'environment'));
}

function distinct(candidates: readonly Candidate[]): Candidate[] {
  return [...new Map(candidates.toReversed().map((one) => [one.word, one])).values()].toReversed();
}

function candidate(word: string, meaning: string): Candidate {
  return { word, meaning };
}
