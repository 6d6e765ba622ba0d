/** A log and its witness on two machines without a network between them: only the files of requests and answers pass. */
import { spawn } from 'node:child_process';
import { createPublicKey, verify } from 'node:crypto';
import {
  chmodSync,
  cpSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { openStore } from '../../src/store/lmdb/open.ts';
import { Machine } from '../support/machine.ts';
import { makePdf } from '../support/pdf.ts';
import { programFile } from '../support/programs.ts';
import { decodeQr, modulesOfSvg, modulesOnTerminal } from '../support/qr.ts';
import { openSandbox } from '../support/sandbox.ts';
import { until } from '../support/until.ts';

const WITNESS = await programFile('main/witnessProgram', 'src');
const ORIGIN = 'seal.example.com/sandbox/2026';
const NAME = 'witness.example.com/vault';

/** The status with which a program ends that fails. */
function exitOf(run: () => string): number | null {
  try {
    run();
    return 0;
  } catch (error) {
    return (error as { status: number | null }).status;
  }
}

t.test('witnessing by carried files, between two machines without a network', async (t) => {
  const [site, vault] = [await Machine.open(t), await Machine.open(t)];
  const tables = { witness: 'policy = "policy"', health: 'canary_interval = "off"' };
  const sandbox = await openSandbox({ tables });
  t.teardown(() => sandbox.close());
  const env = { PDFSEAL_API_KEY: await sandbox.issueKey() };
  const [{ epochs }] = JSON.parse(readFileSync(sandbox.trustFile, 'utf8')).logs;
  const logKey = String(epochs[0].keys[0].vkey);
  sandbox.through = site.enter;

  // The stick: all that passes between the machines.
  const stick = t.testdir();
  const onStick = (name: 'request' | 'answer') => readFileSync(join(stick, name), 'utf8');
  const home = join(sandbox.dir, 'vault');
  mkdirSync(join(home, 'state'), { recursive: true });
  const vkey = vault.run(home, process.execPath, WITNESS, 'keygen', '--name', NAME, '--key', 'key').trim();
  writeFileSync(join(home, 'logs'), `log ${logKey}\nquorum none\n`);
  const files = ['--key', 'key', '--logs', 'logs', '--state', 'state'];
  const [enter = '', ...entering] = vault.enter;
  const witness = spawn(enter, [...entering, process.execPath, '--jitless', WITNESS, 'serve', ...files], {
    cwd: home,
    stdio: 'ignore',
  });
  t.teardown(() => witness.kill('SIGKILL'));
  writeFileSync(join(sandbox.dir, 'policy'), `witness vault ${vkey}\nquorum vault\n`);

  const pdfseal = (args: string[], input?: string) =>
    sandbox.pdfseal([...args, '--config', sandbox.configFile], {
      env,
      ...(input !== undefined && { input }),
    });
  /** Seals a document; returns its name. */
  const seal = async (name: string) => {
    writeFileSync(join(sandbox.dir, `${name}.pdf`), await makePdf(name));
    const submitted = await sandbox.pdfseal(
      ['submit', `${name}.pdf`, '--url', sandbox.url, '--visibility', 'private'],
      { env, cwd: sandbox.dir },
    );
    t.equal(submitted.status, 0, submitted.stderr);
    return `${name}.pdf`;
  };
  const get = (path: string) =>
    site.run(
      sandbox.dir,
      'curl',
      '-sf',
      '-H',
      `Authorization: Bearer ${env.PDFSEAL_API_KEY}`,
      `${sandbox.url}/v1/${path}`,
    );
  const request = async (...more: string[]) => {
    const { status, stdout, stderr } = await pdfseal(['witness', 'request', ...more]);
    t.equal(status, 0, stderr);
    return stdout;
  };
  /** The steps of the manual: `curl` writes the answer, with its status or without. */
  const atVault = (...flags: string[]) => {
    const curl = ['curl', '-s', ...flags, '--data-binary', '@request', '-o', 'answer'];
    vault.run(stick, ...curl, 'http://127.0.0.1:8410/add-checkpoint');
  };
  const accept = (answer = onStick('answer'), ...more: string[]) =>
    pdfseal(['witness', 'accept', ...more], answer);
  const sizeOf = (checkpoint: string) => Number(checkpoint.split('\n')[1]);
  const bringRequest = (text: string) => writeFileSync(join(stick, 'request'), text);
  const newSizeOf = (body: string) => sizeOf(body.slice(body.indexOf('\n\n') + 2));
  const adminSocket = join(sandbox.dir, 'state', 'admin.sock');
  let daemon = await sandbox.start();

  await t.test('neither machine reaches the other, nor anything else', async (t) => {
    await until('the witness answers at home', () => {
      try {
        return vault.run(home, 'curl', '-s', 'http://127.0.0.1:8410/') !== '';
      } catch {
        return false;
      }
    });
    const networks = [site, vault].map((one) => one.run('/', 'readlink', '/proc/self/ns/net'));
    t.equal(new Set([...networks, `${readlinkSync('/proc/self/ns/net')}\n`]).size, 3);
    for (const one of [site, vault]) t.match(one.run('/', 'ip', '-o', 'link'), /^1: lo: [^\n]*\n$/);
    t.equal(
      exitOf(() => site.run(home, 'curl', '-s', 'http://127.0.0.1:8410/')),
      7,
    );
    t.equal(
      exitOf(() => vault.run(home, 'curl', '-s', `${sandbox.url}/v1/openapi.json`)),
      7,
    );
  });

  await t.test('first round: the answer is accepted after the log grew and a restart', async (t) => {
    await seal('one');
    const body = await request();
    bringRequest(body);
    const size = newSizeOf(body);
    t.match(body, new RegExp(`^old 0\n\n${ORIGIN}\n${size}\n`));

    const again = ['--tree-size', String(size)];
    const codes = [
      modulesOnTerminal(await request('--qr', ...again)),
      modulesOfSvg(await request('--svg', ...again)),
    ];
    for (const code of codes)
      t.ok(decodeQr(code).equals(Buffer.from(body)), 'one code holds it, byte for byte');

    atVault();
    t.match(onStick('answer'), /^— witness\.example\.com\/vault [^ ]+\n$/);
    await seal('two');
    await daemon.stop();
    daemon = await sandbox.start();
    await seal('three');
    t.equal(
      exitOf(() => get('log/checkpoint/witnessed')),
      22,
      'nothing is witnessed yet',
    );
    const { status, stdout, stderr } = await accept();
    t.equal(`${status} ${stdout}`, '0 ', stderr);
    t.match(stderr, `vault has cosigned the checkpoint of ${size} leaves, `);
    t.match(stderr, '; the quorum has cosigned it\n');

    const witnessed = get('log/checkpoint/witnessed');
    t.equal(sizeOf(witnessed), size);
    // By hand, as C2SP tlog-cosignature writes it.
    const line = witnessed.split('\n').find((one) => one.startsWith(`— ${NAME} `)) ?? '';
    const signature = Buffer.from(line.split(' ')[2] ?? '', 'base64');
    const text = witnessed.slice(0, witnessed.indexOf('\n\n') + 1);
    const point = Buffer.from(vkey.split('+').slice(2).join('+'), 'base64').subarray(1);
    const jwk = { kty: 'OKP', crv: 'Ed25519', x: point.toString('base64url') };
    const key = createPublicKey({ key: jwk, format: 'jwk' });
    const message = `cosignature/v1\ntime ${signature.readBigUInt64BE(4)}\n${text}`;
    t.ok(verify(null, Buffer.from(message), key, signature.subarray(12)));
    for (const act of ['witness.request', 'witness.accept']) {
      const { stdout } = await pdfseal(['audit', 'list', '--json', '--act', act]);
      t.match(stdout, /"outcome":"begun"/, act);
      t.match(stdout, new RegExp(`"tree_size":${size}[^\n]*"outcome":"done"`), act);
    }
  });

  await t.test('second round: after a lost answer, the witness reports what it holds', async (t) => {
    const lost = await request();
    bringRequest(lost);
    atVault();
    await seal('four');
    const stale = await request();
    t.equal(stale.split('\n')[0], lost.split('\n')[0], 'the log does not know of it');
    bringRequest(stale);
    atVault('-i');
    t.match(onStick('answer'), /^HTTP\/1\.1 409 /);
    const told = await accept();
    t.match(told, { status: 0, stderr: new RegExp(`^vault holds ${newSizeOf(lost)} leaves\n`) });
    t.match(told.stdout, new RegExp(`^old ${newSizeOf(lost)}\n`));
    bringRequest(told.stdout);
    atVault();
    const typed = onStick('answer').replace('— ', '').trim();
    t.match(await accept(`\r\n  ${typed}\r\n`), { status: 0, stdout: '' }, 'as a scanner types it');
    t.equal(sizeOf(get('log/checkpoint/witnessed')), newSizeOf(stale));
    t.match(await accept(typed.replace(NAME, 'witness.example.com/other')), {
      status: 1,
      stderr: /^pdfseal: invalid_request: This is not a signature of vault/,
    });
  });

  await t.test('a backup holds what the witness acknowledged, and what was requested', async (t) => {
    await seal('five');
    const body = await request();
    bringRequest(body);
    const held = sizeOf(get('log/checkpoint/witnessed'));
    await daemon.stop();
    const copy = join(sandbox.dir, 'copy');
    t.match(await pdfseal(['backup', '--output', copy]), { status: 0 });
    rmSync(join(sandbox.dir, 'state', 'store'), { recursive: true });
    t.match(await pdfseal(['restore', '--input', copy]), { status: 0 });
    cpSync(join(sandbox.dir, 'state', 'store'), join(sandbox.dir, 'older'), { recursive: true });
    daemon = await sandbox.start();
    t.match(await pdfseal(['status', '--json']), {
      stdout: new RegExp(`"name":"vault","state":"not_asked","tree_size":${held},`),
    });
    const metrics = site.run('/', 'curl', '-sf', '--unix-socket', adminSocket, 'http://pdfseald/metrics');
    t.match(metrics, /^pdfseal_witnessing_by_hand 1$/m);
    t.match(
      (await pdfseal(['status'])).stdout,
      /witnesses +1 asked by hand; the newest witnessed checkpoint has/,
    );
    t.match(await request(), new RegExp(`^old ${held}\n`));
    atVault();
    t.match(await accept(), { status: 0, stdout: '' });
    t.equal(sizeOf(get('log/checkpoint/witnessed')), newSizeOf(body));
  });

  await t.test('a proof for other tools carries the cosignature', async (t) => {
    const { job_id: id } = JSON.parse(readFileSync(join(sandbox.dir, 'one.pdf.receipt.json'), 'utf8'));
    const proof = get(`jobs/${id}/receipt.tlog-proof`);
    t.match(proof, `\n— ${NAME} `);
    writeFileSync(join(sandbox.dir, 'one.pdf.tlog-proof'), proof);
    const trust = join(sandbox.dir, 'trust.json');
    t.match(await pdfseal(['trust', 'export', '--output', trust]), { status: 0 });
    const verified = await sandbox.pdfseal([
      'verify',
      join(sandbox.dir, 'one.pdf'),
      join(sandbox.dir, 'one.pdf.tlog-proof'),
      '--trust',
      trust,
    ]);
    t.match(verified, { status: 0, stdout: /witnesses .*vault/ });
  });

  await t.test('a bundle shows the cosignature with the receipt', async (t) => {
    const { job_id: id } = JSON.parse(readFileSync(join(sandbox.dir, 'one.pdf.receipt.json'), 'utf8'));
    const path = join(sandbox.dir, 'one.pdf.bundle.json');
    writeFileSync(path, get(`jobs/${id}/receipt.bundle.json`));
    const [document, trust] = ['one.pdf', 'trust.json'].map((name) => join(sandbox.dir, name)) as [
      string,
      string,
    ];
    const verified = await sandbox.pdfseal([
      'verify',
      document,
      path,
      '--trust',
      trust,
      '--require',
      'witness',
    ]);
    t.match(verified, { status: 0, stdout: /^passed +witnesses .*vault/m });
  });

  await t.test('an older copy that was sealed on is refused, and the carried refusal stops it', async (t) => {
    await seal('six');
    bringRequest(await request());
    atVault();
    t.match(await accept(), { status: 0, stdout: '' });
    const held = sizeOf(get('log/checkpoint/witnessed'));
    await daemon.stop();
    rmSync(join(sandbox.dir, 'state', 'store'), { recursive: true });
    cpSync(join(sandbox.dir, 'older'), join(sandbox.dir, 'state', 'store'), { recursive: true });
    chmodSync(join(sandbox.dir, 'state', 'store'), 0o700);
    const older = await openStore({ path: join(sandbox.dir, 'older'), readOnly: true });
    const size = (await older.log.head())?.treeSize ?? 0;
    await older.close();
    t.match(await pdfseal(['last-checkpoint', '--accept-rollback', String(size)]), { status: 0 });
    daemon = await sandbox.start();
    for (let n = 0; sizeOf(get('log/checkpoint')) <= held; n++) await seal(`another history ${n}`);
    bringRequest(await request());
    atVault('-i');
    const told = await accept();
    t.match(told, { status: 0, stderr: new RegExp(`^vault holds ${held} leaves\n`) });
    bringRequest(told.stdout);
    atVault();
    t.match(await accept(), { status: 1, stderr: /repeat its request with curl --include/ });
    atVault('-i');
    t.match(onStick('answer'), /^HTTP\/1\.1 422 /);
    t.match(await accept(), { status: 1, stderr: /Nothing has changed\. .* --raise-fork-alarm/ });
    t.notOk(daemon.log.some(({ event }) => event === 'fork_alarm'));
    t.match(await accept(onStick('answer'), '--raise-fork-alarm'), {
      status: 1,
      stderr:
        /^pdfseal: vault holds another history of the log: .*The fork alarm is on: nothing more is sealed\n/,
    });
    await until('the alarm is logged', () => daemon.log.some(({ event }) => event === 'fork_alarm'));
    writeFileSync(join(sandbox.dir, 'late.pdf'), await makePdf('late'));
    const late = ['submit', join(sandbox.dir, 'late.pdf'), '--url', sandbox.url, '--visibility', 'private'];
    t.match(await sandbox.pdfseal(late, { env }), { status: 1, stderr: /fork_alarm/ });
    t.match(await pdfseal(['witness', 'request']), { status: 1, stderr: /holds another history/ });
    t.match(await pdfseal(['doctor']), {
      status: 1,
      stdout: /vault: it holds another|vault holds another history of the log/,
    });
  });

  t.strictSame(readdirSync(stick).sort(), ['answer', 'request'], 'nothing else was on the stick');
});
