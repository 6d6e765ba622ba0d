import t from 'tap';
import type { RunResult } from '../support/commands.ts';
import { openSandbox } from '../support/sandbox.ts';

t.test('API keys, in the running daemon', async (t) => {
  const sandbox = await openSandbox({ tables: { webhooks: 'allow = ["127.0.0.0/8"]' } });
  t.teardown(() => sandbox.close());
  await sandbox.start();
  const keys = (...args: string[]): Promise<RunResult> =>
    sandbox.pdfseal(['keys', ...args, '--config', sandbox.configFile]);
  const issue = async (...args: string[]) =>
    parse(await keys('issue', '--json', '--organization', 'acme', ...args));
  const listed = async (id: unknown) => {
    const { stdout } = await keys('list', '--json');
    return stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line))
      .find((key) => key.id === id);
  };
  const statusWith = async (apiKey: unknown): Promise<number> => {
    const answer = await fetch(`${sandbox.url}/v1/jobs`, { headers: { Authorization: `Bearer ${apiKey}` } });
    return answer.status;
  };

  await t.test('issue: the key is shown once, alone on standard output, and is valid at once', async (t) => {
    const { stdout, stderr } = await keys('issue', '--client', 'invoices', '--organization', 'acme');
    t.match(stdout, /^seal_sandbox_[0-9A-Za-z]{36}\n$/);
    t.match(
      stderr,
      /^key_[0-9a-f]{16}: client invoices of acme, jobs:create, jobs:read, valid until revoked/,
    );
    t.equal(await statusWith(stdout.trim()), 200);
    t.notMatch((await keys('list', '--json')).stdout, stdout.trim());
    t.match(
      (await keys('list')).stdout,
      /^KEY .*\nkey_[0-9a-f]{16} +invoices +acme +jobs:create,jobs:read +active .*never *\n$/,
    );
  });

  await t.test('issue: scopes and expiry hold for requests with the key', async (t) => {
    const reader = await issue('--client', 'audit', '--scopes', 'jobs:read,admin', '--for', '90d');
    t.strictSame(reader.scopes, ['jobs:read', 'admin']);
    t.equal(Date.parse(reader.expires_at) - Date.parse(reader.created_at), 90 * 86_400_000);
    const writer = await issue('--client', 'audit', '--scopes', 'jobs:create');
    t.equal(await statusWith(writer.api_key), 403);
    const expired = await issue('--client', 'audit', '--for', '1ms');
    t.equal(await statusWith(expired.api_key), 401);
    t.match(await listed(expired.id), { state: 'expired' });
  });

  await t.test('issue: the former names of --for still work', async (t) => {
    for (const former of ['--validity', '--expires']) {
      const { status, stderr } = await keys('issue', '--client', 'a', '--organization', 'acme', former, '1h');
      t.equal(status, 0);
      t.match(stderr, `${former} is now --for; both work`);
    }
  });

  await t.test('revoke: the key is refused at once, and for good', async (t) => {
    const { id, api_key } = await issue('--client', 'gone');
    t.equal(await statusWith(api_key), 200);
    t.match(await keys('revoke', id), { status: 0, stderr: /is revoked/ });
    t.equal(await statusWith(api_key), 401);
    const before = await listed(id);
    t.match(before, { state: 'revoked' });
    t.equal((await keys('revoke', id)).status, 0, 'again is no error');
    t.strictSame(await listed(id), before, 'and does not move the time');
    t.match(await keys('rotate', id), { status: 1, stderr: /is revoked: issue a new key/ });
  });

  await t.test('revoke: every key that replaced it is named, or ended too', async (t) => {
    const first = await issue('--client', 'stolen');
    const second = parse(await keys('rotate', first.id, '--overlap', '0s', '--json'));
    const third = parse(await keys('rotate', second.id, '--json'));
    t.match(await listed(first.id), { replaced_by: second.id });
    t.equal(await statusWith(first.api_key), 401, 'without an overlap, it ends at once');
    t.match((await keys('list')).stdout, /REPLACED BY/);
    const named = await keys('revoke', first.id);
    t.match(named.stderr, `${second.id}, which replaced it, stays valid`);
    t.match(named.stderr, `${third.id}, which replaced it, stays valid`);
    t.match(named.stderr, `pdfseal keys revoke ${first.id} --with-successors`);
    await keys('revoke', second.id);
    t.match(parse(await keys('revoke', first.id, '--json')), { active_successors: [third.id] });
    t.match(parse(await keys('revoke', first.id, '--with-successors', '--json')), {
      revoked_successors: [third.id],
      active_successors: [],
    });
    t.equal(await statusWith(third.api_key), 401);
  });

  await t.test(
    'revoke: endpoints of the client are shown, and disabled with the last key for them',
    async (t) => {
      const scopes = ['--scopes', 'jobs:create,webhooks:manage'];
      const hook = ['--url', 'http://127.0.0.1:9/', '--config', sandbox.configFile, '--json'];
      const add = async (client: string) =>
        parse(await sandbox.pdfseal(['webhooks', 'add', '--client', client, ...hook]));
      const revoke = async ({ id }: { id: string }) => parse(await keys('revoke', id, '--json'));

      const [first, second] = [
        await issue('--client', 'hooked', ...scopes),
        await issue('--client', 'hooked', ...scopes),
      ];
      const plain = await issue('--client', 'hooked');
      const { id } = await add('hooked');
      t.match(
        await revoke(first),
        { webhook_endpoints: [{ id, status: 'enabled' }] },
        'another key manages it',
      );
      const last = await keys('revoke', second.id);
      t.match(last.stderr, new RegExp(`${id} \\(http://127\\.0\\.0\\.1:9/\\) is now disabled: no valid key`));
      t.match(await revoke(second), { webhook_endpoints: [{ id, status: 'disabled' }] });
      t.match(await revoke(plain), { webhook_endpoints: [{ id, status: 'disabled' }] });

      const [old, next] = [await issue('--client', 'plain'), await issue('--client', 'plain')];
      await add('plain');
      t.match(await revoke(old), { webhook_endpoints: [{ status: 'enabled' }] }, 'it never managed any');
      t.match(
        await revoke(next),
        { webhook_endpoints: [{ status: 'disabled' }] },
        'the last key of the client',
      );
    },
  );

  await t.test('rotate: both keys live for the overlap', async (t) => {
    const old = await issue('--client', 'rotating', '--scopes', 'jobs:read', '--for', '30d');
    const next = parse(await keys('rotate', old.id, '--overlap', '1h', '--json'));
    t.match(next, { client: 'rotating', organization: 'acme', scopes: ['jobs:read'], state: 'active' });
    t.equal(Date.parse(next.expires_at) - Date.parse(next.created_at), 30 * 86_400_000, 'issued for as long');
    t.strictSame([await statusWith(old.api_key), await statusWith(next.api_key)], [200, 200]);
    const replaced = await listed(old.id);
    t.equal(replaced.replaced_by, next.id);
    t.match(next, { replaces: old.id, replaced_expires_at: replaced.expires_at });
    t.ok(Date.parse(replaced.expires_at) - Date.parse(next.created_at) <= 3_600_000);
    t.match(await keys('rotate', old.id), {
      status: 1,
      stderr: /was already replaced by key_\w+; to end it now, revoke it/,
    });

    const last = parse(await keys('rotate', next.id, '--overlap', '0s', '--json'));
    t.strictSame([await statusWith(next.api_key), await statusWith(last.api_key)], [401, 200]);
  });

  await t.test('wrong clients, scopes and durations are refused', async (t) => {
    const cases: [args: string[], status: number, message: RegExp][] = [
      [
        ['issue', '--client', 'invoices', '--organization', 'beta'],
        1,
        /client invoices belongs to organization acme/,
      ],
      [['issue', '--client', 'In voices', '--organization', 'acme'], 64, /a-z, 0-9 and dashes/],
      [['issue', '--client', 'invoices'], 64, /required option '--organization/],
      [
        ['issue', '--client', 'a', '--organization', 'b', '--scopes', 'jobs:delete'],
        64,
        /Expected scopes from jobs:create/,
      ],
      [['issue', '--client', 'a', '--organization', 'b', '--validity', '90'], 64, /Expected a duration/],
      [['issue', '--client', 'a', '--organization', 'b', '--for', '0s'], 64, /Expected a duration above 0/],
      [['revoke', 'key_0000000000000000'], 1, /there is no key key_0000000000000000/],
    ];
    for (const [args, status, stderr] of cases)
      t.match(await keys(...args), { status, stderr }, args.join(' '));
  });

  await t.test('a person at a terminal is asked before a key is revoked', async (t) => {
    const revoke = async (answer: string | undefined, ...more: string[]) => {
      const { id, api_key: apiKey } = await issue('--client', 'asked');
      const args = ['keys', 'revoke', String(id), ...more, '--config', sandbox.configFile];
      const person = answer === undefined ? {} : ({ person: true, input: `${answer}\n` } as const);
      const result = await sandbox.pdfseal(args, person);
      return { ...result, isActive: (await statusWith(apiKey)) === 200 };
    };
    for (const answer of ['no', 'y', ''])
      t.match(
        await revoke(answer),
        { status: 1, stderr: /will never be valid again\. Type yes.*nothing was done/s, isActive: true },
        answer,
      );
    t.match(await revoke('yes'), { status: 0, stderr: /Type yes/, isActive: false });
    for (const [answer, ...more] of [['no', '--yes'], [undefined]] as const) {
      const found = await revoke(answer, ...more);
      t.match(found, { status: 0, isActive: false }, 'not asked');
      t.notMatch(found.stderr, /Type yes/);
    }
  });
});

function parse({ status, stdout, stderr }: RunResult) {
  if (status !== 0) throw new Error(stderr);
  return JSON.parse(stdout);
}
