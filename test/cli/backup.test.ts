import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  appendFileSync,
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmdirSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { readLastCheckpoint } from '../../src/prove/trail/lastCheckpoint.ts';
import { openDatabases } from '../../src/store/lmdb/databases.ts';
import { Client, type JobBody } from '../support/client.ts';
import { openSandbox } from '../support/sandbox.ts';
import { until } from '../support/until.ts';

async function openHouse(t: Test, { stamped = false } = {}) {
  const sandbox = await openSandbox({ stamped, tables: { log: 'last_checkpoint_interval = "100ms"' } });
  t.teardown(() => sandbox.close());
  const apiKey = await sandbox.issueKey();
  const lastCheckpoint = join(sandbox.dir, 'state', 'last-checkpoint');
  const config = ['--config', sandbox.configFile];
  return {
    sandbox,
    lastCheckpoint,
    seal: async (name: string) => {
      const client = await Client.connect(sandbox.url, apiKey);
      const answer = await client.seal(Buffer.from(`%PDF-1.7\n${name}\n%%EOF\n`), { mode: 'blocking' });
      return answer.json<JobBody>().id;
    },
    receipt: async (id: string) => {
      const client = await Client.connect(sandbox.url, apiKey);
      return (await client.get(`/v1/jobs/${id}/receipt.json`)).text;
    },
    pdfseal: (command: string, ...args: string[]) => sandbox.pdfseal([command, ...config, ...args]),
    /** How far the log is, once the last-checkpoint file has it: canaries are leaves too. */
    noted: async () => {
      const client = await Client.connect(sandbox.url, apiKey);
      const size = Number((await client.get('/v1/log/checkpoint')).text.split('\n')[1]);
      await until(
        `the last-checkpoint file has ${size}`,
        () => (readLastCheckpoint(lastCheckpoint)?.checkpoint.treeSize ?? 0) >= size,
      );
      return size;
    },
  };
}

t.test('a backup made while the daemon runs can be checked and restored', async (t) => {
  const { sandbox, seal, receipt, pdfseal, noted } = await openHouse(t);
  const daemon = await sandbox.start();
  const id = await seal('one');
  const text = await receipt(id);
  const copy = join(sandbox.dir, 'copy');

  const made = await pdfseal('backup', '--output', copy, '--json');
  t.equal(made.status, 0, made.stderr);
  t.match(JSON.parse(made.stdout), { backup: copy, environment: 'sandbox', tree_size: Number });
  t.strictSame(readdirSync(copy).sort(), ['backup.json', 'documents', 'signers', 'store', 'trust.json']);
  const again = await pdfseal('backup', '--output', copy);
  t.equal(again.status, 1);
  t.match(again.stderr, /already exists, and a backup is never overwritten/);

  const drill = await pdfseal('restore', '--drill', '--input', copy);
  t.match(drill, { status: 0, stdout: /\d+ leaves, restored on trial and checked/ }, 'beside the daemon');
  const busy = await pdfseal('restore', '--input', copy);
  t.equal(busy.status, 1);
  t.match(busy.stderr, /another pdfseald .* is using this state folder/);
  await noted();
  await daemon.stop();
  // The record of the one before is a leaf of the log by now, so that one is an older state.
  const last = join(sandbox.dir, 'last');
  t.equal((await pdfseal('backup', '--output', last)).status, 0);

  rmSync(join(sandbox.dir, 'state', 'store'), { recursive: true });
  const restored = await pdfseal('restore', '--input', last);
  t.equal(restored.status, 0, restored.stderr);
  t.match(restored.stdout, /: \d leaves, from /);
  await sandbox.start();
  t.equal(await receipt(id), text, 'the receipt is the same, byte for byte');
});

t.test('the remains of a killed daemon do not stop a restore', async (t) => {
  const { sandbox, seal, pdfseal, noted } = await openHouse(t);
  const daemon = await sandbox.start();
  await seal('one');
  await noted();
  await daemon.kill();
  const [copy, state] = [join(sandbox.dir, 'copy'), join(sandbox.dir, 'state')];
  t.match(await pdfseal('backup', '--output', copy), { status: 0 });
  // As the socket of an administration in the state folder.
  const server = createServer().listen(join(state, 'left.sock'));
  await once(server, 'listening');
  t.teardown(() => server.close());
  symlinkSync(join(state, 'nowhere'), join(state, 'link'));
  rmSync(join(state, 'store'), { recursive: true });
  const restored = await pdfseal('restore', '--input', copy);
  t.equal(restored.status, 0, restored.stderr);
});

t.test('a machine that lost all of its state gets it back, certificates too', async (t) => {
  const { sandbox, seal, receipt, pdfseal } = await openHouse(t, { stamped: true });
  const daemon = await sandbox.start();
  const id = await seal('one');
  const text = await receipt(id);
  const copy = join(sandbox.dir, 'copy');
  const made = await pdfseal('backup', '--output', copy);
  t.equal(made.status, 0, made.stderr);
  await daemon.stop();
  const state = join(sandbox.dir, 'state');
  const trust = readFileSync(join(state, 'trust.json'), 'utf8');

  rmSync(state, { recursive: true });
  // A copy to another machine and back may give folders and files other modes.
  for (const path of ['store', 'store/data.mdb']) chmodSync(join(copy, path), 0o755);
  const restored = await pdfseal('restore', '--input', copy);
  t.equal(restored.status, 0, restored.stderr);
  const size = Number(/^\S+: (\d+) leaves/.exec(restored.stdout)?.[1]);
  t.match(readdirSync(join(state, 'signers')), [/^[0-9a-f]+\.trees$/], 'what the signer remembers');
  const accept = `last-checkpoint --accept-rollback ${size}`;
  t.match(restored.stderr, `last-checkpoint is missing, and the log has ${size} leaves`);
  t.match(restored.stderr, accept, 'what there is nothing to compare with, somebody has to compare');
  t.match(await sandbox.pdfseald(), { status: 1, stderr: accept });
  t.equal((await pdfseal('last-checkpoint', '--accept-rollback', String(size))).status, 0);
  t.equal(readFileSync(join(state, 'trust.json'), 'utf8'), trust, 'the trust file that was handed out');
  for (const path of ['store', 'store/data.mdb'])
    t.equal(statSync(join(state, path)).mode & 0o007, 0, `${path} is closed to others`);
  t.notOk(existsSync(join(copy, 'refused-pins')), 'PINs can be guessed from this folder');
  await sandbox.start();
  t.equal(await receipt(id), text);
});

t.test('a store that was restored has no unused pages', async (t) => {
  const { sandbox, pdfseal } = await openHouse(t);
  const data = join(sandbox.dir, 'state', 'store', 'data.mdb');
  const { root, lookups } = await openDatabases(join(data, '..'), { readOnly: false });
  const keys = Array.from({ length: 2000 }, (_, n) => Buffer.from(`unused ${n}`));
  for (const key of keys) void lookups.put(key, Buffer.alloc(2000));
  await root.flushed;
  for (const key of keys) void lookups.remove(key);
  await root.flushed;
  await root.close();
  const before = statSync(data).size;
  const copy = join(sandbox.dir, 'compact');
  t.equal((await pdfseal('backup', '--output', copy)).status, 0);
  const { status, stderr } = await pdfseal('restore', '--input', copy);
  t.equal(status, 0, stderr);
  t.ok(statSync(data).size < before / 4, `${statSync(data).size} of ${before} bytes`);
});

t.test('signers are copied before the store, and a restore never makes them older', async (t) => {
  const { sandbox, seal, pdfseal, noted } = await openHouse(t);
  const daemon = await sandbox.start();
  await seal('one');
  await noted();
  await daemon.stop();
  const copy = join(sandbox.dir, 'copy');
  t.equal((await pdfseal('backup', '--output', copy)).status, 0);
  const signers = join(sandbox.dir, 'state', 'signers');
  const [name = ''] = readdirSync(signers).filter((entry) => entry.endsWith('.trees'));
  const madeAt = (path: string) => statSync(path, { bigint: true }).birthtimeNs;
  t.ok(madeAt(join(copy, 'signers', name)) < madeAt(join(copy, 'store', 'data.mdb')));
  t.strictSame(readdirSync(join(copy, 'signers')), [name], 'without locks');

  writeFileSync(join(signers, name), 'newer');
  t.match(await pdfseal('restore', '--input', copy), { status: 0 });
  t.equal(readFileSync(join(signers, name), 'utf8'), 'newer');
});

t.test('each backup is good on its own machine, however far the log has grown', async (t) => {
  const { sandbox, seal, pdfseal, noted } = await openHouse(t);
  const daemon = await sandbox.start();
  await seal('one');
  const folder = join(sandbox.dir, 'backups');
  const copies: string[] = [];
  for (const name of ['two', 'three']) {
    t.equal((await pdfseal('backup', '--output', folder, '--dated')).status, 0);
    copies.push(join(folder, readdirSync(folder).sort().at(-1) ?? ''));
    await seal(name);
  }
  await noted();
  const verified = async (copy: string) => {
    t.match(await pdfseal('check', '--input', copy), { status: 0, stdout: /\ngood\n$/, stderr: '' });
    t.match(await pdfseal('restore', '--drill', '--input', copy), { status: 0, stderr: '' });
  };
  for (const copy of copies) await verified(copy);
  await daemon.stop();
  for (const copy of copies) await verified(copy);
  const [older = '', newer = ''] = copies;
  t.equal((await pdfseal('restore', '--input', newer)).status, 1, 'a restore over a longer log asks');

  t.equal((await pdfseal('restore', '--input', older, '--accept-rollback')).status, 0);
  await verified(older);
  const message = /does not continue the log of this backup: the log has \d+ leaves, and had \d+ already/;
  t.match(await pdfseal('check', '--input', newer), { status: 1, stderr: message });
  t.match(await pdfseal('restore', '--drill', '--input', newer), { status: 1, stderr: message });
  await sandbox.start();
  const size = Number(JSON.parse(readFileSync(join(newer, 'backup.json'), 'utf8')).tree_size);
  while ((await noted()) <= size) await seal('another');
  t.match(await pdfseal('check', '--input', newer), {
    status: 1,
    stderr: /does not continue the log of this backup: the first \d+ leaves are not those that were signed/,
  });
  rmSync(join(sandbox.dir, 'state', 'store', 'data.mdb'));
  t.match(await pdfseal('check', '--input', newer), { status: 0, stderr: /was not compared with the store/ });
  writeFileSync(join(newer, 'store', 'more'), '');
  t.match(await pdfseal('check', '--input', newer), { status: 1, stderr: /more has changed since/ });
});

t.test('a restore, a start and a check refuse an older state until it is accepted', async (t) => {
  const { sandbox, lastCheckpoint, seal, pdfseal, noted } = await openHouse(t);
  const daemon = await sandbox.start();
  await seal('one');
  const older = join(sandbox.dir, 'older');
  t.equal((await pdfseal('backup', '--output', older)).status, 0);
  await seal('two');
  await noted();
  await daemon.stop();

  const refused = await pdfseal('restore', '--input', older);
  t.equal(refused.status, 1);
  t.match(
    refused.stderr,
    /is not the newest state: .*last-checkpoint noted a later checkpoint: the log has \d+ leaves, and had \d+ already/,
  );
  t.notOk(
    readdirSync(join(sandbox.dir, 'state')).some((name) => name.startsWith('store.')),
    'nothing was moved',
  );

  renameSync(lastCheckpoint, `${lastCheckpoint}.away`);
  t.match(await pdfseal('restore', '--input', older), {
    status: 1,
    stderr: /is not the newest state: the store in .* is newer: the log has \d+ leaves, and had \d+ already/,
  });
  renameSync(`${lastCheckpoint}.away`, lastCheckpoint);

  // Whoever copies files by hand is stopped by the daemon.
  const store = join(sandbox.dir, 'state', 'store', 'data.mdb');
  const newest = readFileSync(store);
  writeFileSync(store, readFileSync(join(older, 'store', 'data.mdb')));
  const stopped = await sandbox.pdfseald();
  t.equal(stopped.status, 1);
  t.match(
    stopped.stderr,
    /last-checkpoint noted a later checkpoint: the log has \d+ leaves, and had \d+ already/,
  );
  const check = await sandbox.pdfseal(['check', '--config', sandbox.configFile]);
  t.equal(check.status, 1, 'and by a check');
  t.match(check.stderr, /had \d+ already/);
  writeFileSync(store, newest);

  const accepted = await pdfseal('restore', '--input', older, '--accept-rollback', '--json');
  t.equal(accepted.status, 0, accepted.stderr);
  t.match(JSON.parse(accepted.stdout), {
    tree_size: Number,
    rollback: /had \d+ already/,
    kept: [/state\/store\./],
  });
  t.equal(
    readLastCheckpoint(lastCheckpoint)?.checkpoint.treeSize,
    JSON.parse(accepted.stdout).tree_size,
    'the file is begun anew',
  );
  t.ok(
    readdirSync(join(sandbox.dir, 'state')).some((name) => name.startsWith('last-checkpoint.')),
    'what was noted is kept',
  );
  await sandbox.start();
});

t.test('two commands that make the same backup do not disturb each other', async (t) => {
  const { sandbox, pdfseal } = await openHouse(t);
  const copy = join(sandbox.dir, 'copy');
  mkdirSync(join(`${copy}.part`, 'store', 'of a command that was killed'), { recursive: true });
  const all = await Promise.all([1, 2, 3].map(() => pdfseal('backup', '--output', copy)));
  t.strictSame(all.map(({ status }) => status).sort(), [0, 1, 1], all.map(({ stderr }) => stderr).join(''));
  for (const { status, stderr } of all)
    if (status === 1) t.match(stderr, /another command writes .*copy\.part|copy already exists/);
  t.match(await pdfseal('check', '--input', copy), { status: 0, stdout: /good\n$/ });
  t.notOk(existsSync(`${copy}.part`));

  const other = join(sandbox.dir, 'other');
  mkdirSync(join(`${other}.part`, 'what it wrote so far'), { recursive: true });
  const holder = spawn('flock', [`${other}.part`, 'sh', '-c', 'echo locked; cat'], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  await once(holder.stdout, 'data');
  t.match(await pdfseal('backup', '--output', other), {
    status: 1,
    stderr: /another command writes .*other\.part\n/,
  });
  t.strictSame(readdirSync(`${other}.part`), ['what it wrote so far']);
  holder.stdin.end();
  await once(holder, 'close');
});

t.test('the newest backups are kept, and a damaged or foreign one is not restored', async (t) => {
  const { sandbox, pdfseal } = await openHouse(t);
  const folder = join(sandbox.dir, 'backups');
  for (let n = 0; n < 3; n++) {
    const { status, stderr } = await pdfseal('backup', '--output', folder, '--dated', '--keep', '2');
    t.equal(status, 0, stderr);
  }
  t.equal(readdirSync(folder).length, 2);
  const former = ['2026-01-01T010000.000Z', '2026-01-02T010000.000Z', '2026-01-02T020000.000Z'];
  const dead = '2026-01-02T030000.000Z.part';
  for (const name of [...former, dead, 'a folder of somebody else']) mkdirSync(join(folder, name));
  // What asked for it goes away, whatever it is: it would ask for ever.
  const request = join(sandbox.dir, 'state', 'backup-asked.json');
  mkdirSync(join(request, 'deep'), { recursive: true });
  t.match(await pdfseal('backup', '--output', folder, '--dated', '--keep', '2'), { status: 0 });
  t.notOk(existsSync(request));
  t.notOk(existsSync(join(folder, dead)), 'what a command left that was killed long ago');
  rmdirSync(join(folder, 'a folder of somebody else'));
  const [daily = '', first = '', ...rest] = readdirSync(folder).sort();
  t.equal(daily, former[2], 'the last one of a former day');
  t.equal(rest.length, 1);

  const data = join(folder, first, 'store', 'data.mdb');
  writeFileSync(data, readFileSync(data).fill(0xff, 8192, 12288));
  const tried = await pdfseal('restore', '--drill', '--input', join(folder, first));
  t.match(tried, { status: 1, stderr: /data\.mdb has changed/ });
  t.notOk(existsSync(join(sandbox.dir, 'state/last-restore-drill.json')), 'that is no drill that went well');
  const damaged = await pdfseal('restore', '--input', join(folder, first));
  t.equal(damaged.status, 1);
  t.match(damaged.stderr, /data\.mdb has changed since the backup was made/);
  const description = join(folder, rest[0] ?? '', 'backup.json');
  writeFileSync(
    description,
    readFileSync(description, 'utf8').replace('seal.example.com', 'other.example.com'),
  );
  const foreign = await pdfseal('restore', '--input', join(folder, rest[0] ?? ''));
  t.equal(foreign.status, 1);
  t.match(foreign.stderr, /is a backup of sandbox, other\.example\.com/);
  const none = await pdfseal('restore', '--input', sandbox.dir);
  t.match(none.stderr, /is not a backup of pdfseal/);
  t.equal((await pdfseal('backup')).status, 64, 'a place is asked for');
});

t.test('a last-checkpoint file with a torn end still gives the last whole checkpoint', async (t) => {
  const { sandbox, lastCheckpoint, seal, noted } = await openHouse(t);
  const daemon = await sandbox.start();
  await seal('one');
  const first = await noted();
  await seal('two');
  const second = await noted();
  t.ok(second > first);
  await daemon.kill();
  appendFileSync(lastCheckpoint, '\nseal.example.com/sandbox/2026\n3\nAAAA');
  t.equal(readLastCheckpoint(lastCheckpoint)?.checkpoint.treeSize, second);
  await sandbox.start();
  await seal('three');
  t.ok((await noted()) > second);
  t.equal(readLastCheckpoint(join(sandbox.dir, 'nothing')), undefined);
});
