/** Renewals with two authorities by file, beside a witness, and across a restore. */
import { appendFileSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { encodePem } from '../../src/asn1/pem.ts';
import { acquireLock } from '../../src/base/lock.ts';
import { parseTrust } from '../../src/manifest/trustFile.ts';
import { Client, type JobBody } from '../support/client.ts';
import { Litewitness } from '../support/litewitness.ts';
import { makeOutsideAuthority } from '../support/outsideAuthority.ts';
import { openSandbox } from '../support/sandbox.ts';
import { until } from '../support/until.ts';

const ORIGIN = 'seal.example.com/sandbox/2026';
const DOCUMENT = Buffer.from('%PDF-1.7\na document\n%%EOF\n');

t.test('renewals with two authorities, a witness and a restore', async (t) => {
  const sandbox = await openSandbox({
    stamped: true,
    tables: { health: 'canary_interval = "off"' },
  });
  t.teardown(() => sandbox.close());
  const file = (name: string) => join(sandbox.dir, name);
  const [north, south] = [
    makeOutsideAuthority(sandbox.dir, 'north'),
    makeOutsideAuthority(sandbox.dir, 'south'),
  ];
  appendFileSync(sandbox.configFile, '[renewal]\nauthorities = 2\n');
  for (const [name, { rootFile }] of Object.entries({ north, south }))
    appendFileSync(sandbox.configFile, `[timestamp.remotes.${name}]\nroots_file = "${rootFile}"\n`);
  const { logs } = JSON.parse(readFileSync(sandbox.trustFile, 'utf8'));
  const [{ vkey }] = logs[0].epochs[0].keys;
  const witness = await Litewitness.open(t, 'witness.example.net/north', ORIGIN, [vkey]);
  writeFileSync(file('policy'), `log ${vkey}\nwitness north ${witness.vkey} ${witness.url}\nquorum north\n`);
  const whole = readFileSync(sandbox.configFile, 'utf8');
  const table = '[witness]\npolicy = "policy"\ninterval = "200ms"\n';
  writeFileSync(sandbox.configFile, whole.replace('[witness]\n', table));
  const apiKey = await sandbox.issueKey();
  let daemon = await sandbox.start();
  const client = await Client.connect(sandbox.url, apiKey);
  const pdfseal = (args: string[], input?: Uint8Array) =>
    sandbox.pdfseal([...args, '--config', sandbox.configFile], input && { input });
  const { id } = (await client.seal(DOCUMENT, { mode: 'blocking' })).json<JobBody>();
  const recordOf = async () => (await client.get(`/v1/jobs/${id}/receipt.ers`)).bytes;

  const answersTo = (query: string): Buffer[] =>
    [north, south].map(({ reply }, n) => {
      reply(query, file(`${n}.tsr`));
      return readFileSync(file(`${n}.tsr`));
    });

  await t.test('two authorities answer the same query by file', async (t) => {
    const asked = await pdfseal(['renew', 'request', '--json']);
    writeFileSync(file('query.tsq'), Buffer.from(JSON.parse(asked.stdout).query, 'base64'));
    // Tokens of whole seconds must be later than what they renew.
    await sleep(1_100);
    const [first, second] = answersTo(file('query.tsq'));
    const accept = (answer: Uint8Array | undefined) => pdfseal(['renew', 'accept', '--shorter'], answer);
    const before = await recordOf();
    t.match(await accept(first), { status: 0, stderr: /^kept: 1 of 2 time-stamps\. Carry the same query / });
    t.strictSame(await recordOf(), before, 'nothing is renewed yet');
    t.match(await accept(first), { status: 0, stderr: /^kept: 1 of 2/ }, 'the same answer counts once');
    const config = readFileSync(sandbox.configFile, 'utf8');
    writeFileSync(sandbox.configFile, config.replace(/\[timestamp\.remotes\.north\]\n.*\n/, ''));
    t.match(await accept(second), {
      status: 0,
      stderr: /^the earlier time-stamp of north cannot be used: .*\nkept: 1 of 2 time-stamps\. /,
    });
    writeFileSync(sandbox.configFile, config);
    t.match(await accept(first), { status: 0, stdout: /^renewal 1: south and north stamped everything / });
    t.not(Buffer.compare(await recordOf(), before), 0);
    t.match(await accept(second), { status: 1, stderr: /no query is open/ });
  });

  await t.test('after a theft, the command reports what a witness saw', async (t) => {
    await until('the newest checkpoint is witnessed', async () => {
      const [newest, seen] = [
        await client.get('/v1/log/checkpoint'),
        await client.get('/v1/log/checkpoint/witnessed'),
      ];
      return newest.text === seen.text;
    });
    const { timestampAuthorities } = parseTrust((await pdfseal(['trust', 'export'])).stdout);
    const own = timestampAuthorities.find(({ name }) => name === 'built-in')?.root.der ?? new Uint8Array();
    writeFileSync(file('own.pem'), encodePem('CERTIFICATE', own));
    const theft = ['--distrust', file('own.pem'), '--since', '2020-01-01'];
    const found = await pdfseal(['renew', ...theft, '--json']);
    t.equal(found.status, 0, found.stderr);
    const { alone, witnessed } = JSON.parse(found.stdout).distrusted;
    t.ok(alone >= 1, 'what the outside authorities stamped later proves nothing of that time');
    t.match(witnessed, [{ witness: 'north', tree_size: Number }]);
    t.ok(Math.abs(Date.parse(witnessed[0].cosigned_at) - Date.now()) < 600_000);
    t.match(
      (await pdfseal(['renew', ...theft])).stdout,
      /^the witness north saw the first \d+ leaves by 2\S+Z$/m,
    );
  });

  await t.test('a restore is refused during a renewal, and brings the renewals back', async (t) => {
    const before = await recordOf();
    t.equal(await daemon.stop(), 0);
    const backup = await pdfseal(['backup', '--output', file('backup')]);
    t.equal(backup.status, 0, backup.stderr);
    const restore = () => pdfseal(['restore', '--input', file('backup')]);
    const lock = acquireLock(file('state/renewal.lock'), 'pdfseal renew');
    t.match(await restore(), {
      status: 1,
      stderr: /another pdfseal renew \(process \d+\) is using this state folder.*\n.*wait until it has ended/,
    });
    lock.release();
    const restored = await restore();
    t.equal(restored.status, 0, restored.stderr);
    daemon = await sandbox.start();
    t.strictSame(await recordOf(), before);
    t.match(await pdfseal(['renew', '--dry-run']), {
      status: 0,
      stdout: /^renewal 1, by south .*\nrenewal 1, by north /,
    });
    t.match(await pdfseal(['check']), { status: 0, stdout: /good/ });
  });
});
