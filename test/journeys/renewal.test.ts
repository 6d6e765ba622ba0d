/** Renewals as an administrator makes them: with the running daemon, and with an outside authority that openssl plays, by file. */
import { appendFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { parseEvidenceRecord, verifyEvidenceRecord } from '../../src/asn1/evidenceRecord.ts';
import { encodePem } from '../../src/asn1/pem.ts';
import { fromUtf8 } from '../../src/base/bytes.ts';
import { parseTrust } from '../../src/manifest/trustFile.ts';
import { makeAuthority, openssl } from '../support/certificates.ts';

import { Client, type JobBody } from '../support/client.ts';
import { makeOutsideAuthority } from '../support/outsideAuthority.ts';
import { makePdf } from '../support/pdf.ts';
import { openSandbox } from '../support/sandbox.ts';

t.test('renewal of time-stamps', async (t) => {
  const sandbox = await openSandbox({
    stamped: true,
    tables: { health: 'canary_interval = "off"' },
  });
  t.teardown(() => sandbox.close());
  const outside = makeOutsideAuthority(sandbox.dir);
  appendFileSync(sandbox.configFile, `[timestamp.remotes.outside]\nroots_file = "${outside.rootFile}"\n`);
  const file = (name: string) => join(sandbox.dir, name);
  const pdfseal = (args: string[], input?: Uint8Array) =>
    sandbox.pdfseal([...args, '--config', sandbox.configFile], input && { input });
  const renew = async (t: Test, ...args: string[]) => {
    const { status, stdout, stderr } = await pdfseal(['renew', ...args, '--json']);
    t.equal(status, 0, stdout + stderr);
    return JSON.parse(stdout);
  };
  const apiKey = await sandbox.issueKey();
  t.match(await pdfseal(['renew', '--now']), { status: 1, stderr: /the log is empty/ });
  const daemon = await sandbox.start();
  const client = await Client.connect(sandbox.url, apiKey);
  const seal = async () =>
    (await client.seal(Buffer.from(await makePdf('a')), { mode: 'blocking' })).json<JobBody>().id;
  const { stdout: trust } = await pdfseal(['trust', 'export']);
  const trustedRoots = parseTrust(trust).timestampAuthorities.map(({ root }) => root);
  /** The evidence record of a job, verified. */
  const recordOf = async (t: Test, id: string) => {
    const { bytes: record } = await client.get(`/v1/jobs/${id}/receipt.ers`);
    const receipt = (await client.get(`/v1/jobs/${id}/receipt.json`)).json<{
      evidence: { checkpoint: string };
    }>();
    const data = fromUtf8(receipt.evidence.checkpoint);
    const verdict = verifyEvidenceRecord({ record, data, trustedRoots, at: Date.now() + 5_000 });
    t.match(verdict, { outcome: 'good' });
    return parseEvidenceRecord(record).chains.map((chain) => chain.length);
  };

  t.match(await renew(t, '--dry-run'), { due: null, standing: [], renewed: null });
  t.notOk(existsSync(file('state/last-renewal.json')), 'where nothing is due, nothing is good or bad');
  const first = await seal();

  await t.test('the daemon’s own authority stamps a renewal', async (t) => {
    const found = await renew(t);
    t.match(found, { due: null, renewed: null, standing: [{ checkpoints: Number, digest: 'sha512' }] });
    t.ok(Date.parse(found.ends_at) > Date.now());
    t.match(await renew(t, '--dry-run', '--hash', 'sha384'), {
      due: 'sha384 replaces sha512',
      renewed: null,
    });
    t.strictSame(await recordOf(t, first), [1]);
    t.match(await renew(t, '--now'), {
      renewed: { renewal: 1, digest: 'sha512', from: 0, stamps: [{ authority: 'built-in' }] },
    });
    t.strictSame(await recordOf(t, first), [2]);
    const shown = await pdfseal(['renew']);
    t.match(shown, {
      status: 0,
      stdout: /^renewal 1, by built-in \(sha512, ecdsa-p256, sha256\): until .*nothing is due\n$/s,
    });
  });

  await t.test('an algorithm that ends soon is announced, and renewed in time', async (t) => {
    const sunset = (algorithm: string, until: string) =>
      `\n[[renewal.sunset]]\nalgorithm = "${algorithm}"\nuntil = "${until}"\nsource = "a catalogue"\n`;
    const inDays = (days: number) => new Date(Date.now() + days * 86_400_000).toISOString().slice(0, 10);
    const config = readFileSync(sandbox.configFile, 'utf8');
    const until = async (algorithm: string, days: number) => {
      writeFileSync(sandbox.configFile, config + sunset(algorithm, inDays(days)));
      const run = await pdfseal(['renew']);
      const note = JSON.parse(readFileSync(file('state/last-renewal.json'), 'utf8'));
      return { ...run, note };
    };
    const noteOf = () => readFileSync(file('state/last-renewal.json'), 'utf8');
    t.match(await until('ecdsa-p256', 200), {
      status: 0,
      stdout: /, because ecdsa-p256 may be relied on until then \(a catalogue\)\n[\s\S]*nothing is due/,
      note: { good: true, holds_until: new RegExp(`^${inDays(200)}`) },
    });
    t.match(await until('ecdsa-p256', 100), {
      status: 0,
      stderr:
        /hardly later than what it renews: nothing is renewed yet\n.*an authority that does without ecdsa-p256/,
      note: { good: true },
    });
    t.match(await renew(t), { renewed: null, refused: /hardly later than what it renews/ });
    t.match(await until('ecdsa-p256', 80), {
      status: 1,
      stderr: /hardly later than what it renews: nothing is renewed\n.*--shorter\n/,
      note: { good: false, holds_until: new RegExp(`^${inDays(80)}`) },
    });
    const failed = noteOf();
    await pdfseal(['renew', '--dry-run']);
    t.equal(noteOf(), failed, 'a look at the log silences no alarm');
    t.match(await until('sha512', 100), {
      status: 1,
      stderr: /sha512 may be relied on until \d{4}-\d\d-\d\d only: nothing is renewed\n/,
    });
    t.match(await until('sha512', 200), { status: 0, note: { good: true } });
    t.match(await until('rsa-4096', 1), { status: 0, stdout: /nothing is due/ }, 'which nothing uses');
    for (const [wrong, day] of [
      ['sha512', '2027-02-30'],
      ['sha512', 'soon'],
      ['md5', '2027-01-01'],
    ] as const) {
      writeFileSync(sandbox.configFile, config + sunset(wrong, day));
      t.match(await pdfseal(['renew']), { status: 1, stderr: /renewal\.sunset\[0\]\.(until|algorithm)/ });
    }
    writeFileSync(sandbox.configFile, config);
  });

  const second = await seal();
  await t.test('an outside authority stamps a renewal by file', async (t) => {
    sandbox.through = ['sh', '-c', `exec "$@" >${file('query.tsq')}`, 'sh'];
    const asked = await pdfseal(['renew', 'request', '--hash', 'sha384']);
    sandbox.through = [];
    t.match(asked, { status: 0, stderr: /a query for renewal 2, over \d+ leaves, sha384: transfer it/ });
    const query = readFileSync(file('query.tsq'));
    t.match(openssl('ts', '-query', '-in', file('query.tsq'), '-text'), { output: /Hash Algorithm: sha384/ });
    const again = await renew(t, 'request', '--hash', 'sha384');
    t.match(again, { renewal: 2, digest: 'sha384', query: query.toString('base64') });
    t.ok(Date.parse(again.answer_until) > Date.now() + 29 * 86_400_000);
    for (const args of [
      ['request', '--dry-run'],
      ['request', '--now'],
      ['accept', '--hash', 'sha384'],
    ])
      t.match(await pdfseal(['renew', ...args]), { status: 64, stderr: /pdfseal renew \w+ takes no --/ });
    // Its tokens state whole seconds.
    await sleep(1_100);
    openssl('ts', '-query', '-digest', '00'.repeat(48), '-sha384', '-cert', '-out', file('other.tsq'));
    outside.reply(file('other.tsq'), file('other.tsr'));
    outside.reply(file('query.tsq'), file('answer.tsr'));
    const accept = (bytes: Uint8Array) => pdfseal(['renew', 'accept'], bytes);
    t.match(await accept(readFileSync(file('other.tsr'))), {
      status: 1,
      stderr: /is not a proof: stamps something else/,
    });
    t.match(await accept(query), { status: 1, stderr: /this is not the answer of a time-stamp authority/ });
    const answer = readFileSync(file('answer.tsr'));
    t.match(await accept(answer), {
      status: 1,
      stderr: /the new time-stamp would end .*, before what it renews .*\n.*hsm certify.*--shorter\n/,
    });
    t.match(await pdfseal(['renew', 'accept', '--shorter'], answer), {
      status: 0,
      stdout: /^renewal 2: outside stamped everything .* sha384\n/,
      stderr: /hand over the trust file again/,
    });
    t.match(await accept(answer), { status: 1, stderr: /no query is open/ });
    t.strictSame(await recordOf(t, first), [2, 1]);
    t.strictSame(await recordOf(t, second), [1, 1]);
  });

  await t.test('a stolen key can be looked into before anything is renewed', async (t) => {
    const theft = ['--distrust', outside.rootFile, '--since'];
    t.match(await pdfseal(['renew', '--distrust', outside.rootFile]), {
      status: 64,
      stderr: /--since together/,
    });
    t.match(await renew(t, ...theft, '2026-01-01'), {
      distrusted: {
        alone: 0,
        still_proven: Number,
        ranges: [{ from: 0, by: 'its own time-stamp' }],
        witnessed: [],
      },
      renewed: null,
    });
    const shown = await pdfseal(['renew', ...theft, '2026-01-01']);
    t.match(shown, {
      status: 0,
      stdout: /^0 checkpoints depend on this root alone; \d+ checkpoints stay proven\n .* still proves? /,
    });
    const other = makeAuthority(sandbox.dir, 'unrelated').certificateFile;
    for (const [certificate, fault] of [
      [
        file('outside-tsa.pem'),
        /outside TSU is not a root: another certificate issued it\n.*give the root of the authority/,
      ],
      [other, /no time-stamp of the log rests on the root .*unrelated\n/],
    ] as const) {
      const refused = await pdfseal(['renew', '--distrust', certificate, '--since', '2026-01-01', '--now']);
      t.match(refused, { status: 1, stdout: '', stderr: fault });
    }
  });

  await t.test('records are renewed without the stolen key', async (t) => {
    const theft = ['--distrust', outside.rootFile, '--since', '2026-01-01'];
    t.match(await renew(t, ...theft, '--now'), {
      renewed: { renewal: 3, digest: 'sha384', from: 0, stamps: [{ authority: 'built-in' }] },
    });
    t.strictSame(await recordOf(t, first), [2, 1]);
    t.strictSame(await recordOf(t, second), [1, 1]);
    const { bytes: record } = await client.get(`/v1/jobs/${second}/receipt.ers`);
    t.notOk(Buffer.from(record).includes('outside'), 'nothing of it is left in there');
    t.match(await pdfseal(['check']), {
      status: 0,
      stdout: /good/,
      stderr: /renewal 2 is of a stolen key: the evidence records of leaves 0 to \d+ leave it out\n/,
    });
    t.match(await renew(t), { due: null, standing: [{ renewal: 3 }], no_longer_proven: 0 });
  });

  await t.test('no answer from a distrusted root is accepted', async (t) => {
    const since = `${new Date().toISOString().slice(0, 19)}Z`;
    const { timestampAuthorities } = parseTrust((await pdfseal(['trust', 'export'])).stdout);
    const own = timestampAuthorities.find(({ name }) => name === 'built-in')?.root.der ?? new Uint8Array();
    writeFileSync(file('own.pem'), encodePem('CERTIFICATE', own));
    const distrust = (root: string) => renew(t, 'request', '--distrust', root, '--since', since);
    await distrust(file('own.pem'));
    const { query } = await distrust(outside.rootFile);
    writeFileSync(file('distrusted.tsq'), Buffer.from(query, 'base64'));
    await sleep(1_100);
    outside.reply(file('distrusted.tsq'), file('distrusted.tsr'));
    t.match(await pdfseal(['renew', 'accept'], readFileSync(file('distrusted.tsr'))), {
      status: 1,
      stderr:
        /the answer is not accepted: .* is distrusted from 2\S+ on, as was said after the last renewal\n/,
    });
  });

  await t.test('renewals are checked, on record, and part of a backup', async (t) => {
    const checked = await pdfseal(['check']);
    t.match(checked, { status: 0, stdout: /good/ }, checked.stdout + checked.stderr);
    const { stdout } = await pdfseal(['audit', 'list', '--act', 'renewal.run', '--json']);
    t.equal(stdout.trim().split('\n').length, 3);
    t.equal(
      stdout.match(/[0-9a-f]{64} since 2026-01-01T00:00:00\.000Z/g)?.length,
      1,
      'and what was said of a theft',
    );
    const backup = await pdfseal(['backup', '--output', file('backups')]);
    t.equal(backup.status, 0, backup.stderr);
  });

  await t.test('a root that was distrusted by mistake can be trusted again', async (t) => {
    const mistake = / is distrusted from 2\S+ on, as was said after the last renewal/;
    t.match((await pdfseal(['renew', '--dry-run'])).stdout, mistake);
    const { known_thefts: thefts } = await renew(t, '--dry-run');
    t.match(thefts, [
      { subject: 'CN=outside', root_sha256: /^[0-9a-f]{64}$/, since: /^2/, renewal: null },
      { subject: /time-stamping root$/ },
    ]);
    t.match(
      (await pdfseal(['doctor'])).stdout,
      /, and timestamp\.authorities has it\n.*name another one; if it was said by mistake, take it back: /,
    );
    t.match(await pdfseal(['renew', '--now']), {
      status: 1,
      stderr:
        /^a query is open: this is the renewal that it requests, with sha384\n[\s\S]*no time-stamp of built-in for the renewal: .* is distrusted from 2.*\n.*name another authority; .*take it back: pdfseal renew --distrust ROOT/,
    });
    const back = ['--distrust', file('own.pem'), '--since', '9999-12-31'];
    const looked = await pdfseal(['renew', ...back]);
    t.match(looked, { status: 0, stderr: /^9999-12-31T00:00:00\.000Z is in the future: .* until then\n/ });
    t.notMatch(looked.stdout, '--now');
    t.match(await renew(t, ...back, '--now'), {
      renewed: { renewal: 4, stamps: [{ authority: 'built-in' }] },
    });
    t.match(await renew(t, '--dry-run'), { known_thefts: [{ renewal: 4 }] });
    t.notMatch((await pdfseal(['doctor'])).stdout, 'timestamp.authorities has it');
  });

  await t.test('an authority that is no longer in the configuration is missed', async (t) => {
    const config = readFileSync(sandbox.configFile, 'utf8');
    const missing = /renewal 2 is from outside, whose root .*\n.*\[timestamp\.remotes\.outside\]/;
    writeFileSync(sandbox.configFile, config.replace(/\[timestamp\.remotes\.outside\]\n.*\n/, ''));
    t.match(await pdfseal(['trust', 'export']), { status: 0, stderr: missing });
    const { stdout } = await pdfseal(['doctor']);
    t.match(stdout, missing);
    writeFileSync(sandbox.configFile, config);
    t.match(await pdfseal(['trust', 'export']), { status: 0, stderr: '' });
    t.notMatch((await pdfseal(['doctor'])).stdout, 'of outside');
  });

  t.equal(await daemon.stop(), 0);
  t.match(await pdfseal(['renew', '--now']), { status: 1, stderr: /no pdfseald answers/ });
});
