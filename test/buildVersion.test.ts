/** Versions of builds: each names its commit, and they are in the order of the commits. */
import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { changelogText } from '../systemd/bundle/changelog.ts';
import { type BuildVersion, versionOf } from '../systemd/bundle/version.ts';

/** A checkout whose package.json says 0.2.0, and its git; each commit is a minute later than the one before. */
function checkout(t: Test) {
  const root = t.testdir({ 'package.json': '{ "version": "0.2.0" }' });
  let minute = 0;
  const git = (...args: string[]) => {
    const date = `2026-11-27T18:${String(minute).padStart(2, '0')}:00Z`;
    const env = { ...process.env, GIT_COMMITTER_DATE: date, GIT_AUTHOR_DATE: date };
    const person = ['-c', 'user.name=t', '-c', 'user.email=t@t.invalid'];
    return execFileSync('git', [...person, ...args], { cwd: root, env, encoding: 'utf8' }).trim();
  };
  const commit = () => {
    minute += 1;
    writeFileSync(join(root, 'minute'), `${minute}`);
    git('add', '.');
    git('commit', '--quiet', '--message', `minute ${minute}`);
    return git('rev-parse', 'HEAD');
  };
  git('init', '--quiet');
  return { root, git, commit };
}

/** Holds dpkg to the order of these versions, the oldest first. */
function inOrder(t: Test, versions: readonly string[]): void {
  for (const [n, version] of versions.entries())
    for (const later of versions.slice(n + 1))
      t.equal(
        spawnSync('dpkg', ['--compare-versions', version, 'lt', later]).status,
        0,
        `${version}, ${later}`,
      );
}

t.test('the version of a commit has its time and hash, in the form of Debian and of semver', (t) => {
  const { root, commit } = checkout(t);
  const hash = commit();
  const time = '20261127180100';
  t.strictSame(versionOf(root), {
    debian: `0.2.0~git${time}.${hash.slice(0, 12)}`,
    semver: `0.2.0-git.${time}.${hash.slice(0, 12)}`,
    commit: hash,
    epoch: Date.parse('2026-11-27T18:01:00Z') / 1000,
  } satisfies BuildVersion);
  t.strictSame(versionOf(root), versionOf(root), 'and the same commit always has the same');
  t.end();
});

t.test('the commit with the tag of the version is the release', (t) => {
  const { root, git, commit } = checkout(t);
  const hash = commit();
  git('tag', '--annotate', '--message', 'release', 'v0.2.0');
  t.match(versionOf(root), { debian: '0.2.0', semver: '0.2.0', commit: hash });
  git('tag', 'v0.3.0');
  t.match(versionOf(root), { debian: '0.2.0' }, 'and no other tag counts');
  t.end();
});

t.test('dpkg orders builds as their commits, below the release, and 0.1.0 below all', (t) => {
  const { root, git, commit } = checkout(t);
  const builds = [1, 2, 3].map(() => {
    commit();
    return versionOf(root).debian;
  });
  commit();
  git('tag', 'v0.2.0');
  const release = versionOf(root).debian;
  writeFileSync(join(root, 'package.json'), '{ "version": "0.3.0" }');
  commit();
  inOrder(t, ['0.1.0', ...builds, release, versionOf(root).debian, '0.3.0']);
  t.end();
});

t.test('a commit after the release has no version until package.json names the next one', (t) => {
  const { root, git, commit } = checkout(t);
  const early = commit();
  commit();
  git('tag', 'v0.2.0');
  commit();
  t.throws(() => versionOf(root), { message: /^version 0\.2\.0 is released/, remedy: /package\.json/ });
  git('checkout', '--quiet', early);
  t.match(versionOf(root), { debian: /^0\.2\.0~git/ }, 'an earlier commit keeps its own');
  t.end();
});

t.test('a tree that differs from its commit has no version of its own, and names no commit', (t) => {
  const { root, commit } = checkout(t);
  commit();
  writeFileSync(join(root, 'new'), '');
  t.throws(() => versionOf(root), { message: /^the tree differs from its commit/, remedy: /--version/ });
  t.match(versionOf(root, '9.0.0'), { debian: '9.0.0', semver: '9.0.0', commit: undefined, epoch: Number });
  t.end();
});

t.test('a tree without git is built only with a version and a time that are given', (t) => {
  const { root, commit } = checkout(t);
  commit();
  const inside = join(root, 'unpacked');
  cpSync(join(root, 'package.json'), join(inside, 'package.json'));
  for (const tree of [inside, root]) {
    rmSync(join(tree, '.git'), { recursive: true, force: true });
    delete process.env.SOURCE_DATE_EPOCH;
    for (const wanted of [undefined, '0.2.0'])
      t.throws(() => versionOf(tree, wanted), {
        message: /^git knows no commit/,
        remedy: /SOURCE_DATE_EPOCH/,
      });
    process.env.SOURCE_DATE_EPOCH = '1795801609';
    t.throws(() => versionOf(tree), { message: /^git knows no commit/ });
    const named = { debian: '0.2.0', semver: '0.2.0', commit: undefined, epoch: 1795801609 };
    t.strictSame(versionOf(tree, '0.2.0'), named);
  }
  t.end();
});

t.test('a given version has one of the two forms', (t) => {
  const { root, commit } = checkout(t);
  commit();
  t.match(versionOf(root, '1.2.3~git20261127180000.abcdef123456'), {
    semver: '1.2.3-git.20261127180000.abcdef123456',
  });
  for (const wrong of ['1.2', '1.2.3-4', '1.2.3~rc1', 'v1.2.3', '1.2.3~git2026.abc', '1:1.2.3'])
    t.throws(() => versionOf(root, wrong), { message: `${wrong} is not a version such as` }, wrong);
  t.end();
});

t.test(
  "Debian's changelog has the sections of CHANGELOG.md, and begins with the version that is built",
  (t) => {
    const text = changelogText('0.2.0', Date.parse('2026-11-27T18:00:00Z') / 1000);
    t.match(text, /^pdfseald \(0\.2\.0\) stable; urgency=medium\n\n {2}(\[ Added \]|\* \S)/);
    t.match(text, /\n\n -- .* {2}Fri, 27 Nov 2026 18:00:00 \+0000\n\npdfseald \(0\.1\.0\) stable/);
    t.match(text, /\n\n -- .* {2}Sun, 22 Nov 2026 00:00:00 \+0000\n$/);
    const form = /^(pdfseald \(.*| {2}\[ .* \]| {2}\* \S.*| {4}\S.*| -- .*|)$/;
    t.strictSame(
      text.split('\n').filter((line) => !form.test(line)),
      [],
    );
    t.end();
  },
);
