/** The programs of docs/clients.md as they stand there, against the real daemon. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, copyFileSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { newSecret, signatureHeaders } from '../../src/webhook/signature.ts';
import { Client } from '../support/client.ts';
import { freePort } from '../support/freePort.ts';
import { blocksUnder, pageAt, ROOT } from '../support/manual.ts';
import { openSandbox } from '../support/sandbox.ts';
import { until } from '../support/until.ts';

const PAGE = pageAt('docs/clients.md');

interface Language {
  /** Heading of the page, and language of its fenced blocks. */
  heading: string;
  fence: string;
  /** Names of the files that the blocks are to be in, and what runs them. */
  files: [seal: string, hooks: string];
  run: string[];
}

const LANGUAGES: Language[] = [
  { heading: 'curl', fence: 'bash', files: ['seal.sh', 'hooks.sh'], run: ['dash'] },
  { heading: 'Node', fence: 'js', files: ['seal.mjs', 'hooks.mjs'], run: [process.execPath] },
  { heading: 'Python', fence: 'python', files: ['seal.py', 'hooks.py'], run: ['python3'] },
  {
    heading: 'Java',
    fence: 'java',
    files: ['Seal.java', 'Hooks.java'],
    run: ['java', '-XX:TieredStopAtLevel=1'],
  },
];

/** How the messages of an endpoint did. */
interface Tally {
  delivered: number;
  failed_attempts: number;
}

const sandbox = await openSandbox({ stamped: true, tables: { webhooks: 'allow = ["127.0.0.0/8"]' } });
t.teardown(() => sandbox.close());
await sandbox.start();
const scopes = ['--scopes', 'jobs:create,jobs:read,webhooks:manage'];
const client = await Client.connect(sandbox.url, await sandbox.issueKey('erp', 'acme', ...scopes));

/** A folder with the programs, a document, the trust file and `pdfseal`; and how a program runs there. */
function workplace(t: Test, { heading, fence, files, run }: Language) {
  const blocks = blocksUnder(PAGE, heading, fence);
  const dir = t.testdir({
    'invoice 1.pdf': `%PDF-1.4\n% ${heading}\n%%EOF\n`,
    bin: { pdfseal: `#!/bin/sh\nexec ${process.execPath} ${join(ROOT, 'dist/cli.js')} "$@"\n` },
    ...Object.fromEntries(files.map((name, index) => [name, blocks[index] ?? ''])),
  });
  t.equal(blocks.length, files.length);
  chmodSync(join(dir, 'bin/pdfseal'), 0o755);
  copyFileSync(sandbox.trustFile, join(dir, 'trust.json'));
  const [command = '', ...args] = run;
  const start = (file: string, env: Record<string, string>, ...more: string[]): ChildProcess =>
    spawn(command, [...args, file, ...more], {
      cwd: dir,
      env: { PATH: `${join(dir, 'bin')}:${process.env.PATH}`, HOME: dir, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
  return { dir, start };
}

const PASSED_ON = ['authorization', 'content-type', 'idempotency-key'];

/** In front of the daemon: answers the first creates with 503 and 429, cuts one off where that is asked for, and passes on the rest. */
async function trouble(t: Test, cutsOff: boolean): Promise<{ url: string; creates: () => number }> {
  let creates = 0;
  const server = createServer(async (request, response) => {
    const body = Buffer.concat(await request.toArray());
    if (request.method === 'POST') creates += 1;
    if (request.method === 'POST' && creates <= 2) {
      response.writeHead(creates === 1 ? 503 : 429, {
        'Retry-After': '1',
        'Content-Type': 'application/json',
      });
      response.end('{"error":{"message":"later"}}');
      return;
    }
    if (request.method === 'POST' && creates === 3 && cutsOff) {
      request.socket.destroy();
      return;
    }
    const answer = await client.request(request.method ?? '', request.url ?? '', {
      headers: Object.fromEntries(
        PASSED_ON.flatMap((name) =>
          request.headers[name] === undefined ? [] : [[name, String(request.headers[name])]],
        ),
      ),
      ...(request.method === 'POST' && { body }),
    });
    response.writeHead(answer.status, { 'Content-Type': 'application/json' }).end(answer.text);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, creates: () => creates };
}

async function outputOf(child: ChildProcess): Promise<{ status: number | null; output: string }> {
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream?.setEncoding('utf8').on('data', (text: string) => {
      output += text;
    });
  const [status] = (await once(child, 'close')) as [number | null];
  return { status, output };
}

for (const language of LANGUAGES) {
  const [command = ''] = language.run;
  if (spawnSync(command, ['--version']).error !== undefined) {
    t.comment(`${language.heading}: there is no ${command} on this machine`);
    continue;
  }
  t.test(`${language.heading}: the example seals, waits, fetches and verifies`, async (t) => {
    const [program] = language.files;
    const { dir, start } = workplace(t, language);
    const { url, creates } = await trouble(t, language.heading !== 'curl');
    const env = { PDFSEAL_URL: url, PDFSEAL_API_KEY: client.apiKey ?? '' };
    const first = await outputOf(start(program, env, 'invoice 1.pdf'));
    t.match(first, { status: 0, output: /good/ });
    t.equal(creates(), language.heading === 'curl' ? 3 : 4, 'it was sent until it was accepted');
    const receipt = readFileSync(join(dir, 'invoice 1.pdf.receipt.json'), 'utf8');
    t.equal(JSON.parse(receipt).customer_reference, 'invoice 1.pdf');
    const direct = { ...env, PDFSEAL_URL: sandbox.url };
    t.match(await outputOf(start(program, direct, 'invoice 1.pdf')), { status: 0 });
    const again = readFileSync(join(dir, 'invoice 1.pdf.receipt.json'), 'utf8');
    t.strictSame(JSON.parse(again), JSON.parse(receipt), 'the same document is the same job');

    writeFileSync(join(dir, 'bin/pdfseal'), '#!/bin/sh\necho bad\nexit 1\n');
    t.match(await outputOf(start(program, direct, 'invoice 1.pdf')), { status: /^[1-9]/ }, 'a bad receipt');
    writeFileSync(join(dir, 'letter.txt'), 'no PDF');
    const refused = await outputOf(start(program, direct, 'letter.txt'));
    t.match(refused, { status: /^[1-9]/, output: /PDF/ }, 'what cannot succeed is not repeated');
  });

  if (language.heading === 'curl') continue;
  t.test(`${language.heading}: the example receives webhooks`, async (t) => {
    const { start } = workplace(t, language);
    const port = await freePort();
    const url = `http://127.0.0.1:${port}/hooks/seal`;
    const made = await client.request('POST', '/v1/webhook-endpoints', {
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ url }),
    });
    const { id, secret } = made.json<{ id: string; secret: string }>();
    const receiver = start(language.files[1], { SEAL_WEBHOOK_SECRET: secret, PORT: String(port) });
    let said = '';
    receiver.stdout?.setEncoding('utf8').on('data', (text: string) => {
      said += text;
    });
    t.teardown(() => receiver.kill());
    const post = (headers: Record<string, string>, body: string) =>
      fetch(url, { method: 'POST', headers, body }).then(({ status }) => status);
    await until('it listens', () =>
      post({}, '').then(
        () => true,
        () => false,
      ),
    );
    const tested = await client.request('POST', `/v1/webhook-endpoints/${id}/test`);
    t.match(tested, { status: 202 });
    await until('the test is told, and answered with success', async () => {
      const shown = await client.get(`/v1/webhook-endpoints/${id}`);
      const { delivered, failed_attempts: failed } = shown.json<{ deliveries: Tally }>().deliveries;
      if (failed > 0) throw new Error('it crashed, or refused the test');
      return said.includes('webhook.test') && delivered === 1;
    });
    const job = await client.seal(Buffer.from(`%PDF-1.4\n% ${id}\n%%EOF\n`), {}, { 'Idempotency-Key': id });
    await until('the event is told', () => said.includes(job.json<{ id: string }>().id));
    await client.request('DELETE', `/v1/webhook-endpoints/${id}`);

    const body =
      '{"type":"job.completed","timestamp":"2026-11-22T06:30:50.002Z","data":{"id":"job_x","phase":"completed"}}';
    const sign = (sentAt: number) =>
      signatureHeaders({ webhookId: 'msg_x', sentAt, body: Buffer.from(body), secrets: [secret] });
    t.equal(await post(sign(Date.now()), body), 204);
    t.equal(await post(sign(Date.now()), body), 204, 'it comes twice');
    t.equal(await post(sign(Date.now()), `${body} `), 401, 'another body');
    t.equal(await post(sign(Date.now() - 600_000), body), 401, 'too old');
    t.equal(await post({}, body), 401, 'not signed');
    t.equal(said.split('job_x').length - 1, 1, 'it was handled once');
  });
}

t.test('a shell script verifies a stored webhook', async (t) => {
  const [, check = ''] = blocksUnder(PAGE, 'curl', 'bash');
  const body = '{"type":"job.completed"}';
  const secret = newSecret();
  const headers = signatureHeaders({
    webhookId: 'msg_x',
    sentAt: Date.now(),
    body: Buffer.from(body),
    secrets: [newSecret(), secret],
  });
  const dir = t.testdir({ body, 'check.sh': `${check}verify_webhook\n` });
  const verify = (env: Record<string, string | undefined>) =>
    spawnSync('dash', ['check.sh'], { cwd: dir, env: { PATH: process.env.PATH, ...env } }).status;
  const env = {
    SEAL_WEBHOOK_SECRET: secret,
    webhook_id: headers['webhook-id'],
    webhook_timestamp: headers['webhook-timestamp'],
    webhook_signature: headers['webhook-signature'],
  };
  t.equal(verify(env), 0);
  t.equal(verify({ ...env, webhook_id: 'msg_y' }), 1);
  t.equal(verify({ ...env, SEAL_WEBHOOK_SECRET: newSecret() }), 1);
  const old = signatureHeaders({
    webhookId: 'msg_x',
    sentAt: Date.now() - 600_000,
    body: Buffer.from(body),
    secrets: [secret],
  });
  t.equal(
    verify({
      ...env,
      webhook_timestamp: old['webhook-timestamp'],
      webhook_signature: old['webhook-signature'],
    }),
    1,
  );
});

t.test('the verification with a library accepts a test and a job, and nothing that is altered', async (t) => {
  const [sample = ''] = blocksUnder(pageAt('docs/webhooks.md'), 'Receive webhooks', 'js');
  const secret = newSecret();
  const verify = (body: string, sent: string) => {
    const headers = signatureHeaders({
      webhookId: 'msg_x',
      sentAt: Date.now(),
      body: Buffer.from(sent),
      secrets: [secret],
    });
    const given = `const [body, headers] = ${JSON.stringify([body, headers])};\n`;
    const dir = t.testdir({ 'verify.mjs': `${given}${sample}console.log(event.type);\n` });
    const { status, stdout } = spawnSync(process.execPath, [join(dir, 'verify.mjs')], {
      env: { SEAL_WEBHOOK_SECRET: secret },
      encoding: 'utf8',
    });
    return [status, stdout];
  };
  for (const type of ['webhook.test', 'job.completed']) {
    const body = JSON.stringify({ type, data: {} });
    t.strictSame(verify(body, body), [0, `${type}\n`]);
    t.strictSame(verify(`${body} `, body), [1, '']);
  }
});
