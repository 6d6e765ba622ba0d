import { accessSync, constants, statSync } from 'node:fs';
import { OperatorError } from '../base/errors.ts';
import { systemReason } from '../base/systemReason.ts';
import type { PartitionOptions } from '../kms/partitions.ts';
import type { TlsFiles } from '../net/tls.ts';
import type { ClockSource } from '../tsa/synchronization.ts';
import type { ConfigTables } from './schema.ts';
import { fault, type KeyPath } from './toml.ts';

/** As much of the configuration as names files. */
interface Config {
  readonly file: string;
  readonly http: { readonly tls?: TlsFiles };
  readonly kms: { readonly partitions: readonly PartitionOptions[] };
  readonly timestamp: {
    readonly authorities: readonly string[];
    readonly keys: readonly PartitionOptions[];
    readonly remotes: Readonly<Record<string, Remote>>;
  };
  readonly sources: { readonly caFile?: string };
  readonly webhooks: { readonly caFile?: string };
  readonly clock: ClockSource;
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
}

/** Throws OperatorError with a line for each file that is named and cannot be read. */
export function checkFiles(config: Config, tables: ConfigTables, text: string): void {
  const files = [
    ...tokenFiles(['kms', 'partitions'], tables.kms.partitions, config.kms.partitions),
    ...tokenFiles(['timestamp', 'keys'], tables.timestamp.keys, config.timestamp.keys),
    ...Object.entries(config.timestamp.remotes).flatMap(remoteFiles),
    ...tlsFiles(config, tables),
    ...caFiles(config),
    ...clockFiles(config),
  ];
  const faults = files.flatMap(({ path, file, expected }) => {
    const why = unreadable(file);
    return why === undefined
      ? []
      : [fault(config.file, text, path, `cannot read ${file} (${why})`, expected)];
  });
  if (faults.length > 0) throw new OperatorError(faults.join('\n'), { code: 'invalid_config' });
}

function tokenFiles(
  list: KeyPath,
  tables: ConfigTables['kms']['partitions'],
  tokens: readonly PartitionOptions[],
): NamedFile[] {
  return tokens.flatMap(({ module, pinFile }, index) => {
    const pinKey = tables[index]?.pin_credential === undefined ? 'pin_file' : 'pin_credential';
    return [
      {
        path: [...list, index, 'module'],
        file: module,
        expected: 'the PKCS#11 module, readable to this user',
      },
      { path: [...list, index, pinKey], file: pinFile, expected: PIN_EXPECTED[pinKey] },
    ];
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
      : [{ path: ['http', 'tls', name], file, expected: 'a PEM file, readable to this user' }],
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
