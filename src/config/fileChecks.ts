import { accessSync, constants, statSync } from 'node:fs';
import { OperatorError } from '../base/errors.ts';
import { systemReason } from '../base/systemReason.ts';
import type { PartitionOptions } from '../kms/partitions.ts';
import { meetsQuorum, type QuorumPolicy } from '../log/quorum.ts';
import type { TlsFiles } from '../net/tls.ts';
import type { ClockSource } from '../tsa/synchronization.ts';
import type { ConfigTables } from './schema.ts';
import { fault, type KeyPath } from './toml.ts';

/** As much of the configuration as names files. */
interface Config {
  readonly file: string;
  readonly http: { readonly tls?: TlsFiles };
  readonly kms: { readonly quorum: QuorumPolicy; readonly partitions: readonly PartitionOptions[] };
  readonly timestamp: {
    readonly authorities: readonly string[];
    readonly keys: readonly PartitionOptions[];
    readonly remotes: Readonly<Record<string, Remote>>;
  };
  readonly sources: { readonly caFile?: string };
  readonly webhooks: { readonly caFile?: string };
  readonly clock: ClockSource;
  readonly tables: ConfigTables;
}

interface Remote {
  readonly rootsFile: string;
  readonly tlsCaFile?: string;
}

interface NamedFile {
  /** The key that names it. */
  path: KeyPath;
  file: string;
  expected: string;
  /** Handed out by systemd. */
  isCredential?: boolean;
}

interface FileCheck {
  /** Of the configuration, for the numbers of its lines. */
  text: string;
  /** Told, a line for each, what a start can do without. */
  tell(line: string): void;
  /** Whether credentials are to be there. */
  credentials: boolean;
}

/**
 * Throws OperatorError with a line for each file that is named and cannot be read. Only told, a line for each, is what a start can do
 * without: PIN files, as long as the partitions whose files can be read meet the quorum.
 */
export function checkFiles(config: Config, { text, tell, credentials }: FileCheck): void {
  const { kms, timestamp, tables } = config;
  const faultsOf = (files: NamedFile[]) =>
    files
      .filter(({ isCredential = false }) => credentials || !isCredential)
      .flatMap((named) => faultOf(named, config.file, text));
  const pins = [
    { ...kms, files: pinFiles(['kms', 'partitions'], tables.kms.partitions, kms.partitions) },
    {
      quorum: { needed: 1 },
      partitions: timestamp.keys,
      files: pinFiles(['timestamp', 'keys'], tables.timestamp.keys, timestamp.keys),
    },
  ].map(({ quorum, partitions, files }) => {
    const usable = partitions.filter((_, index) => faultsOf(files.slice(index, index + 1)).length === 0);
    return { faults: faultsOf(files), suffice: meetsQuorum(quorum, usable) };
  });
  const files = [
    ...moduleFiles(['kms', 'partitions'], kms.partitions),
    ...moduleFiles(['timestamp', 'keys'], timestamp.keys),
    ...Object.entries(config.timestamp.remotes).flatMap(remoteFiles),
    ...tlsFiles(config, tables),
    ...caFiles(config),
    ...clockFiles(config),
  ];
  const fatal = [...pins.flatMap(({ faults, suffice }) => (suffice ? [] : faults)), ...faultsOf(files)];
  if (fatal.length > 0) throw new OperatorError(fatal.join('\n'), { code: 'invalid_config' });
  for (const { faults } of pins) for (const line of faults) tell(line);
}

function faultOf({ path, file, expected }: NamedFile, configFile: string, text: string): string[] {
  const why = unreadable(file);
  return why === undefined ? [] : [fault(configFile, text, path, `cannot read ${file} (${why})`, expected)];
}

function moduleFiles(list: KeyPath, tokens: readonly PartitionOptions[]): NamedFile[] {
  const expected = 'the PKCS#11 module, readable to this user';
  return tokens.map(({ module }, index) => ({ path: [...list, index, 'module'], file: module, expected }));
}

/** One for each token. */
function pinFiles(
  list: KeyPath,
  tables: ConfigTables['kms']['partitions'],
  tokens: readonly PartitionOptions[],
): NamedFile[] {
  return tokens.map(({ pinFile }, index) => {
    const key = tables[index]?.pin_credential === undefined ? 'pin_file' : 'pin_credential';
    const isCredential = key === 'pin_credential';
    return { path: [...list, index, key], file: pinFile, expected: PIN_EXPECTED[key], isCredential };
  });
}

const PIN_EXPECTED = {
  pin_file: 'a file that holds the PIN and nothing else, readable to this user',
  pin_credential:
    'a systemd credential of this unit (LoadCredential=); outside of systemd set CREDENTIALS_DIRECTORY to its folder',
};

/** Also of authorities that are not in use: trust files name the roots of all. */
function remoteFiles([name, { rootsFile, tlsCaFile }]: [string, Remote]): NamedFile[] {
  const at = ['timestamp', 'remotes', name];
  const expected = 'a PEM file, readable to this user';
  return [
    { path: [...at, 'roots_file'], file: rootsFile, expected },
    ...(tlsCaFile === undefined ? [] : [{ path: [...at, 'tls_ca_file'], file: tlsCaFile, expected }]),
  ];
}

function tlsFiles({ http: { tls } }: Config, tables: ConfigTables): NamedFile[] {
  if (tls === undefined) return [];
  const keyName = tables.http.tls?.key_credential === undefined ? 'key_file' : 'key_credential';
  const files = {
    certificate_file: tls.certificateFile,
    [keyName]: tls.keyFile,
    client_ca_file: tls.clientCaFile,
  };
  return Object.entries(files).flatMap(([name, file]) =>
    file === undefined
      ? []
      : [
          {
            path: ['http', 'tls', name],
            file,
            expected: 'a PEM file, readable to this user',
            isCredential: name === 'key_credential',
          },
        ],
  );
}

function caFiles(config: Config): NamedFile[] {
  return (['sources', 'webhooks'] as const).flatMap((table) => {
    const { caFile } = config[table];
    if (caFile === undefined) return [];
    return [{ path: [table, 'ca_file'], file: caFile, expected: 'a PEM file, readable to this user' }];
  });
}

function clockFiles({ timestamp, clock }: Config): NamedFile[] {
  if (clock.trust === 'system' || timestamp.authorities.length === 0) return [];
  const expected = `the program of ${clock.trust}: install it, or choose another clock.trust`;
  return [{ path: ['clock', 'program'], file: clock.program, expected }];
}

function unreadable(path: string): string | undefined {
  try {
    accessSync(path, constants.R_OK);
    return statSync(path).isFile() ? undefined : 'not a file';
  } catch (cause) {
    return systemReason(cause);
  }
}
