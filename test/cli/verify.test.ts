import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Ajv2020 } from 'ajv/dist/2020.js';
import t from 'tap';
import { encodeReceipt } from '../../src/manifest/receipt.ts';
import { encodeTrust, type TrustedAuthority } from '../../src/manifest/trustFile.ts';
import { REASONS } from '../../src/prove/verify/finding.ts';
import { pdfseal } from '../support/commands.ts';
import { derOf, makeEra, renew } from '../support/evidence.ts';
import { programFile } from '../support/programs.ts';
import { makeContent, makeJob, makeKey, oneEpoch, sealJobs } from '../support/sealing.ts';

const CLI = await programFile('cli', 'src');
const ORIGIN = 'seal.example.com/test/2026';
const DOCUMENT = '%PDF-1.7 of a test %%EOF';
/** Without its metadata, say. */
const COPY = '%PDF-1.7         %%EOF%%EOF';
const key = makeKey('ed25519', 'one');
const { privateKey: _privateKey, ...logKey } = key;

const [receipt] = await sealJobs({
  jobs: [
    makeJob('job_1', {
      content: makeContent({ document: digestsOf(DOCUMENT), sealedDocument: digestsOf(COPY) }),
    }),
    makeJob('job_2'),
  ],
  environment: 'test',
  origin: ORIGIN,
  keys: [key],
  sealedAt: Date.parse('2026-03-04T05:06:08Z'),
});
if (!receipt) throw new Error('nothing was sealed');

const AT = Date.parse('2020-03-04T05:06:08Z');
const [first, second] = [await makeEra(2020, 2021), await makeEra(2020, 2100)];
first.clock.time = AT;
const [stamped, swapped] = await sealJobs({
  jobs: [makeJob('job_3', { content: makeContent({ document: digestsOf(DOCUMENT) }) }), makeJob('job_4')],
  environment: 'test',
  origin: ORIGIN,
  keys: [key],
  sealedAt: AT,
  authority: first.authority,
});
if (!stamped || !swapped) throw new Error('nothing was sealed');
const chains = stamped.evidence.timestamps.map(({ token }) => [{ token: Buffer.from(token, 'base64') }]);
const certificates = stamped.evidence.certificates.map((der) => Buffer.from(der, 'base64'));
const archived = {
  data: Buffer.from(stamped.evidence.checkpoint),
  record: { digests: ['sha512' as const], certificates, chains },
};
const [renewed] = await renew([archived], 'sha512', second, Date.parse('2020-06-01T00:00:00Z'));
if (!renewed) throw new Error('nothing was renewed');

/** Shown with every verdict. */
const TRUST_LINE =
  /The trust file has SHA-256 [0-9a-f]{64}: compare it with the digest that was handed over to you\.\n/
    .source;

const dir = t.testdir({
  'a.pdf': DOCUMENT,
  'copy.pdf': COPY,
  'other.pdf': `${DOCUMENT} `,
  'receipt.json': encodeReceipt(receipt),
  'forged.json': encodeReceipt({ ...receipt, sealed_at: '2020-01-01T00:00:00.000Z' }),
  'moved.json': encodeReceipt({ ...receipt, evidence: { ...receipt.evidence, leaf_index: 1 } }),
  'binary.json': Buffer.from([0x7b, 0xff, 0x00]),
  'huge.json': ' '.repeat(9 << 20),
  'trust.json': trustFor(ORIGIN),
  'stamped.json': encodeReceipt(stamped),
  'swapped.json': encodeReceipt({
    ...receipt,
    evidence: { ...receipt.evidence, timestamps: stamped.evidence.timestamps },
  }),
  'renewed.ers': Buffer.from(derOf(renewed)),
  'stampers.json': trustFor(ORIGIN, [
    { name: 'first', root: first.root },
    { name: 'second', root: second.root },
  ]),
  'strangers.json': trustFor('other.example.com/log'),
});

t.test('verify exits with its verdict and prints one line per check', async (t) => {
  const cases: [args: string[], status: number, stdout: RegExp, stderr: RegExp][] = [
    [
      ['a.pdf', 'receipt.json', '--trust', 'trust.json'],
      0,
      new RegExp(`^passed {3}receipt .*\npassed {3}document .*\n[\\s\\S]*\n${TRUST_LINE}good\n$`),
      /^$/,
    ],
    [
      ['copy.pdf', 'receipt.json', '--trust', 'trust.json'],
      0,
      /^passed {3}receipt .*\npassed {3}document +sealed_document, the copy without XMP metadata: .*; the document that was received has SHA-256 [0-9a-f]{64}\n[\s\S]*\ngood: the copy without XMP metadata, not the document as it was received\n$/,
      /^$/,
    ],
    [
      ['other.pdf', 'receipt.json', '--trust', 'trust.json'],
      1,
      /\nfailed {3}document +25 bytes; 24 were sealed; nor is it sealed_document, [^\n]*\n[\s\S]*\nbad\n$/,
      /^$/,
    ],
    [['a.pdf', 'forged.json', '--trust', 'trust.json'], 1, /^failed {3}receipt [\s\S]*\nbad\n$/, /^$/],
    [
      ['a.pdf', 'binary.json', '--trust', 'trust.json'],
      1,
      new RegExp(`^failed {3}receipt .*\n${TRUST_LINE}bad\n$`),
      /^$/,
    ],
    [
      ['a.pdf', 'receipt.json', '--trust', 'strangers.json'],
      2,
      /\nunknown {2}checkpoint [\s\S]*\ncould not tell\n$/,
      /^$/,
    ],
    [
      ['a.pdf', 'receipt.json', '--trust', 'receipt.json'],
      2,
      new RegExp(`^unknown {2}trust .*\n${TRUST_LINE}could not tell\n$`),
      /^$/,
    ],
    [
      ['none.pdf', 'receipt.json', '--trust', 'trust.json'],
      2,
      /^$/,
      /^pdfseal: cannot read none.pdf \(no such file or directory\)\n$/,
    ],
    [
      ['a.pdf', 'none.json', '--trust', 'trust.json'],
      2,
      /^$/,
      /^pdfseal: cannot read none.json \(no such file or directory\)\n$/,
    ],
    [
      ['a.pdf', '.', '--trust', 'trust.json'],
      2,
      /^$/,
      /^pdfseal: cannot read \. \(illegal operation on a directory\)\n$/,
    ],
    [
      ['a.pdf', 'huge.json', '--trust', 'trust.json'],
      2,
      /^$/,
      /^pdfseal: huge.json is larger than \d+ bytes\n$/,
    ],
  ];
  for (const [args, status, stdout, stderr] of cases) {
    t.match(await verify(...args), { status, stdout, stderr }, args.join(' '));
  }
});

t.test('a receipt in the format of other tools verifies as well', async (t) => {
  const exported = await run('receipt', 'export', 'receipt.json', '--format', 'tlog-proof');
  t.match(exported, {
    status: 0,
    stdout: /^c2sp\.org\/tlog-proof@v1\nextra [^\n]+\nindex 0\n/,
    stderr: /^$/,
  });
  t.equal((await run('receipt', 'export', 'receipt.json', '--output', 'a.tlog-proof')).stdout, '');
  t.equal(readFileSync(join(dir, 'a.tlog-proof'), 'utf8'), exported.stdout);
  const verified = await verify('a.pdf', 'a.tlog-proof', '--trust', 'trust.json');
  t.match(verified, { status: 0, stdout: /^passed {3}proof .*\n[\s\S]*\ngood\n$/ });

  const refused = async (path: string) => {
    const { status, stdout, stderr } = await run('receipt', 'export', path);
    t.equal(stdout, '');
    return `${status} ${stderr}`;
  };
  t.match(await refused('trust.json'), /^1 pdfseal: trust\.json: not a receipt: /);
  t.match(await refused('a.pdf'), /^1 pdfseal: a\.pdf: not a receipt: /);
  t.match(
    await refused('moved.json'),
    /^1 pdfseal: moved\.json proves nothing: the proof does not lead from the manifest /,
  );
});

t.test('an evidence record is exported, and verified with its renewals', async (t) => {
  const json = ['a.pdf', 'stamped.json', '--trust', 'stampers.json', '--evidence-record', 'a.ers', '--json'];
  const text = (...changes: [index: number, value: string][]) =>
    verify(...changes.reduce((args, [index, value]) => args.with(index, value), json.slice(0, -1)));
  const exported = await run('receipt', 'export', 'stamped.json', '--format', 'ers', '--output', 'a.ers');
  t.match(exported, { status: 0, stdout: '', stderr: /^$/ });
  const printed = [CLI, 'receipt', 'export', 'stamped.json', '--format', 'ers'];
  t.same(spawnSync(process.execPath, printed, { cwd: dir }).stdout, readFileSync(join(dir, 'a.ers')));
  const over = await verify(...json);
  t.equal(over.status, 2, 'its time is over');
  t.match(JSON.parse(over.stdout), {
    outcome: 'unknown',
    checks: { 10: { name: 'evidence-record', detail: /1 of 1 is no longer valid: / } },
    evidence_record: { time_stamps: [{ kind: 'initial', outcome: 'unknown' }] },
    evidence: undefined,
  });

  t.match(JSON.parse((await verify(...json.with(5, 'renewed.ers'))).stdout), {
    outcome: 'good',
    evidence_record: {
      time_stamps: [
        { kind: 'initial', time: '2020-03-04T05:06:08.000Z', digest: 'sha512', authority: 'first' },
        { kind: 'time-stamp renewal', outcome: 'passed', detail: /^at 2020-06-01/, authority: 'second' },
      ],
      holds_until: '2100-01-01T00:00:00.000Z',
    },
  });
  const lines =
    /^passed {5}evidence-record {2}2 time-stamps, .*\n {2}1\. passed, initial: at 2020-.*\n {2}2\. passed, time-stamp renewal: at 2020-/m;
  t.match(await text([5, 'renewed.ers']), { status: 0, stdout: lines });
  for (const [change, status, stdout] of [
    [[1, 'receipt.json'], 1, /^failed {3}evidence-record .*does not cover the data\n[\s\S]*bad\n$/m],
    [[5, 'a.pdf'], 1, /^failed {5}evidence-record {2}not DER/m],
    [[5, 'none.ers'], 2, /^$/],
  ] as const)
    t.match(await text([...change]), { status, stdout });
  const refused = (path: string) => run('receipt', 'export', path, '--format', 'ers');
  t.match(await refused('receipt.json'), {
    status: 1,
    stderr: /receipt\.json has no time-stamp for an evidence record/,
  });
  t.match(await refused('swapped.json'), {
    status: 1,
    stderr: /swapped\.json proves nothing: .*does not cover/,
  });
});

t.test('a bundle is made of its parts, verified, and taken apart again', async (t) => {
  const make = (receipt: string, ...more: string[]) =>
    run('receipt', 'export', receipt, '--format', 'bundle', ...more);
  t.match(await make('stamped.json'), { status: 1, stderr: /a bundle needs --proof <file>/ });
  await run('receipt', 'export', 'receipt.json', '--output', 'other.tlog-proof');
  t.match(await make('stamped.json', '--proof', 'other.tlog-proof'), {
    status: 1,
    stdout: '',
    stderr: /other\.tlog-proof is not of this receipt: /,
  });
  await run('receipt', 'export', 'stamped.json', '--output', 'stamped.tlog-proof');
  const parts = ['--proof', 'stamped.tlog-proof', '--evidence-record', 'renewed.ers'];
  const made = await make('stamped.json', ...parts, '--output', 'a.bundle.json');
  t.match(made, { status: 0, stdout: '', stderr: /^$/ });
  const args = ['a.pdf', 'a.bundle.json', '--trust', 'stampers.json'];
  const verified = JSON.parse((await verify(...args, '--require', 'time', '--json')).stdout);
  t.match(verified, {
    outcome: 'good',
    checks: [{ code: 'bundle_passed' }, { code: 'receipt_passed' }],
    evidence_record: { holds_until: '2100-01-01T00:00:00.000Z' },
  });
  t.match(await verify(...args, '--require', 'witness'), {
    status: 2,
    stdout: /witnesses .*names no witnesses/,
  });

  const again = (format: string) => run('receipt', 'export', 'a.bundle.json', '--format', format);
  t.equal((await again('receipt')).stdout, readFileSync(join(dir, 'stamped.json'), 'utf8'));
  t.equal((await again('tlog-proof')).stdout, readFileSync(join(dir, 'stamped.tlog-proof'), 'utf8'));
  t.equal((await again('bundle')).stdout, readFileSync(join(dir, 'a.bundle.json'), 'utf8'));
  await run('receipt', 'export', 'a.bundle.json', '--format', 'ers', '--output', 'again.ers');
  t.same(readFileSync(join(dir, 'again.ers')), readFileSync(join(dir, 'renewed.ers')));
});

t.test('--json prints the verdict for scripts', async (t) => {
  const good = await verify('a.pdf', 'receipt.json', '--trust', 'trust.json', '--json');
  t.match(JSON.parse(good.stdout), {
    schema: 'pdfseal-verdict/1',
    outcome: 'good',
    checks: [{ name: 'receipt', outcome: 'passed', code: 'receipt_passed' }],
    matches: 'document',
    trust_file_sha256: createHash('sha256').update(trustFor(ORIGIN)).digest('hex'),
    subject: { job_id: 'job_1', environment: 'env_test', document: digestsOf(DOCUMENT) },
    log: { origin: ORIGIN, leaf_index: 0, tree_size: 2 },
    signers: [{ region: 'one', algorithm: 'ed25519', software: false }],
    times: { sealed_at: '2026-03-04T05:06:08.000Z', time_stamps: [], cosignatures: [] },
  });
  const unknown = await verify('none.pdf', 'receipt.json', '--trust', 'trust.json', '--json');
  t.match(JSON.parse(unknown.stderr), { error: { code: 'no_such_file', message: /none.pdf/ } });
  t.equal(unknown.stdout, '', 'there is no verdict');
  t.equal(unknown.status, 2);
});

t.test(
  'every JSON verdict is as its schema says, and the schema and the manual have all codes',
  async (t) => {
    const read = (name: string) => readFileSync(new URL(`../../docs/${name}`, import.meta.url), 'utf8');
    const schema = JSON.parse(read('verdict.schema.json'));
    t.strictSame(schema.$defs.reason.enum, [...REASONS]);
    const rows = read('verify.md').matchAll(/^\| `([a-z_]+)` \| (?:failed|unknown|not shown|passed)/gm);
    t.strictSame(
      Array.from(rows, ([, code]) => code),
      [...REASONS],
    );
    const isValid = new Ajv2020({ strict: false }).compile(schema);
    for (const args of [
      ['a.pdf', 'receipt.json', '--trust', 'trust.json'],
      ['a.pdf', 'receipt.json', '--trust', 'trust.json', '--require', 'time,witness'],
      ['copy.pdf', 'receipt.json', '--trust', 'trust.json'],
      ['a.pdf', 'forged.json', '--trust', 'trust.json'],
      ['a.pdf', 'receipt.json', '--trust', 'a.pdf'],
      ['a.pdf', 'stamped.json', '--trust', 'stampers.json'],
      ['a.pdf', 'stamped.json', '--trust', 'stampers.json', '--evidence-record', 'renewed.ers'],
    ]) {
      const { stdout } = await verify(...args, '--json');
      t.ok(isValid(JSON.parse(stdout)), `${args.join(' ')}: ${JSON.stringify(isValid.errors)}`);
    }
  },
);

t.test('an expired time-stamp is not shown, and counts if the time is required', async (t) => {
  const args = ['a.pdf', 'stamped.json', '--trust', 'stampers.json'];
  t.match(await verify(...args), {
    status: 0,
    stdout: /\nnot shown {2}renewal +the time-stamp was good until 2021/,
  });
  t.match(await verify(...args, '--require', 'time'), {
    status: 2,
    stdout: /\nunknown {4}renewal [\s\S]*\ncould not tell\n$/,
  });
  const record = ['--evidence-record', 'renewed.ers'];
  t.match(await verify(...args, ...record, '--require', 'time'), { status: 0, stdout: /\ngood\n$/ });
  t.match(await verify(...args, '--require', 'witness'), {
    status: 2,
    stdout: /the trust file names no witnesses/,
  });
  t.match(await verify(...args, '--require', 'money'), { status: 64, stderr: /Expected time or witness/ });
});

t.test('on a terminal, a sentence comes first', async (t) => {
  const first = async (...args: string[]) => {
    const { stdout } = await pdfseal(['verify', ...args], { cwd: dir, terminal: true });
    const [line, empty] = stdout.split('\n');
    t.equal(empty, '');
    return line;
  };
  t.equal(
    await first('a.pdf', 'stamped.json', '--trust', 'stampers.json'),
    `Sealed on 4 March 2020 at 05:06:08 UTC by ${ORIGIN}, unchanged since.`,
  );
  t.equal(
    await first('copy.pdf', 'receipt.json', '--trust', 'trust.json'),
    `The copy without metadata of a document sealed on 4 March 2026 at 05:06:08 UTC by ${ORIGIN} (the time is the service’s own word), unchanged since.`,
  );
  t.match(
    await first('other.pdf', 'receipt.json', '--trust', 'trust.json'),
    /^Do not rely on this receipt: document: 25 bytes; 24 were sealed/,
  );
  t.match(
    await first('a.pdf', 'receipt.json', '--trust', 'strangers.json'),
    /^These files do not allow a verdict: checkpoint: the trust file does not know the log /,
  );
});

function verify(...args: string[]) {
  return run('verify', ...args);
}

function run(...args: string[]) {
  return pdfseal(args, { cwd: dir });
}

function trustFor(origin: string, timestampAuthorities: TrustedAuthority[] = []): string {
  const log = oneEpoch({ origin, environment: 'env_test', keys: [logKey] });
  return encodeTrust({ timestampAuthorities, logs: [log] });
}

function digestsOf(text: string) {
  const digest = (name: string): string => createHash(name).update(text).digest('hex');
  return { sha256: digest('sha256'), sha512: digest('sha512'), bytes: text.length };
}
