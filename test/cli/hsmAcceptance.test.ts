/** The command that tries a device, and its report. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { acceptanceText } from '../../src/cli/hsm/acceptanceReport.ts';
import { pdfseal } from '../support/commands.ts';
import { makeToken } from '../support/partitions.ts';
import { programFile } from '../support/programs.ts';
import { openSandbox } from '../support/sandbox.ts';
import { allObjects } from '../support/tamper.ts';

function makeDevice(t: Test) {
  const token = makeToken(t.testdir(), { label: 'vault', region: 'eu', keyLabel: 'unused' });
  const [variable] = Object.entries(token.environment ?? {}).map((pair) => pair.join('='));
  const args = ['hsm', 'acceptance', '--module', token.module ?? '', '--token', 'vault'];
  args.push('--pin-file', token.pinFile, '--variable', variable ?? '', '--for', '20ms');
  return { token, args };
}

t.test('a report in text, as JSON and as a page, that a person can sign', async (t) => {
  const { token, args } = makeDevice(t);
  const [json, html] = await Promise.all([
    pdfseal([...args, '--format', 'json', '--remark', 'cellar <2>'], { apart: true }),
    pdfseal([...args, '--format', 'html', '--remark', 'cellar <2>'], { apart: true }),
  ]);
  t.equal(json.status, 0, json.stderr);
  const report = JSON.parse(json.stdout);
  t.match(report, {
    schema: 'pdfseal-acceptance/1',
    outcome: 'works',
    remark: 'cellar <2>',
    date: /^\d{4}-\d\d-\d\dT/,
    module: { file: token.module, sha256: /^[0-9a-f]{64}$/, manufacturer: 'SoftHSM', version: /^2\./ },
    token: { label: 'vault' },
    left_behind: [],
  });
  t.strictSame(
    report.algorithms[0].rates.map((rate: { sessions: number }) => rate.sessions),
    [1, 2, 4, 8, 16],
  );
  t.match(report.meaning, [
    /^Log keys: init --algorithm ed25519 or ecdsa-p256/,
    /^Post-quantum log keys: not in this device/,
    /^Time-stamping keys: init --timestamp-algorithm ecdsa-p256 or ecdsa-p384 or rsa-2048 or rsa-3072 or rsa-4096/,
    /^kms\.sessions = \d+: [\d.]+ signatures a second with ed25519\.$/,
    /^kms\.sign_timeout/,
  ]);
  t.match(json.stderr, /creating a key: ecdsa-p256\n/);

  const text = acceptanceText(report).join('\n');
  t.match(text, /^Acceptance of a device\n[\s\S]*\nPlace, date +_+\nName +_+\nSignature +_+$/);
  t.match(text, /^ {2}two processes +works +two signers sign/m);
  t.match(text, /^ {2}ecdsa-p256 +16 +[\d.]+ +[\d.]+ +[\d.]+ +works$/m);

  t.match(html, { status: 0, stdout: /^<!doctype html>\n/ });
  t.match(html.stdout, '<td>cellar &lt;2&gt;</td>');
  t.match(html.stdout, /<td>Place, date<\/td><td><\/td>/);
  t.equal(allObjects(token).length, 0);
});

t.test('Ctrl-C removes the keys before the command ends', async (t) => {
  const { token, args } = makeDevice(t);
  const cli = await programFile('cli', 'src');
  const child = spawn(process.execPath, [cli, ...args, '--for', '1m'], { stdio: ['ignore', 'pipe', 'pipe'] });
  let stderr = '';
  let stdout = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    stdout += text;
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    const isBegun = stderr.includes('measuring');
    stderr += text;
    if (!isBegun && stderr.includes('measuring')) child.kill('SIGINT');
  });
  const [status] = await once(child, 'close');
  t.equal(status, 2);
  t.match(stderr, /interrupted: the keys are removed now\n[\s\S]*removing the keys\n/);
  t.match(stdout, /could not tell[\s\S]*keys removed +works/);
  t.equal(allObjects(token).length, 0);
});

t.test('a partition of the config file; and names that do not say which device is meant', async (t) => {
  const sandbox = await openSandbox({ stamped: true, init: false });
  t.teardown(() => sandbox.close());
  const configured = (...args: string[]) =>
    pdfseal(['hsm', 'acceptance', '--config', sandbox.configFile, ...args]);
  t.match(await configured(), {
    status: 1,
    stderr: /several partitions match: name one with --partition \(local\/sandbox-2026, /,
  });
  t.match(await configured('--partition', 'mars'), {
    status: 1,
    stderr: /no such partition in a token.*local\/sandbox-2026/,
  });
  const tried = await configured('--partition', 'local/sandbox-2026', '--for', '20ms', '--json');
  t.match(tried, { status: 0, stdout: /"outcome":"works"/ });

  const { token, args } = makeDevice(t);
  for (const [wrong, stderr] of [
    [['--module', '/m.so', '--token', 'vault'], /--module needs --pin-file, and --token/],
    [['--module', '/m.so', '--pin-file', '/pin'], /--module needs --pin-file, and --token/],
    [['--pin-file', '/pin'], /need --module/],
    [[...args.slice(2), '--variable', 'oops'], /--variable oops: expected NAME=VALUE/],
    [[...args.slice(2), '--for', '2m'], /at most 1m/],
    [[...args.slice(2), '--partition', 'eu'], /cannot be used with/],
  ] as const)
    t.match(await pdfseal(['hsm', 'acceptance', ...wrong]), { status: 64, stderr }, wrong.join(' '));
  const missing = [...args.slice(2), '--pin-file', join(token.pinFile, '..', 'none')];
  const report = await pdfseal(['hsm', 'acceptance', ...missing, '--json']);
  t.match(report, { status: 2, stdout: /pin_file_unreadable/ });
});
