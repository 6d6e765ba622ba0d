import { existsSync, lstatSync, type Stats, statfsSync } from 'node:fs';
import { userInfo } from 'node:os';
import { dirname } from 'node:path';
import { fromEnvironment } from '../../base/env.ts';
import { systemReason } from '../../base/systemReason.ts';
import type { Config } from '../../config/config.ts';
import { bad, type Diagnosis, good, warning } from './diagnosis.ts';

const OTHERS_WRITE = 0o002;
const OTHERS_ANYTHING = 0o007;

interface Rule {
  what: string;
  path: string;
  /** Permission bits it must not have. */
  never: number;
  /** Whether it must have the same owner as the state folder. */
  owned?: boolean;
  /** Whether it may be missing. */
  optional?: boolean;
}

/** Owners and permissions of the files. */
export function* diagnoseFiles(config: Config): Iterable<Diagnosis> {
  const tokens = [...config.kms.partitions, ...config.timestamp.keys];
  const secrets = new Map(
    tokens
      .filter(({ signer }) => signer === undefined)
      .map(({ module, pinFile }) => [pinFile, module === undefined ? 'software key' : 'PIN file']),
  );
  const { policy } = config.witness;
  const rules: Rule[] = [
    { what: 'configuration', path: config.file, never: OTHERS_WRITE },
    { what: 'state folder', path: config.stateDir, never: OTHERS_WRITE, owned: true },
    ...(config.store.engine === 'lmdb'
      ? [{ what: 'store', path: config.store.path, never: OTHERS_ANYTHING, owned: true }]
      : passwordRule(config.store)),
    { what: 'lock', path: config.lockFile, never: OTHERS_WRITE, owned: true, optional: true },
    { what: 'trust file', path: config.trustFile, never: OTHERS_WRITE, optional: true },
    ...(policy === undefined ? [] : [{ what: 'witness policy', path: policy, never: OTHERS_WRITE }]),
    ...[...secrets].map(([path, what]) => ({ what, path, never: OTHERS_ANYTHING })),
  ];
  const owner = statOf(config.stateDir);
  const faults = rules.flatMap((rule) => judge(rule, owner instanceof Error ? undefined : owner) ?? []);
  yield* faults;
  if (faults.length === 0)
    yield good(
      'files',
      `${rules.length} files and folders have the right owner, and other users cannot change them`,
    );
  if (!(owner instanceof Error)) yield* diagnoseUser(owner);
}

/** File systems of the network, by the numbers of statfs(2). */
const REMOTE: Readonly<Record<number, string>> = {
  26985: 'NFS',
  20859: 'SMB',
  4283649346: 'SMB',
  4266872130: 'SMB',
  12805120: 'Ceph',
  1397113167: 'AFS',
};

/** On some file systems of the network, a lock holds on one machine only, and no start can find that out. */
export function* diagnoseFileSystem(
  { stateDir, store }: Pick<Config, 'stateDir' | 'store'>,
  typeOf = (path: string) => statfsSync(path).type,
): Iterable<Diagnosis> {
  if (store.engine !== 'lmdb' || !existsSync(stateDir)) return;
  const name = REMOTE[typeOf(stateDir)];
  if (name === undefined) return;
  yield warning(
    'file system',
    `${stateDir} is on ${name}: daemons of two machines could write to one store, and damage it`,
    'move state_dir to a disk of this machine; for two machines, set store.engine to "postgresql"',
  );
}

function passwordRule({ passwordFile }: { passwordFile?: string }): Rule[] {
  return passwordFile === undefined
    ? []
    : [{ what: 'password file', path: passwordFile, never: OTHERS_ANYTHING }];
}

/** Names of an earlier version still work. */
export function* diagnoseNames({ formerNames }: Config): Iterable<Diagnosis> {
  if (formerNames.length > 0)
    yield warning('names', formerNames.join('\n'), 'use the new names; the old names still work');
}

function judge(
  { what, path, never, owned = false, optional = false }: Rule,
  owner: Stats | undefined,
): Diagnosis | undefined {
  const found = statOf(path);
  if (found instanceof Error) {
    const isMissing = 'code' in found && found.code === 'ENOENT';
    if (isMissing && optional) return undefined;
    const remedy =
      isMissing && !['PIN file', 'software key', 'password file', 'witness policy'].includes(what)
        ? 'create it with `pdfseal init`, or correct state_dir'
        : 'correct the path, or the permissions';
    return bad('files', `the ${what} ${path}: ${systemReason(found)}`, remedy);
  }
  const excess = found.mode & never;
  if (excess !== 0) {
    const mode = (found.mode & 0o777).toString(8).padStart(4, '0');
    const rights = excess === OTHERS_WRITE ? 'w' : 'rwx';
    const remedy = `chmod o-${rights} ${path}`;
    return bad('files', `the ${what} ${path} has mode ${mode}: other users have access`, remedy);
  }
  if (owned && owner !== undefined && found.uid !== owner.uid) {
    const detail = `the ${what} ${path} belongs to user ${found.uid}, but the state folder to user ${owner.uid}`;
    return bad('files', detail, `chown ${owner.uid} ${path}`);
  }
  return undefined;
}

/** Whether systemd has not passed this credential to us, and no daemon of the unit runs either. */
export function isAway(credential: string): boolean {
  return fromEnvironment('CREDENTIALS_DIRECTORY') === undefined && !existsSync(dirname(credential));
}

/** A file that this user cannot read may be readable for the daemon. */
function* diagnoseUser(owner: Stats): Iterable<Diagnosis> {
  const { uid } = userInfo();
  if (uid === owner.uid || uid === 0) return;
  const detail = `this command runs as user ${uid}, but the installation belongs to user ${owner.uid}`;
  yield warning('user', detail, 'run it as that user or as root, to see what the daemon sees');
}

function statOf(path: string): Stats | Error {
  try {
    return lstatSync(path);
  } catch (error) {
    return error as Error;
  }
}
