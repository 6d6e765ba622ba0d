import { cpSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { Client } from '../support/client.ts';
import { openSandbox } from '../support/sandbox.ts';
import { until } from '../support/until.ts';

t.test(
  'signers refuse an older store, even with its own last checkpoint, until they are reset',
  async (t) => {
    const sandbox = await openSandbox({ tables: { blocking: 'timeout = "5s"' } });
    t.teardown(() => sandbox.close());
    const apiKey = await sandbox.issueKey();
    const state = join(sandbox.dir, 'state');
    const pdfseal = (...args: string[]) => sandbox.pdfseal([...args, '--config', sandbox.configFile]);
    const seal = async (name: string) => {
      const client = await Client.connect(sandbox.url, apiKey);
      const document = Buffer.from(`%PDF-1.7\n${name}\n%%EOF\n`);
      const answer = await client.seal(document, { mode: 'blocking' });
      return {
        phase: answer.json<{ phase?: string }>().phase,
        size: Number((await client.get('/v1/log/checkpoint')).text.split('\n')[1]),
      };
    };
    let daemon = await sandbox.start();
    await seal('one');
    await daemon.stop();
    const older = join(sandbox.dir, 'older');
    const parts = ['store', 'last-checkpoint'];
    for (const part of parts) cpSync(join(state, part), join(older, part), { recursive: true });
    daemon = await sandbox.start();
    for (const name of ['two', 'three', 'four', 'five']) t.equal((await seal(name)).phase, 'completed');
    await daemon.stop();
    for (const part of parts) {
      rmSync(join(state, part), { recursive: true });
      cpSync(join(older, part), join(state, part), { recursive: true });
    }

    daemon = await sandbox.start();
    const refused = await seal('other');
    t.not(refused.phase, 'completed', 'what would contradict receipts is not sealed');
    await until('the daemon says why', () => daemon.log.some(({ code }) => code === 'tree_unknown'));
    t.match(
      daemon.log.find(({ code }) => code === 'tree_unknown'),
      { event: 'partition_useless', remedy: /`pdfseal hsm reset-signers`$/ },
    );
    t.match(await pdfseal('status'), { stdout: /tree_unknown/ });
    t.match(await pdfseal('audit', 'list', '--act', 'signers'), {
      stdout: /signers\.refuse +done +daemon .* code=tree_unknown partition=local\/sandbox-2026\n$/,
    });
    const reason = ['--reason', 'the machine was set back to a snapshot'];
    t.match(await pdfseal('hsm', 'reset-signers', `${refused.size}`, ...reason), {
      status: 1,
      stderr: 'process',
    });
    await daemon.stop();

    t.match(await pdfseal('hsm', 'reset-signers', '1'), { status: 64, stderr: '--reason' });
    const wrong = await pdfseal('hsm', 'reset-signers', '1000', ...reason);
    t.match(wrong, { status: 1, stderr: /leaves, not 1000: nothing was accepted/ });
    const [, size = ''] = /has (\d+) leaves/.exec(wrong.stderr) ?? [];
    const reset = await pdfseal('hsm', 'reset-signers', size, ...reason);
    t.match(reset, { status: 0, stdout: 'are reset' });
    // pdfseal-run resets units at this line, and at no other success.
    const onRecord = /^the reason is on the audit trail: the log goes on with \d+ leaves$/;
    t.match(reset.stdout.trimEnd().split('\n').at(-1), onRecord);
    const again = await pdfseal('hsm', 'reset-signers', size, ...reason, '--json');
    t.match(again.stdout, /^\{"leaves":\d+,"kept":null\}\n$/);
    t.notMatch((await pdfseal('hsm', 'reset-signers', '--help')).stdout, /the log goes on|"kept"/);
    t.equal(readdirSync(state).filter((name) => name.startsWith('signers.')).length, 1, 'nothing is lost');
    daemon = await sandbox.start();
    t.equal((await seal('other')).phase, 'completed');
    await daemon.stop();
    const trail = (await pdfseal('audit', 'list', '--json')).stdout.trimEnd().split('\n');
    const act = trail.map((line) => JSON.parse(line)).find(({ act }) => act === 'signers.reset');
    t.match(act, { object: { tree_size: Number(size), reason: 'the machine was set back to a snapshot' } });
  },
);
