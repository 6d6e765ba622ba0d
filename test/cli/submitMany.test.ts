/** `pdfseal submit` with folders, digests and hosted documents, against the real daemon. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { pdfOf } from '../support/app.ts';
import { programFile } from '../support/programs.ts';
import { openSandbox } from '../support/sandbox.ts';
import { openSource, serving, sha256Of } from '../support/sources.ts';
import { until } from '../support/until.ts';

t.test('many documents, with the real daemon', async (t) => {
  const hosted = pdfOf('hosted');
  const source = await openSource(t, serving(hosted));
  const sandbox = await openSandbox({ tables: { sources: 'allow = ["127.0.0.0/8"]' } });
  t.teardown(() => sandbox.close());
  const env = { PDFSEAL_API_KEY: await sandbox.issueKey('archive') };
  await sandbox.start();
  const dir = t.testdir();
  const target = ['--url', sandbox.url, '--visibility', 'private'];
  const submit = (...args: string[]) => sandbox.pdfseal(['submit', ...args, ...target], { cwd: dir, env });
  const verify = (document: string, receipt = `${document}.receipt.json`) =>
    sandbox.pdfseal(['verify', document, receipt, '--trust', sandbox.trustFile], { cwd: dir });
  const jobs = async () => {
    const { stdout } = await sandbox.pdfseal([
      'jobs',
      'list',
      '--config',
      sandbox.configFile,
      '--json',
      '--limit',
      '1000',
    ]);
    return stdout.split('\n').filter(Boolean).length;
  };
  const fill = (folder: string, count: number, bytes = 0) => {
    mkdirSync(join(dir, folder, 'deep', 'er'), { recursive: true });
    return Array.from({ length: count }, (_, n) => {
      const name = join(folder, n % 2 === 0 ? '' : 'deep/er', `${n}${n % 3 === 0 ? '.PDF' : '.pdf'}`);
      writeFileSync(join(dir, name), pdfOf(`${folder} ${n}`, bytes));
      return name;
    });
  };
  const receiptsIn = (folder: string) =>
    readdirSync(join(dir, folder), { recursive: true, encoding: 'utf8' }).filter((name) =>
      name.endsWith('.receipt.json'),
    );

  await t.test('a folder is sealed by digests in one batch, and again only what is missing', async (t) => {
    const names = fill('archive', 25);
    writeFileSync(join(dir, 'archive', 'notes.txt'), 'no PDF');
    const first = await submit('archive', '--digest-only', '--customer-reference', 'box 7');
    t.equal(first.status, 0, first.stderr);
    t.equal(first.stdout.split('\n').length, 26);
    t.match(first.stderr, /^25 sealed, 0 already had a receipt, 0 failed\n$/);
    t.equal(receiptsIn('archive').length, 25);
    const verified = await verify(names[1] ?? '');
    t.equal(verified.status, 0, verified.stdout);
    t.match(verified.stdout, /never saw the document, nor was it scanned/);
    t.match(JSON.parse(readFileSync(join(dir, `${names[1]}.receipt.json`), 'utf8')), {
      customer_reference: 'box 7',
      manifest: { source: 'digest', scan: { verdict: 'not_scanned' } },
    });

    const before = await jobs();
    for (const name of names.slice(0, 3)) rmSync(join(dir, `${name}.receipt.json`));
    writeFileSync(join(dir, 'archive', 'new.pdf'), pdfOf('new'));
    const args = ['archive', '--digest-only', '--customer-reference', 'box 7'];
    const again = await submit(...args, '--trust', sandbox.trustFile);
    t.equal(again.status, 0, again.stderr);
    t.match(again.stderr, /^4 sealed, 22 already had a receipt, 0 failed\n$/);
    t.equal(again.stdout.match(/\(sealed before\)/g)?.length, 3);
    t.equal(await jobs(), before + 1);

    writeFileSync(join(dir, names[4] ?? ''), pdfOf('changed'));
    const changed = await submit(...args, '--json');
    t.equal(changed.status, 1);
    const lines = changed.stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
    t.equal(lines.filter(({ skipped }) => skipped).length, 25);
    t.match(
      lines.find(({ error }) => error),
      { document: names[4], error: { code: 'receipt_exists', message: /--force/ } },
    );
    t.equal(await jobs(), before + 1, 'nothing was sent');
    t.equal((await submit(...args, '--force')).status, 0);
    t.equal((await verify(names[4] ?? '')).status, 0);
  });

  await t.test('one document is sealed by its digests, and many by polling', async (t) => {
    writeFileSync(join(dir, 'one.pdf'), pdfOf('one'));
    t.equal((await submit('one.pdf', '--digest-only')).status, 0);
    t.equal((await verify('one.pdf')).status, 0);
    fill('polled', 3);
    t.equal((await submit('polled', '--digest-only', '--mode', 'async')).status, 0);
    t.equal(receiptsIn('polled').length, 3);
  });

  await t.test('an interrupted folder of uploads goes on where it was', async (t) => {
    const names = fill('uploads', 60, 200_000);
    const cli = await programFile('cli', 'src');
    const child = spawn(process.execPath, [cli, 'submit', 'uploads', '--parallel', '2', ...target], {
      cwd: dir,
      env: { ...env, PATH: process.env.PATH },
      stdio: 'ignore',
    });
    const ended = once(child, 'close');
    await until('some receipts', () => receiptsIn('uploads').length >= 5);
    child.kill('SIGINT');
    await ended;
    const had = receiptsIn('uploads').length;
    t.ok(had < names.length, `${had} of ${names.length}`);
    const before = await jobs();
    const rest = await submit('uploads');
    t.equal(rest.status, 0, rest.stderr);
    t.match(rest.stderr, `${names.length - had} sealed, ${had} already had a receipt, 0 failed`);
    t.equal(receiptsIn('uploads').length, names.length);
    t.ok((await jobs()) - before <= names.length - had, 'what was accepted before is not sealed twice');
    t.equal((await verify(names[59] ?? '')).status, 0);
  });

  await t.test('hosted documents are sealed with a copy at hand, or by their checksum', async (t) => {
    writeFileSync(join(dir, 'copy.pdf'), hosted);
    const url = `${source.origin}/files/hosted.pdf?signature=a%20b`;
    const beside = await submit('copy.pdf', '--source-url', url);
    t.equal(beside.status, 0, beside.stderr);
    t.match(JSON.parse(readFileSync(join(dir, 'copy.pdf.receipt.json'), 'utf8')).manifest, { source: 'url' });
    t.equal((await verify('copy.pdf')).status, 0);
    const remote = await submit('--source-url', url, '--checksum', sha256Of(hosted).toUpperCase(), '--json');
    t.equal(remote.status, 0, remote.stderr);
    t.match(JSON.parse(remote.stdout), { receipt: 'hosted.pdf.receipt.json' });
    t.notMatch(remote.stdout, /signature/);
    t.equal((await verify('copy.pdf', 'hosted.pdf.receipt.json')).status, 0);
  });

  await t.test('options that contradict each other are refused', async (t) => {
    const wrong = [
      [],
      ['a.pdf', '--checksum', 'ab'.repeat(32)],
      ['--source-url', 'https://example.com/a.pdf'],
      ['a.pdf', 'b.pdf', '--source-url', 'https://example.com/a.pdf'],
      ['a.pdf', '--digest-only', '--source-url', 'https://example.com/a.pdf'],
      ['a.pdf', '--digest-only', '--stripped-copy'],
      ['a.pdf', '--parallel', '65'],
      ['--source-url', 'ftp://example.com/a.pdf', '--checksum', 'ab'.repeat(32)],
    ];
    for (const args of wrong) {
      const { status, stderr } = await submit(...args);
      t.equal(status, 64, `${args.join(' ')}: ${stderr}`);
    }
  });
});
