import {
  closeSync,
  constants,
  existsSync,
  fstatSync,
  openSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { OperatorError } from '../../base/errors.ts';
import { tryLock } from '../../base/flock.ts';
import { makeFolder, syncTree } from '../../base/folders.ts';
import { packageVersion } from '../../base/package.ts';
import { type Config, loadConfig } from '../../config/config.ts';
import type { ActName, ActObject } from '../../manifest/auditRecord.ts';
import { actOfProcess } from '../../store/acts.ts';
import { requireFolder } from '../../store/engines.ts';
import { copyStore } from '../../store/lmdb/copyStore.ts';
import { command, option } from '../command.ts';
import { CONFIG, parseCountArgument } from '../options.ts';
import { printResult } from '../terminal.ts';
import { withStore, withStoreAt } from '../withStore.ts';
import {
  asOperatorError,
  type BackupFile,
  copyFolder,
  copySigners,
  DESCRIPTION,
  digestTree,
  FOLDERS,
  requireGood,
  SIGNERS,
  storeIn,
  TRUST_FILE,
} from './backupFolder.ts';
import { noteBackup, noteChore } from './chores.ts';

export const backupCommand = command('backup', {
  description:
    'Copies the state of an environment: the store at one moment, the certificates, the stripped documents, the trust file and what signers ' +
    'without a user of their own remember. The daemon can keep running. The command opens the copy, checks it as `pdfseal check` does, and only then gives the folder its name, so a folder ' +
    'with that name is complete. Keys stay in the HSM; back them up with the tools of its vendor.',
  options: [
    CONFIG,
    option('--output <path>', 'folder of the copy, which must not exist yet', { required: true }),
    option('--dated', 'make the copy within that folder instead, named after the time'),
    option(
      '--keep <count>',
      'with --dated: keep this number of the newest copies, and the last copy of each of this number of days',
      parseCountArgument,
    ),
  ],
  formerly: { '--into': '--output --dated' },
  examples: [
    'pdfseal backup --config /etc/pdfseal/production.toml --output /backup/before-upgrade',
    'pdfseal backup --config /etc/pdfseal/production.toml --output /var/backups/pdfseal/production --dated --keep 14',
  ],
  async run({ config: file, output, dated, keep }) {
    const config = loadConfig(file, { files: 'unused' });
    const target = dated ? nameIn(output) : resolve(output);
    const make = () => makeBackup(config, target);
    const made = dated ? await noteBackup(config.stateDir, make) : await make();
    printResult({ backup: target, ...made }, `${target}: ${made.tree_size} leaves, checked`);
    if (dated && keep !== undefined) await removeOldest(config, output, keep);
  },
});

const IN_DATABASE =
  'back up the database with its own tools, and copy the configuration, and state_dir without refused-pins; see "PostgreSQL" in the manual';

/** Path in that folder for a backup that is made now. */
export function nameIn(folder: string): string {
  return resolve(folder, nameAt(Date.now()));
}

const COPY = /^\d{4}-\d\d-\d\dT\d{6}\.\d{3}Z$/;
const DRAFT = /^\d{4}-\d\d-\d\dT\d{6}\.\d{3}Z\.part$/;

function nameAt(time: number): string {
  return new Date(time).toISOString().replaceAll(':', '');
}

/**
 * Makes a backup; `flawsMax` as in {@link requireGood}. Throws OperatorError, and leaves nothing, if the copy cannot be written or is bad.
 */
export async function makeBackup(
  config: Config,
  target: string,
  options?: { flawsMax: number },
): Promise<BackupFile> {
  const folder = requireFolder(config.store, IN_DATABASE);
  refuseExisting(target);
  const draft = `${target}.part`;
  try {
    removeUnfinished(dirname(target));
    using _taken = takeDraft(draft);
    return await publish(draft, target, config, async () => {
      const copy = (name: string) => copyFolder(join(config.stateDir, name), join(draft, name));
      copy(TRUST_FILE);
      copySigners(join(config.stateDir, SIGNERS), join(draft, SIGNERS));
      await copyStore(folder, join(draft, 'store'));
      FOLDERS.forEach(copy);
      return checked(draft, config, options);
    });
  } catch (error) {
    throw asOperatorError(error, `cannot write ${target}`);
  }
}

/** Gives the draft its name once `fill` has made a good copy of it; removes it otherwise. */
async function publish(
  draft: string,
  target: string,
  config: Config,
  fill: () => Promise<BackupFile>,
): Promise<BackupFile> {
  try {
    refuseExisting(target); // The previous holder of the draft may have finished it.
    const made = await fill();
    writeFileSync(join(draft, DESCRIPTION), `${JSON.stringify(made, undefined, 2)}\n`);
    await syncTree(draft);
    renameSync(draft, target);
    await syncTree(target);
    await record(config, 'backup.make', { folder: target, tree_size: made.tree_size });
    noteChore(config.stateDir, 'backup', { good: true, tree_size: made.tree_size });
    return made;
  } catch (error) {
    rmSync(draft, { recursive: true, force: true });
    throw error;
  }
}

function refuseExisting(target: string): void {
  if (existsSync(target))
    throw new OperatorError(`${target} already exists, and a backup is never overwritten`, {
      remedy:
        'name a folder that does not exist, or add --dated: then each backup has a folder of its own there',
    });
}

/** A symbolic link in its place is not followed. */
const FOLDER = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;

/**
 * Makes the folder of a draft, for this command alone. If a killed command left it, it is emptied. The lock is on the folder itself, so it
 * ends with the process, and leaves no file. Throws OperatorError while another command holds it.
 */
function takeDraft(draft: string): Disposable {
  makeFolder(draft, 0o700);
  using opened = new DisposableStack();
  const folder = openSync(draft, FOLDER);
  opened.defer(() => closeSync(folder));
  // The previous holder of the lock may have renamed the folder, or removed it.
  const isOwn = isFree(folder) && statSync(draft, { throwIfNoEntry: false })?.ino === fstatSync(folder).ino;
  if (!isOwn)
    throw new OperatorError(`another command writes ${draft}`, { remedy: 'wait until it has ended' });
  for (const name of readdirSync(draft)) rmSync(join(draft, name), { recursive: true });
  return opened.move();
}

/** Some network file systems do not lock folders: there, other commands are not kept off. */
function isFree(folder: number): boolean {
  try {
    return tryLock(folder, 'exclusive');
  } catch {
    return true;
  }
}

/** Opens the copy and checks it as `pdfseal check` does. */
async function checked(
  folder: string,
  config: Config,
  options: { flawsMax: number } | undefined,
): Promise<BackupFile> {
  const createdAt = new Date().toISOString();
  return withStoreAt(storeIn(folder), { readOnly: true }, async (store) => {
    const flaws = await requireGood(store, config, options);
    const head = await store.log.head();
    return {
      environment: store.identity.environment,
      log_origin: store.identity.logOrigin,
      tree_size: head?.treeSize ?? 0,
      index_flaws: flaws,
      checkpoint: head?.checkpoint ?? null,
      created_at: createdAt,
      version: packageVersion(),
      files: await digestTree(folder),
    };
  });
}

const UNFINISHED_MS_MAX = 24 * 3_600_000;

/** Removes the drafts of killed commands, each of which takes as much space as a copy. */
function removeUnfinished(into: string): void {
  const drafts = existsSync(into) ? readdirSync(into).filter((name) => DRAFT.test(name)) : [];
  const dead = nameAt(Date.now() - UNFINISHED_MS_MAX);
  for (const name of drafts) if (name < dead) rmSync(join(into, name), { recursive: true });
}

/**
 * Copies have their times as names, so the names sort by time. The last one of each day stays for that many days: a burst of copies on one
 * day does not displace those of earlier days.
 */
async function removeOldest(config: Config, into: string, keep: number): Promise<void> {
  const copies = readdirSync(into)
    .filter((name) => COPY.test(name))
    .sort();
  const lastOfDays = [...new Map(copies.map((name) => [name.slice(0, 10), name])).values()];
  const kept = new Set([...copies.slice(-keep), ...lastOfDays.slice(-keep)]);
  const outdated = copies.filter((name) => !kept.has(name));
  if (outdated.length === 0) return;
  await record(config, 'backup.remove', { into: resolve(into), folders: outdated });
  for (const name of outdated) rmSync(join(into, name), { recursive: true });
}

async function record({ file }: Config, name: ActName, object: ActObject): Promise<void> {
  await withStore(file, 'write', ({ trail }) => trail.append(actOfProcess('command', name, object)));
}
