/** The daemon continues a log only beside its last checkpoint outside the store, or on an administrator's word. */
import { appendFileSync, cpSync, existsSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { readUpkeep } from '../../src/health/upkeepNotes.ts';
import { readLastCheckpoint } from '../../src/prove/trail/lastCheckpoint.ts';
import { Client } from '../support/client.ts';
import { openSandbox } from '../support/sandbox.ts';
import { until } from '../support/until.ts';

async function openHouse(t: Test, interval = '100ms') {
  const sandbox = await openSandbox({ tables: { log: `last_checkpoint_interval = "${interval}"` } });
  t.teardown(() => sandbox.close());
  const apiKey = await sandbox.issueKey();
  const file = join(sandbox.dir, 'state', 'last-checkpoint');
  return {
    sandbox,
    file,
    noted: () => readLastCheckpoint(file)?.checkpoint.treeSize,
    seal: async (name: string) => {
      const client = await Client.connect(sandbox.url, apiKey);
      await client.seal(Buffer.from(`%PDF-1.7\n${name}\n%%EOF\n`), { mode: 'blocking' });
      return Number((await client.get('/v1/log/checkpoint')).text.split('\n')[1]);
    },
    pdfseal: (...args: string[]) => sandbox.pdfseal([...args, '--config', sandbox.configFile]),
  };
}

t.test('the file is begun before the first leaf, so a start after an early crash succeeds', async (t) => {
  const { sandbox, file, noted, seal, pdfseal } = await openHouse(t, '1h');
  t.match(await pdfseal('last-checkpoint'), { status: 0 }, 'an empty log needs no file');
  const daemon = await sandbox.start();
  t.equal(noted(), 0);
  const size = await seal('one');
  await daemon.kill();
  t.equal(noted(), 0, 'nothing was noted since');
  await sandbox.start();
  t.ok((noted() ?? 0) >= size, 'a start notes what it found');
  t.match(readFileSync(file, 'utf8'), /^\nseal\.example\.com\/sandbox\/2026\n0\n.{44}\n\n\n\nseal/);
});

t.test(
  'a log whose last-checkpoint file is lost or empty is not continued until that is accepted',
  async (t) => {
    const { sandbox, file, noted, seal, pdfseal } = await openHouse(t);
    const daemon = await sandbox.start();
    await seal('one');
    await daemon.stop();
    const size = noted();
    t.match(await pdfseal('last-checkpoint'), {
      status: 0,
      stdout: `${size} leaves; the log has ${size} and contains them`,
    });
    t.match((await pdfseal('last-checkpoint', '--accept-rollback', `${size}`)).stdout, 'contains them');
    t.equal(noted(), size, 'where there is no doubt, nothing is accepted');

    for (const [what, harm] of [
      ['is missing', () => rmSync(file)],
      ['has no checkpoint in it', () => writeFileSync(file, '')],
      ['has no checkpoint in it', () => writeFileSync(file, Buffer.alloc(4096))],
    ] as const) {
      harm();
      const message = `${file} ${what}, and the log has ${size} leaves`;
      const command = `pdfseal last-checkpoint --accept-rollback ${size}`;
      const refused = await sandbox.pdfseald();
      t.match(refused, { status: 1, stderr: message }, what);
      t.match(refused.stderr, command);
      t.match(await pdfseal('last-checkpoint'), { status: 1, stderr: message });
      t.match(await pdfseal('check-config'), { status: 1, stdout: message });
      t.match((await pdfseal('doctor')).stdout, command);
      const told = await pdfseal('check');
      t.match(told, {
        status: 2,
        stdout: /\ncould not tell: .* the store can be an older copy: .* --against FILE\n$/,
      });
      t.match(readUpkeep(join(sandbox.dir, 'state'), 'check'), {
        good: false,
        undecided: /^there is no last checkpoint in /,
        tree_size: size,
      });
      t.match(JSON.parse((await pdfseal('check', '--json')).stdout), {
        outcome: 'unknown',
        doubt: /^there is no last checkpoint in /,
        problem_count: 0,
      });
      const wrong = await pdfseal('last-checkpoint', '--accept-rollback', `${(size ?? 0) - 1}`);
      t.match(wrong, { status: 1, stderr: `the log has ${size} leaves, not ${(size ?? 0) - 1}` });
      const accepted = await pdfseal('last-checkpoint', '--accept-rollback', `${size}`);
      t.match(accepted, { status: 0, stdout: `begun again with ${size} leaves` });
      t.equal(noted(), size);
    }
    const listed = await pdfseal('audit', 'list', '--act', 'rollback', '--json');
    const acts = listed.stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    t.match(
      acts.filter(({ outcome }) => outcome === 'done'),
      Array(3).fill({ act: 'rollback.accept', object: { tree_size: size, rollback: /last-checkpoint/ } }),
      'it is on record',
    );
    await sandbox.start();
    t.match(await pdfseal('last-checkpoint', '--accept-rollback', `${size}`), {
      status: 1,
      stderr: /another pdfseald .* is using this state folder/,
    });
  },
);

t.test('a checkpoint that the log did not sign is reported, and not believed', async (t) => {
  const { sandbox, file, noted, seal, pdfseal } = await openHouse(t);
  const daemon = await sandbox.start();
  await seal('one');
  await daemon.stop();
  const size = noted();
  const last = readLastCheckpoint(file)?.text ?? '';
  const whole = readFileSync(file);
  for (const [why, text] of [
    ['too few keys of this log signed it', last.replace(`\n${size}\n`, '\n1\n')],
    ['too few keys of this log signed it', last.replace(/ (\S+)\n$/, ` ${'A'.repeat(92)}\n`)],
    ['it is of another log', last.replace('sandbox', 'elsewhere')],
  ] as const) {
    writeFileSync(file, Buffer.concat([whole, Buffer.from(`\n${text}\n`)]));
    const refused = await sandbox.pdfseald();
    t.match(refused, { status: 1, stderr: `leaves, proves nothing about this log: ${why}` });
    t.match(refused.stderr, file);
    t.match(await pdfseal('check'), { status: 2, stderr: `${file} proves nothing about this log: ${why}` });
  }
  writeFileSync(file, whole);
  appendFileSync(file, `\n${last.slice(0, -30)}`);
  await sandbox.start();
});

t.test('entries appended to the file do not make an older copy the newest state', async (t) => {
  const { sandbox, file, noted, seal, pdfseal } = await openHouse(t);
  const storeDir = join(sandbox.dir, 'state', 'store');
  const [older, newer] = [join(sandbox.dir, 'older'), join(sandbox.dir, 'newer')];
  const run = async (name: string, copy: string) => {
    const daemon = await sandbox.start();
    await seal(name);
    await daemon.stop();
    cpSync(storeDir, copy, { recursive: true });
    return { size: noted() ?? 0, text: readLastCheckpoint(file)?.text ?? '' };
  };
  const put = (copy: string) => {
    rmSync(storeDir, { recursive: true });
    cpSync(copy, storeDir, { recursive: true });
  };
  const [then, now] = [await run('one', older), await run('two', newer)];
  t.ok(now.size > then.size);
  const whole = readFileSync(file);
  const mark = `seal.example.com/sandbox/2026\n0\n${Buffer.alloc(32).toString('base64')}\n\n`;
  const foreign = 'it is of another log';
  const rollback = `the log has ${then.size} leaves, and had ${now.size} already: this is an older copy of it`;
  for (const [what, appended, message] of [
    ['an old checkpoint', `\n${then.text}\n`, rollback],
    ['old checkpoints in their thousands', `\n${then.text}\n`.repeat(12_000), rollback],
    ['the mark of an empty log', `\n${mark}\n`, rollback],
    ['the mark of another log', `\n${mark.replace('sandbox', 'other')}\n`, foreign],
    ['the mark, and an old checkpoint', `\n${mark.replace('sandbox', 'other')}\n\n${then.text}\n`, rollback],
  ] as const) {
    put(older);
    writeFileSync(file, Buffer.concat([whole, Buffer.from(appended)]));
    t.match(await pdfseal('last-checkpoint'), { status: 1, stderr: message }, what);
    t.match(await sandbox.pdfseald(), { status: 1, stderr: message }, what);
    if (message === foreign) continue;
    t.match(await pdfseal('check'), { status: 1, stderr: message }, what);
    put(newer);
    t.match(await pdfseal('last-checkpoint'), { status: 0, stdout: 'and contains them' }, what);
  }

  put(older);
  const accepted = await pdfseal('last-checkpoint', '--accept-rollback', `${then.size}`);
  t.match(accepted, { status: 0, stdout: `begun again with ${then.size} leaves` });
  t.equal(noted(), then.size, 'no larger size is left in the file');
  await (await sandbox.start()).stop();
});

t.test('a file that is lost while the daemon runs is there again with the next checkpoint', async (t) => {
  const { sandbox, file, noted, seal } = await openHouse(t);
  await sandbox.start();
  await seal('one');
  renameSync(file, `${file}.moved`);
  const size = await seal('two');
  await until('it is noted', () => (noted() ?? 0) >= size);
  t.ok(existsSync(file));
});
