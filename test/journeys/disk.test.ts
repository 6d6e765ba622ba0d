/** Disks that are full, read-only or of somebody else: what happens to callers, and what administrators are told. */
import { spawnSync } from 'node:child_process';
import { chmodSync, chownSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { constants } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { remedyFor, systemReason } from '../../src/base/systemReason.ts';
import type { PartitionOptions } from '../../src/kms/partitions.ts';
import { Client, digestFields, type Envelope, type JobBody } from '../support/client.ts';
import { TOKEN_VANISHES } from '../support/faults.ts';
import { openSandbox, type Sandbox } from '../support/sandbox.ts';
import { SmallDisk } from '../support/smallDisk.ts';
import { until } from '../support/until.ts';

const MIB = 2 ** 20;
const DOCUMENT = Buffer.from('%PDF-1.7\na small document\n%%EOF\n');

async function openHouse(t: Test, disk?: SmallDisk) {
  const sandbox = await openSandbox({
    code: 'dist',
    init: false,
    ...(disk && { tail: `[storage]\nfree_bytes_min = "${disk.freeBytesMin(48 * MIB)}"\n` }),
  });
  t.teardown(() => sandbox.close());
  if (disk) moveState(sandbox, disk);
  await sandbox.init();
  const apiKey = await sandbox.issueKey();
  const daemon = await sandbox.start();
  const client = await Client.connect(sandbox.url, apiKey);
  return { sandbox, daemon, client };
}

/** Only the state: the token's software writes too. */
function moveState(sandbox: Sandbox, disk: SmallDisk): void {
  const text = readFileSync(sandbox.configFile, 'utf8');
  const state = `state_dir = "${join(disk.dir, 'state')}"`;
  writeFileSync(sandbox.configFile, text.replace('state_dir = "state"', state));
}

const codeOf = (answer: { status: number; json<T>(): T }) =>
  answer.status === 202 ? '202' : `${answer.status} ${answer.json<Envelope>().error.code}`;

function sealDigests(client: Client, mode: 'async' | 'blocking') {
  return client.request('POST', '/v1/digests/seal', {
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify(digestFields(DOCUMENT, { mode })),
  });
}

t.test('a disk that fills under load: 503 storage_full and nothing else, until there is room', async (t) => {
  const disk = new SmallDisk(128 * MIB);
  t.teardown(() => disk.close());
  const { daemon, client } = await openHouse(t, disk);
  const accepted: string[] = [];
  const answers: string[] = [];
  let loading = true;
  const post = async (n: number) => {
    while (loading) {
      const mode = n % 2 === 0 ? 'async' : 'blocking';
      const answer = await (n % 3 === 0 ? sealDigests(client, mode) : client.seal(DOCUMENT, { mode }));
      answers.push(codeOf(answer));
      if (answer.status === 202) accepted.push(answer.json<JobBody>().id);
      else t.ok(Number(answer.headers.get('Retry-After')) > 0);
    }
  };
  const posting = Array.from({ length: 6 }, (_, n) => post(n));
  const since = (count: number) => answers.slice(count);
  for (let round = 0; round < 3; round++) {
    let seen = answers.length;
    await until('jobs are accepted', () => since(seen).filter((code) => code === '202').length > 20);
    disk.fill(40 * MIB);
    await until('the disk is noticed', () => answers.at(-1) === '503 storage_full');
    seen = answers.length;
    await until('jobs are refused', () => since(seen).length > 20);
    t.strictSame(new Set(since(seen + 6)), new Set(['503 storage_full']), 'nothing is accepted any more');
    disk.empty();
    await until('there is room again', () => answers.at(-1) === '202');
  }
  loading = false;
  await Promise.all(posting);
  t.strictSame(new Set(answers), new Set(['202', '503 storage_full']));
  for (const id of accepted.slice(-50)) {
    await until(`${id} is completed`, async () => {
      return (await client.get(`/v1/jobs/${id}`)).json<JobBody>().phase === 'completed';
    });
  }
  const said = daemon.log.filter(({ msg }) => /^the disk /.test(String(msg)));
  t.equal(said.length, 6, 'each time, once');
  t.notOk(daemon.log.some(({ level }) => level === 'fatal'));
  t.comment(`${accepted.length} accepted, ${answers.length - accepted.length} refused`);
});

const disk = new SmallDisk(96 * MIB);
t.teardown(() => disk.close());
// Only root may fill a file system to its last byte.
if (disk.isOwn) {
  t.test('with a full disk, accepted jobs wait for room, even through a crash', async (t) => {
    const { sandbox, daemon, client } = await openHouse(t, disk);
    const [partition] = sandbox.partitions;
    const giveBack = TOKEN_VANISHES.strike(partition as PartitionOptions, daemon);
    await until('nothing can be signed', async () => {
      return codeOf(await client.seal(DOCUMENT, { mode: 'blocking' })) === '503 kms_partition_unavailable';
    });
    const answers = await Promise.all(Array.from({ length: 40 }, () => client.seal(DOCUMENT)));
    const ids = answers.map((answer) => answer.json<JobBody>().id);
    disk.fill(0);
    giveBack();
    const waits = (log: Record<string, unknown>[]) =>
      log.some(({ msg }) => /writes wait for room/.test(String(msg)));
    await until('the batch waits for room', () => waits(daemon.log));
    t.equal(codeOf(await client.seal(DOCUMENT)), '503 storage_full');
    t.equal((await client.get(`/v1/jobs/${ids[0]}`)).status, 200, 'reading goes on');

    await sandbox.kill();
    const second = await sandbox.start();
    await until('the batch waits again', () => waits(second.log));
    t.equal(codeOf(await client.seal(DOCUMENT)), '503 storage_full');

    const text = readFileSync(sandbox.configFile, 'utf8');
    const has = (from: number, wanted: string) =>
      second.log.slice(from).some(({ event, msg }) => event === wanted || msg === wanted);
    /** Whether requests are logged with that level in the file. */
    const isLogged = async (level: string) => {
      const from = second.log.length;
      writeFileSync(sandbox.configFile, text.replace('[logging]', `[logging]\nlevel = "${level}"`));
      process.kill(second.pid, 'SIGHUP');
      await client.get(`/v1/jobs/${ids[0]}`);
      // Written in any case, after whatever the request left.
      writeFileSync(sandbox.configFile, 'nonsense');
      process.kill(second.pid, 'SIGHUP');
      await until('the file is refused', () => has(from, 'config_refused'));
      return has(from, 'request');
    };
    for (const [level, expected] of [
      ['info', true],
      ['error', false],
      ['info', true],
    ] as const) {
      await until(`${level} holds at once`, async () => (await isLogged(level)) === expected);
    }
    t.notOk(has(0, 'config_read'), 'nothing else holds before it is on record');
    writeFileSync(sandbox.configFile, text);
    disk.empty();
    await until('it is on record, and holds', () => has(0, 'config_read'));
    for (const id of ids) {
      await until(`${id} is completed`, async () => {
        return (await client.get(`/v1/jobs/${id}`)).json<JobBody>().phase === 'completed';
      });
    }
    await until('jobs are accepted', async () => (await client.seal(DOCUMENT)).status === 202);
    t.notOk([...daemon.log, ...second.log].some(({ level }) => level === 'fatal'));
    t.equal(await second.stop(), 0);
    const check = await sandbox.pdfseal(['check', '--config', sandbox.configFile]);
    t.equal(check.status, 0, check.stdout + check.stderr);
  });
}

t.test(
  'a failed write ends the daemon, and every acknowledged job is there after the next start',
  async (t) => {
    const { sandbox, daemon, client } = await openHouse(t);
    const accepted: string[] = [];
    const post = async () => {
      for (;;) {
        const answer = await client.seal(DOCUMENT).catch(() => undefined);
        if (answer?.status !== 202) return;
        accepted.push(answer.json<JobBody>().id);
      }
    };
    const posting = Array.from({ length: 4 }, post);
    await until('there is load', () => accepted.length > 20);
    // The kernel then refuses to let a file grow, as a full disk would, for root too.
    const limit = statSync(join(sandbox.dir, 'state', 'store', 'data.mdb')).size;
    t.equal(spawnSync('prlimit', ['--pid', `${daemon.pid}`, `--fsize=${limit}:unlimited`]).status, 0);
    const end = await daemon.ended();
    // 70, unless that limit's own signal or LMDB was first.
    t.ok([70, 'SIGXFSZ', 'SIGABRT'].includes(end), `${end}: the service manager starts it again`);
    await Promise.all(posting);
    await sandbox.start();
    for (const id of accepted) {
      await until(`${id} is completed`, async () => {
        return (await client.get(`/v1/jobs/${id}`)).json<JobBody>().phase === 'completed';
      });
    }
  },
);

t.test('a file that the daemon cannot use is reported in one line with its remedy', async (t) => {
  const sandbox = await openSandbox({ code: 'dist' });
  t.teardown(() => sandbox.close());
  const state = join(sandbox.dir, 'state');
  const refused = (expected: RegExp, ...limits: string[]) => {
    const { status, stderr } = runWithoutPrivileges(sandbox, limits);
    t.equal(status, 1, stderr);
    t.match(stderr, expected);
    t.equal(stderr.trim().split('\n').length, 1, stderr);
  };
  const DENIED = /cannot open \S+ \(permission denied\): run this as the user that owns the folder/;
  const modes = { '.': 0, lock: 0, 'store/data.mdb': 0o400, 'store/lock.mdb': 0o400 };
  for (const [name, mode] of Object.entries(modes)) {
    const path = join(state, name);
    const before = statSync(path);
    chmodSync(path, mode);
    refused(DENIED);
    chmodSync(path, before.mode);
    if (process.getuid?.() !== 0) continue; // Only root may give files away.
    chownSync(path, NOBODY, NOBODY);
    refused(DENIED);
    chownSync(path, before.uid, before.gid);
  }
  refused(
    /may have 14 GiB of address space, too little for .*data\.mdb to grow: lift that limit/,
    `--as=${14 * 2 ** 30}`,
  );
  await sandbox.start();
});

// Who is not root is one in a namespace of users of his own, where he may mount, unless the system forbids him that.
const MOUNTING = process.getuid?.() === 0 ? ['--mount'] : ['--mount', '--map-root-user'];
const mayMount = spawnSync('unshare', [...MOUNTING, 'true']).status === 0;

t.test('a read-only file system is reported in one line, and commands that only read work', async (t) => {
  if (!mayMount) {
    const refusal = Object.assign(new Error('EROFS'), { errno: -constants.errno.EROFS, code: 'EROFS' });
    t.equal(
      `${systemReason(refusal)}: ${remedyFor(refusal)}`,
      'read-only file system: mount its file system for writing',
    );
    return;
  }
  const sandbox = await openSandbox({ code: 'dist' });
  t.teardown(() => sandbox.close());
  const state = join(sandbox.dir, 'state');
  const config = ['--config', sandbox.configFile];
  const refused = runReadOnly(state, ['main.js', ...config]);
  t.equal(refused.status, 1, refused.stderr);
  t.match(
    refused.stderr,
    /^pdfseald: cannot open .*lock \(read-only file system\): mount its file system for writing\n$/,
  );
  // The daemon's lock is on another file system, say: what it meets next is the store.
  const store = runReadOnly(join(state, 'store'), ['main.js', ...config]);
  t.equal(store.status, 1, store.stderr);
  t.match(
    store.stderr,
    /^pdfseald: cannot open .*data\.mdb \(read-only file system\): mount its file system for writing\n$/,
  );
  const repair = runReadOnly(state, ['cli.js', 'repair-index', '--no-backup', ...config]);
  t.match(repair, { status: 2, stderr: /cannot open .*lock \(read-only file system\)/ });
  const issue = ['cli.js', 'keys', 'issue', '--client', 'a', '--organization', 'b', ...config];
  t.match(runReadOnly(state, issue), { status: 1, stderr: /cannot open .*lock \(read-only file system\)/ });
  const check = runReadOnly(state, ['cli.js', 'check', ...config]);
  t.match(check, { status: 0, stdout: /\ngood\n$/ }, check.stderr);
  await sandbox.start();
});

/** The user `nobody` of Debian; whoever has that id, it is not us. */
const NOBODY = 65534;

/** Runs a program in a mount namespace of its own, in which that folder is mounted read-only. */
function runReadOnly(folder: string, [program = '', ...args]: string[]) {
  const dist = fileURLToPath(new URL('../../dist/', import.meta.url));
  const script = 'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && shift && exec "$@"';
  const command = [
    ...MOUNTING,
    'sh',
    '-c',
    script,
    'sh',
    folder,
    process.execPath,
    join(dist, program),
    ...args,
  ];
  return spawnSync('unshare', command, {
    encoding: 'utf8',
    env: { PATH: process.env.PATH, LANG: 'C.UTF-8' },
  });
}

/** A daemon that is expected to refuse its start, and root in it is bound by the modes of files. */
function runWithoutPrivileges(sandbox: Sandbox, limits: string[]) {
  const main = fileURLToPath(new URL('../../dist/main.js', import.meta.url));
  const unprivileged = ['setpriv', '--bounding-set=-dac_override,-dac_read_search'];
  const [command = '', ...args] = [
    ...(process.getuid?.() === 0 ? unprivileged : []),
    ...(limits.length > 0 ? ['prlimit', ...limits] : []),
    ...[process.execPath, main, '--config', sandbox.configFile],
  ];
  return spawnSync(command, args, { encoding: 'utf8', env: { PATH: process.env.PATH, LANG: 'C.UTF-8' } });
}
