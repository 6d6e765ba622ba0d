/** The program as an auditor starts it, asked over HTTP, and killed. */
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { createHash, generateKeyPairSync } from 'node:crypto';
import { once } from 'node:events';
import {
  chmodSync,
  closeSync,
  existsSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import t, { type Test } from 'tap';
import { encodeAddCheckpoint } from '../../src/log/addCheckpoint.ts';
import { encodeCheckpoint } from '../../src/log/checkpoint.ts';
import { cosignaturesIn, parseCosigner } from '../../src/log/cosignature.ts';
import { parseNote } from '../../src/log/note.ts';
import { consistencyProof } from '../../src/log/proof.ts';
import { leafHash, rootOf } from '../../src/log/tree.ts';
import { encodeVkey } from '../../src/log/verifierKey.ts';
import { makeTokenWithKey } from '../support/partitions.ts';
import { programFile } from '../support/programs.ts';
import { growTree, makeKey, signNote } from '../support/sealing.ts';
import { until } from '../support/until.ts';

const PROGRAM = await programFile('main/witnessProgram', 'src');
const NAME = 'witness.example.com/audit';
const origin = 'seal.example.com/sandbox/2026';
const logKey = makeKey('ed25519', 'eu-1');
const leaves = Array.from({ length: 12 }, (_, n) => leafHash(Buffer.from(`leaf ${n}`)));
const { shelf } = growTree(leaves, 1);

const ecKey = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({
  format: 'pem',
  type: 'pkcs8',
});

function run(...args: string[]) {
  const options = { encoding: 'utf8', env: { PATH: process.env.PATH } } as const;
  return spawnSync(process.execPath, [PROGRAM, ...args], options);
}

/** Folder with a key and the logs to cosign, and the options that name them. */
function prepare(t: Test) {
  const dir = t.testdir({
    state: {},
    logs: `# the log of sealed documents\nlog ${encodeVkey(origin, logKey)}\nquorum none\n`,
  });
  const key = ['--key', join(dir, 'key.pem')];
  const made = run('keygen', '--name', NAME, ...key);
  const cosigner = parseCosigner(made.stdout.trim());
  if (cosigner === undefined) throw new Error(made.stderr);
  return {
    dir,
    key,
    cosigner,
    options: [...key, '--logs', join(dir, 'logs'), '--state', join(dir, 'state')],
  };
}

async function serve(
  t: Test,
  options: string[],
): Promise<{ url: string; port: number; child: ChildProcess }> {
  const child = spawn(
    process.execPath,
    ['--jitless', PROGRAM, 'serve', ...options, '--listen', '127.0.0.1:0'],
    {
      stdio: ['ignore', 'pipe', 'inherit'],
      env: { PATH: process.env.PATH },
    },
  );
  t.teardown(() => child.kill('SIGKILL'));
  for await (const line of createInterface(child.stdout)) {
    const { event, port } = JSON.parse(line) as { event: string; port: number };
    if (event === 'started') return { url: `http://127.0.0.1:${port}`, port, child };
  }
  throw new Error('the witness did not start');
}

async function requestFor(oldSize: number, newSize: number): Promise<string> {
  const { edge } = growTree(leaves.slice(0, newSize), 1);
  const text = encodeCheckpoint({ origin, treeSize: newSize, root: rootOf(edge) });
  const proof = await consistencyProof(oldSize, newSize, shelf.read);
  return encodeAddCheckpoint({ oldSize, proof, checkpoint: signNote(origin, text, [logKey]) });
}

async function ask(url: string, body: string) {
  const answer = await fetch(`${url}/add-checkpoint`, { method: 'POST', body });
  return { status: answer.status, type: answer.headers.get('Content-Type'), body: await answer.text() };
}

t.test('a key is made once, and is private to its owner', async (t) => {
  const { dir, key, cosigner } = prepare(t);
  t.equal(cosigner.name, NAME);
  t.equal(statSync(join(dir, 'key.pem')).mode & 0o777, 0o600);
  t.same(parseCosigner(run('show-key', ...key).stdout.trim()), cosigner);
  const before = readFileSync(join(dir, 'key.pem'), 'utf8');
  t.match(run('keygen', '--name', NAME, ...key), {
    status: 1,
    stdout: '',
    stderr: /cannot write .*key\.pem \(file already exists\)\n$/,
  });
  t.equal(readFileSync(join(dir, 'key.pem'), 'utf8'), before);
  chmodSync(join(dir, 'key.pem'), 0o640);
  t.match(run('show-key', ...key), { status: 1, stderr: /other users can read .*: run chmod 600 / });
});

t.test('a faulty start names the remedy', async (t) => {
  const { dir, key, options } = prepare(t);
  const refused = (...args: string[]) => {
    const { status, stdout, stderr } = run(...args);
    t.equal(stdout, '');
    return `${status} ${stderr}`;
  };
  t.match(refused(), /^1 pdfseal-witness: name one command\n/);
  t.match(refused('show-key'), /^1 pdfseal-witness: name the key with --key; with --agent and --name/);
  t.match(refused('show-key', ...key, '--agent', 'x'), /^1 pdfseal-witness: name the key with --key; /);
  t.match(refused('show-key', ...key, '--token', 'x'), /^1 pdfseal-witness: name the key with --key; /);
  t.match(refused('seal', ...key), /^1 pdfseal-witness: there is no command seal/);
  t.match(refused('keygen', ...key), /^1 pdfseal-witness: name the witness with --name and its new file/);
  t.match(
    refused('keygen', ...key, '--name', 'a b'),
    /^1 pdfseal-witness: the name "a b" is empty, or has spaces/,
  );
  t.match(refused('serve', ...key), /^1 pdfseal-witness: name the logs with --logs/);
  t.match(refused('serve', '--colour'), /^1 pdfseal-witness: Unknown option '--colour'/);
  t.match(
    refused('serve', ...options, '--listen', 'here'),
    /^1 pdfseal-witness: --listen: write an address /,
  );
  writeFileSync(join(dir, 'logs'), 'quorum none\n');
  t.match(
    refused('serve', ...options),
    /^1 pdfseal-witness: .*logs names no log with an Ed25519 or ECDSA key: add lines /,
  );
  writeFileSync(join(dir, 'logs'), 'log example.com\nquorum none\n');
  t.match(refused('serve', ...options), /^1 pdfseal-witness: .*logs, line 1: /);
  const pem = readFileSync(join(dir, 'key.pem'), 'utf8');
  for (const [text, why] of [
    [pem.replace(/^name/, 'Name'), 'the first line must be `name: '],
    [pem.replace(/-----BEGIN.*/, ''), 'holds no private key in PEM'],
    [`name: x\n${ecKey}`, 'the key of a witness must be Ed25519, not ec'],
  ] as const) {
    writeFileSync(join(dir, 'key.pem'), text);
    t.ok(refused('show-key', ...key).includes(why), why);
  }
  const elsewhere = options.with(options.indexOf('--state') + 1, join(dir, 'elsewhere'));
  writeFileSync(join(dir, 'logs'), `log ${encodeVkey(origin, logKey)}\nquorum none\n`);
  writeFileSync(join(dir, 'key.pem'), pem);
  t.match(
    refused('serve', ...elsewhere),
    /^1 pdfseal-witness: there is no folder .*elsewhere: if the witness is new, make it/,
  );
  t.match(run('--help'), { status: 0, stdout: /pdfseal-witness keygen/ });
});

t.test('an ML-DSA key of a log does not count', async (t) => {
  const { dir, options } = prepare(t);
  const other = makeKey('mldsa44', 'eu-1');
  const line = `log ${encodeVkey(origin, other)}\n`;
  const { edge } = growTree(leaves.slice(0, 5), 1);
  const text = encodeCheckpoint({ origin, treeSize: 5, root: rootOf(edge) });
  const answerTo = (signers: readonly (typeof logKey | typeof other)[]) => {
    const input = encodeAddCheckpoint({ oldSize: 0, proof: [], checkpoint: signNote(origin, text, signers) });
    const all = { encoding: 'utf8', env: { PATH: process.env.PATH }, input } as const;
    return spawnSync(process.execPath, [PROGRAM, 'answer', ...options], all);
  };
  const logs = readFileSync(join(dir, 'logs'), 'utf8');
  writeFileSync(join(dir, 'logs'), `${line}${logs}`);
  t.match(answerTo([other]), {
    status: 1,
    stdout: /^HTTP\/1\.1 403 /,
    stderr: /an ML-DSA key is ignored; only Ed25519 and ECDSA keys/,
  });
  t.match(answerTo([logKey, other]), { status: 0, stdout: /^HTTP\/1\.1 200 / });
  writeFileSync(join(dir, 'logs'), `${line}quorum none\n`);
  t.match(answerTo([other]), { status: 1, stdout: '', stderr: /names no log with an Ed25519 or ECDSA key/ });
});

t.test('the trees it cosigned survive its death', async (t) => {
  const { options, cosigner } = prepare(t);
  let size = 0;
  for (const next of [1, 5, 5, 12]) {
    const { url, child } = await serve(t, options);
    const request = await requestFor(size, next);
    const { status, body } = await ask(url, request);
    t.equal(status, 200);
    child.kill('SIGKILL');
    const note = parseNote(request.slice(request.indexOf('\n\n') + 2));
    const cosigned = parseNote(`${note?.text}\n${body}`);
    t.equal(cosigned && cosignaturesIn(cosigned, [cosigner]).length, 1);
    size = next;
  }
  const { url, child } = await serve(t, options);
  t.strictSame(await ask(url, await requestFor(5, 12)), {
    status: 409,
    type: 'text/x.tlog.size',
    body: '12\n',
  });
  const name = '0'.repeat(64);
  t.equal((await fetch(`${url}/${name}/checkpoint`)).status, 404);
  const second = run('serve', ...options, '--listen', '127.0.0.1:0');
  t.match(
    second,
    { status: 1, stderr: /is using this state folder/ },
    'two of them would not know of each other',
  );
  child.kill('SIGTERM');
  t.strictSame(await once(child, 'exit'), [0, null]);
});

t.test('the key can be in an HSM', async (t) => {
  const { dir, options } = prepare(t);
  const names = { label: 'audit', region: 'witness', keyLabel: 'cosign' };
  const { token } = await makeTokenWithKey(dir, names, 'ed25519');
  const variables = Object.entries(token.environment ?? {}).map(([name, value]) => `${name}=${value}`);
  const key = ['--module', `${token.module}`, '--token', 'audit', '--key-label', 'cosign', '--name', NAME];
  key.push('--pin-file', token.pinFile, ...variables.flatMap((pair) => ['--environment', pair]));
  const cosigner = parseCosigner(run('show-key', ...key).stdout.trim());
  if (cosigner === undefined) throw new Error('no key');
  const { url, child } = await serve(t, [...key, ...options.slice(2)]);
  const request = await requestFor(0, 5);
  const { status, body } = await ask(url, request);
  t.equal(status, 200);
  const text = parseNote(request.slice(request.indexOf('\n\n') + 2))?.text;
  const cosigned = parseNote(`${text}\n${body}`);
  t.equal(cosigned && cosignaturesIn(cosigned, [cosigner]).length, 1);
  child.kill('SIGTERM');
  t.strictSame(await once(child, 'exit'), [0, null], 'and its signer ends with it');
  writeFileSync(token.pinFile, 'wrong\n');
  t.match(run('show-key', ...key), { status: 1, stdout: '', stderr: /the token refused the PIN in / });
  t.match(run('show-key', ...key, '--environment', 'X'), { status: 1, stderr: /write NAME=VALUE/ });
  t.match(run('show-key', ...key.slice(2)), { status: 1, stderr: /name the key with --key; with --agent / });
});

t.test('a carried request is answered without a daemon', async (t) => {
  const { options, cosigner } = prepare(t);
  const env = { PATH: process.env.PATH };
  const answer = async (...request: [oldSize: number, newSize: number] | [string]) => {
    const [first, second] = request;
    const input = typeof first === 'string' ? first : await requestFor(first, second ?? 0);
    const all = { encoding: 'utf8', env, input } as const;
    const { status, stdout, stderr } = spawnSync(process.execPath, [PROGRAM, 'answer', ...options], all);
    const [head = '', body = ''] = stdout.split('\r\n\r\n');
    t.ok(stdout === '' || head.endsWith(`\r\nContent-Length: ${Buffer.byteLength(body)}`));
    return { status, first: head.split('\r\n')[0], head, body, stderr };
  };
  const { status, first, body } = await answer(0, 5);
  t.equal(`${status} ${first}`, '0 HTTP/1.1 200 OK');
  const { edge } = growTree(leaves.slice(0, 5), 1);
  const text = encodeCheckpoint({ origin, treeSize: 5, root: rootOf(edge) });
  t.equal(
    cosignaturesIn(parseNote(`${text}\n${body}`) ?? { text: '', signatures: [] }, [cosigner]).length,
    1,
  );
  t.match(await answer(0, 12), {
    status: 0,
    head: /^HTTP\/1\.1 409 Conflict\r\nContent-Type: text\/x\.tlog\.size\r\n/,
    body: '5\n',
  });
  const wrong = (await requestFor(0, 12)).replace('old 0', 'old 5');
  t.match(await answer(wrong), { status: 1, first: /^HTTP\/1\.1 422 /, stderr: /"event":"not_consistent"/ });
  t.match(await answer('scribble'), { status: 1, first: 'HTTP/1.1 400 Bad Request' });
  t.match(await answer(5, 12), { status: 0, first: 'HTTP/1.1 200 OK' }, 'it remembers');
  const again = await requestFor(12, 12);
  for (const mailed of [again.replaceAll('\n', '\r\n'), again.trimEnd(), `\uFEFF${again}\r\n\n`])
    t.match(await answer(mailed), { status: 0, first: 'HTTP/1.1 200 OK' }, JSON.stringify(mailed));
  const full = openSync('/dev/full', 'w');
  t.teardown(() => closeSync(full));
  const lost = spawnSync(process.execPath, [PROGRAM, 'answer', ...options], {
    encoding: 'utf8',
    env,
    input: again,
    stdio: ['pipe', full, 'pipe'],
  });
  t.match(lost, { status: 1, stderr: /pdfseal-witness: cannot write to standard output \(no space/ });
  t.notMatch(lost.stderr, /\n +at /, 'no stack');
  await serve(t, options);
  t.match(await answer(12, 12), {
    status: 1,
    first: '',
    stderr: /another pdfseal-witness \(process \d+\) is using this state folder/,
  });
});

t.test('the key can be in an ssh-agent', async (t) => {
  const { options } = prepare(t);
  // The path of an agent's socket is short.
  const home = mkdtempSync(join(tmpdir(), 'agent-'));
  t.teardown(() => rmSync(home, { recursive: true, force: true }));
  const socket = join(home, 's');
  const ssh = (...args: string[]) =>
    execFileSync('ssh-add', args, { env: { ...process.env, SSH_AUTH_SOCK: socket }, stdio: 'pipe' });
  const key = ['--agent', socket, '--name', NAME];
  t.match(run('show-key', ...key), { status: 1, stderr: /--agent: .* \(no such file or directory\)/ });
  const agent = spawn('ssh-agent', ['-D', '-a', socket], { stdio: 'ignore' });
  t.teardown(() => agent.kill());
  await until('ssh-agent listens', () => existsSync(socket));
  t.match(run('show-key', ...key), {
    status: 1,
    stderr: /has 0 Ed25519 keys; give it the key of the witness/,
  });
  for (const [file, type] of [
    ['ours', 'ed25519'],
    ['other', 'ed25519'],
    ['rsa', 'rsa'],
  ] as const)
    execFileSync('ssh-keygen', ['-q', '-t', type, '-N', '', '-f', join(home, file)]);
  ssh('-q', join(home, 'rsa'));
  ssh('-q', join(home, 'ours'));
  const cosigner = parseCosigner(run('show-key', ...key).stdout.trim());
  const [, blob = ''] = readFileSync(join(home, 'ours.pub'), 'utf8').split(' ');
  t.same(cosigner?.key, Buffer.from(blob, 'base64').subarray(-32));

  const { url } = await serve(t, [...key, ...options.slice(options.indexOf('--logs'))]);
  const request = await requestFor(0, 5);
  ssh('-q', '-d', join(home, 'ours'));
  t.equal((await ask(url, request)).status, 500, 'without its key, nothing is cosigned');
  ssh('-q', join(home, 'ours'));
  const { status, body } = await ask(url, request);
  t.equal(status, 200, 'and the tree was not taken for cosigned');
  const note = parseNote(request.slice(request.indexOf('\n\n') + 2));
  const cosigned = parseNote(`${note?.text}\n${body}`);
  t.equal(cosigned && cosigner && cosignaturesIn(cosigned, [cosigner]).length, 1);
  ssh('-q', join(home, 'other'));
  t.match(run('show-key', ...key), { status: 1, stderr: /has 2 Ed25519 keys/ });

  const broken = createServer((connection) =>
    connection.end(Buffer.from('00000005 0c ffffffff'.replaceAll(' ', ''), 'hex')),
  );
  const wrong = join(home, 'wrong');
  broken.listen(wrong);
  await once(broken, 'listening');
  const asked = spawn(process.execPath, [PROGRAM, 'show-key', '--agent', wrong, '--name', NAME], {
    stdio: 'ignore',
  });
  t.strictSame(await once(asked, 'exit'), [1, null], 'a broken agent');
  broken.close();
});

t.test('an invalid request is answered without harm', async (t) => {
  const { options } = prepare(t);
  const { url, port } = await serve(t, options);
  t.equal((await ask(url, '')).status, 400);
  t.equal((await ask(url, '\u0000'.repeat(1000))).status, 400);
  t.equal((await ask(url, 'x'.repeat(200_000))).status, 413);
  t.equal((await fetch(`${url}/add-checkpoint`)).status, 405);
  t.equal((await fetch(url)).status, 404);
  const expecting = connect(port, '127.0.0.1');
  expecting.write(
    'POST /add-checkpoint HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n',
  );
  t.match(((await once(expecting, 'data')) as [Buffer]).toString(), /^HTTP\/1\.1 100 /);
  expecting.write('old');
  t.match(((await once(expecting, 'data')) as [Buffer]).toString(), /^HTTP\/1\.1 400 /);
  expecting.destroy();
  const silent = connect(port, '127.0.0.1');
  await once(silent, 'connect');
  silent.write('POST /add-checkpoint HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nold');
  const [answer] = (await once(silent, 'data')) as [Buffer];
  t.match(answer.toString(), /^HTTP\/1\.1 408 .*\r\nConnection: close\r\n/s);
  silent.destroy();
  const garbage = connect(port, '127.0.0.1');
  garbage.end('\u0016\u0003\u0001 no HTTP\r\n\r\n');
  t.match(((await once(garbage, 'data')) as [Buffer]).toString(), /^HTTP\/1\.1 400 /);
  const request = await requestFor(0, 5);
  t.equal((await ask(url, request)).status, 200);
  const held = await fetch(`${url}/${createHash('sha256').update(origin).digest('hex')}/checkpoint`);
  t.equal(parseNote(await held.text())?.text, parseNote(request.slice(request.indexOf('\n\n') + 2))?.text);
});
