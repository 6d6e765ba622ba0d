import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import type { CommandOptions } from '../support/commands.ts';
import { makePdf } from '../support/pdf.ts';
import { openSandbox } from '../support/sandbox.ts';

t.test('documents and their receipts, with the real daemon', async (t) => {
  const sandbox = await openSandbox();
  t.teardown(() => sandbox.close());
  const env = { PDFSEAL_API_KEY: await sandbox.issueKey('invoices') };
  await sandbox.start();
  const dir = t.testdir({ 'bad.pdf': 'no PDF' });
  for (const name of ['a', 'b', 'c']) writeFileSync(join(dir, `${name}.pdf`), await makePdf(name));
  const pdfseal = (args: string[], options: CommandOptions = { env }) =>
    sandbox.pdfseal(args, { cwd: dir, ...options });
  const target = ['--url', sandbox.url, '--visibility', 'private'];
  const submit = (...args: string[]) => pdfseal(['submit', ...args, ...target]);
  const admin = (...args: string[]) => pdfseal([...args, '--config', sandbox.configFile]);
  const read = (name: string): string => readFileSync(join(dir, name), 'utf8');

  await t.test('each receipt is written next to its document, and verifies', async (t) => {
    const { status, stdout, stderr } = await submit(
      'a.pdf',
      'b.pdf',
      '--customer-reference',
      '\u001b[31m"7"',
    );
    t.equal(status, 0, stderr);
    t.match(stdout, /^a.pdf.receipt.json {2}job_\w+\nb.pdf.receipt.json {2}job_\w+\n$/);
    t.equal(JSON.parse(read('a.pdf.receipt.json')).customer_reference, '\u001b[31m"7"');
    for (const name of ['a.pdf', 'b.pdf']) {
      const verified = await pdfseal(['verify', name, `${name}.receipt.json`, '--trust', sandbox.trustFile]);
      t.equal(verified.status, 0, verified.stdout);
    }
  });

  await t.test('a second submission gives the same job and receipt, as JSON with --json', async (t) => {
    const before = read('a.pdf.receipt.json');
    const { status, stdout } = await submit('a.pdf', '--customer-reference', '\u001b[31m"7"', '--json');
    t.equal(status, 0);
    t.match(JSON.parse(stdout), {
      document: 'a.pdf',
      phase: 'completed',
      replayed: true,
      receipt: 'a.pdf.receipt.json',
    });
    t.equal(JSON.parse(stdout).job_id, JSON.parse(before).job_id);
    t.equal(read('a.pdf.receipt.json'), before);
  });

  await t.test('another receipt is overwritten only with --force', async (t) => {
    const before = read('a.pdf.receipt.json');
    const refused = await submit('a.pdf', '--mode', 'async', '--purpose', 'invoices', '--json');
    t.equal(refused.status, 1);
    const { job_id, error } = JSON.parse(refused.stdout);
    t.match(error, { code: 'receipt_exists', message: /a.pdf.receipt.json is another receipt/ });
    t.equal(read('a.pdf.receipt.json'), before);
    const forced = await submit('a.pdf', '--mode', 'async', '--purpose', 'invoices', '--force');
    t.equal(forced.status, 0, forced.stderr);
    t.match(JSON.parse(read('a.pdf.receipt.json')), { job_id, manifest: { purpose: 'invoices' } });
  });

  await t.test('a refused document is reported and does not stop the rest', async (t) => {
    const { status, stdout, stderr } = await submit('bad.pdf', 'none.pdf', 'c.pdf');
    t.match({ status, stdout }, { status: 1, stdout: /^c.pdf.receipt.json {2}job_\w+\n$/ });
    t.match(
      stderr,
      /^pdfseal: bad.pdf: not_a_pdf: .*\npdfseal: none.pdf: cannot read none.pdf \(no such file or directory\)\n$/,
    );
    t.notOk(existsSync(join(dir, 'bad.pdf.receipt.json')));
    const { error } = JSON.parse((await submit('bad.pdf', '--json')).stdout);
    t.match(error, { code: 'not_a_pdf', message: /^file / }, 'the code is not told twice');
    t.strictSame(
      readdirSync(dir).filter((name) => name.endsWith('.new')),
      [],
      'no leftover',
    );
  });

  await t.test('the API key comes from a file or the environment, never from the command line', async (t) => {
    writeFileSync(join(dir, 'key'), `${env.PDFSEAL_API_KEY}\n`);
    const fromFile = await pdfseal(['submit', 'c.pdf', '--key-file', 'key', ...target], {});
    t.equal(fromFile.status, 0, fromFile.stderr);
    const none = await pdfseal(['submit', 'c.pdf', ...target], {});
    t.match(none, { status: 1, stderr: /no API key: name a file with --key-file, or set PDFSEAL_API_KEY/ });
    writeFileSync(join(dir, 'two'), 'seal_one\nseal_two');
    const two = await pdfseal(['submit', 'c.pdf', '--key-file', 'two', ...target], {});
    t.match(two, { status: 1, stderr: /must be one line/ });
    const wrong = await pdfseal(['submit', 'c.pdf', ...target], {
      env: { PDFSEAL_API_KEY: `${env.PDFSEAL_API_KEY}x` },
    });
    t.match(wrong, { status: 1, stderr: /c.pdf: invalid_api_key: / });
    t.notMatch(wrong.stderr, env.PDFSEAL_API_KEY);
  });

  await t.test('the administrator sees the jobs, and the log is good while the daemon runs', async (t) => {
    const list = async (...args: string[]) => {
      const { stdout } = await admin('jobs', 'list', '--json', ...args);
      return stdout
        .split('\n')
        .filter(Boolean)
        .map((line) => JSON.parse(line));
    };
    const all = await list();
    t.equal(all.length, 4);
    t.strictSame(
      all.map(({ id }) => id),
      all
        .map(({ id }) => id)
        .sort()
        .reverse(),
      'newest first',
    );
    t.match(all[0], {
      phase: 'completed',
      client: 'invoices',
      organization: 'acme',
      environment: 'env_sandbox',
    });
    const { document_sha256, job_id, sealed_at, evidence } = JSON.parse(read('b.pdf.receipt.json'));
    const named = await list('--document-sha256', document_sha256.toUpperCase());
    t.match(named, [{ id: job_id, document_sha256, sealed_at }]);
    t.equal((await list('--customer-reference', '\u001b[31m"7"')).length, 2);
    t.strictSame([(await list('--limit', '3')).length, (await list('--client', 'nobody')).length], [3, 0]);
    t.strictSame(
      [(await list('--phase', 'failed')).length, (await list('--phase', 'completed')).length],
      [0, 4],
    );
    const table = (await admin('jobs', 'list')).stdout;
    t.match(table, /^JOB .*\n(job_\w+ +completed .*\n){4}$/);
    t.match(table, '\\u001b[31m"7"', 'controls are shown, not obeyed');
    const minute = sealed_at.slice(0, 16).replace('T', ' ');
    const start = `^${job_id} +completed +\\d{4}-.* ${minute}:\\d\\d .*`;
    t.match(
      table,
      new RegExp(`${start} ${document_sha256.slice(0, 11)}…$`, 'm'),
      'a document finds its line',
    );
    const wide = (await admin('jobs', 'list', '--wide')).stdout;
    t.match(wide, new RegExp(`${start} ${document_sha256} +\\d+$`, 'm'));

    const first = await admin('jobs', 'list', '--json', '--limit', '3');
    const [, cursor = ''] = /--cursor (job_\w+)"\}\n$/.exec(first.stderr) ?? [];
    t.equal(cursor, all[2].id, 'the last one that is shown');
    t.strictSame(
      (await list('--cursor', cursor)).map(({ id }) => id),
      [all[3].id],
    );
    t.equal((await admin('jobs', 'list', '--cursor', cursor)).stderr, '', 'there are no more');
    const dates = await Promise.all([list('--since', '2026-01-01'), list('--until', '2026-01-01')]);
    t.strictSame(
      dates.map(({ length }) => length),
      [4, 0],
    );

    t.match(JSON.parse((await admin('jobs', 'show', '--json', job_id)).stdout), {
      id: job_id,
      leaf_index: evidence.leaf_index,
    });
    t.equal((await admin('jobs', 'show', job_id, '--receipt')).stdout, read('b.pdf.receipt.json'));
    t.match(await admin('jobs', 'show', 'job_0'), { status: 1, stderr: 'pdfseal: there is no job job_0\n' });

    t.match(await admin('check'), {
      status: 0,
      // The others are the canary of the daemon's start and three records of the audit trail.
      stdout: /^8 leaves in \d checkpoints; jobs: 8 completed, 0 failed, 0 waiting\ngood\n$/,
    });
    t.match(JSON.parse((await admin('check', '--json')).stdout), {
      outcome: 'good',
      leaves: 8,
      problem_count: 0,
    });
  });
});

t.test('check ends with 2 if there is no store', async (t) => {
  const sandbox = await openSandbox({ init: false });
  t.teardown(() => sandbox.close());
  t.match(await sandbox.pdfseal(['check', '--config', sandbox.configFile]), {
    status: 2,
    stderr: /^pdfseal: there is no store in .*: make one with `pdfseal init`\n$/,
  });
});
