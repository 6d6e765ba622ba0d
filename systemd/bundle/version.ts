import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { OperatorError } from '../../src/base/errors.ts';

/** Names one build. Versions are unique and ordered: builds of commits come before the release to which these lead. */
export interface BuildVersion {
  /** Debian's form: `0.2.0`, or `0.2.0~git20261127180000.abcdef123456`. */
  debian: string;
  /** The form of semver, for `package.json`: `0.2.0-git.20261127180000.abcdef123456`. */
  semver: string;
  /** The hash of the commit. Undefined if the tree differs from its commit, or git does not know it. */
  commit: string | undefined;
  /** Time of every file in the bundle, seconds since 1970: that of the commit, without git SOURCE_DATE_EPOCH. */
  epoch: number;
}

const FORM = /^(\d+\.\d+\.\d+)(?:~git(\d{14}\.[0-9a-f]{12}))?$/;

/** The version of the tree at `root`; `wanted` takes its place. Throws OperatorError if nothing names the tree truly. */
export function versionOf(root: string, wanted?: string): BuildVersion {
  // A tree that was unpacked inside of another checkout is not a part of that one.
  const head = git(root, 'rev-parse', '--show-prefix') === '' ? git(root, 'rev-parse', 'HEAD') : undefined;
  const commit = git(root, 'status', '--porcelain') === '' ? head : undefined;
  const epoch = Number(head ? git(root, 'log', '-1', '--format=%ct') : process.env.SOURCE_DATE_EPOCH);
  if (Number.isNaN(epoch) || (head === undefined && wanted === undefined))
    throw new OperatorError(
      `git knows no commit of ${root}, so neither version nor time of the build are known`,
      {
        remedy: 'give --version VERSION, and the time in SOURCE_DATE_EPOCH (seconds since 1970)',
      },
    );
  const debian = wanted ?? ownVersion(root, commit, epoch);
  const [, release, build] = FORM.exec(debian) ?? [];
  if (release === undefined)
    throw new OperatorError(
      `${debian} is not a version such as 1.2.3 or 1.2.3~git20261127180000.abcdef123456`,
    );
  return { debian, semver: build === undefined ? release : `${release}-git.${build}`, commit, epoch };
}

function ownVersion(root: string, commit: string | undefined, epoch: number): string {
  if (commit === undefined)
    throw new OperatorError('the tree differs from its commit, so no version names it', {
      remedy: 'commit the changes, or give --version VERSION',
    });
  const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string };
  const released = git(root, 'rev-parse', '--verify', `refs/tags/v${version}^{commit}`);
  if (released === commit) return version;
  if (released !== undefined && git(root, 'merge-base', '--is-ancestor', released, commit) !== undefined)
    throw new OperatorError(`version ${version} is released, and this commit came after it`, {
      remedy: 'raise the version in package.json',
    });
  const time = new Date(epoch * 1000).toISOString().replaceAll(/\D/g, '').slice(0, 14);
  return `${version}~git${time}.${commit.slice(0, 12)}`;
}

/** What git prints; undefined if it fails. */
function git(root: string, ...args: string[]): string | undefined {
  const { status, stdout } = spawnSync('git', args, { cwd: root, encoding: 'utf8' });
  return status === 0 ? stdout.trim() : undefined;
}
