import { createHash, type Hash } from 'node:crypto';
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { request } from 'node:http';
import { Readable } from 'node:stream';
import { text as readText } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import t, { type Test } from 'tap';
import { Client, type JobBody } from '../support/client.ts';
import type { Daemon } from '../support/daemon.ts';
import { openSandbox, type Sandbox } from '../support/sandbox.ts';
import { until } from '../support/until.ts';

const GIB = 2 ** 30;
const BOUNDARY = 'a-boundary-of-this-test';
const HEAD = Buffer.from(
  [
    `--${BOUNDARY}`,
    'Content-Disposition: form-data; name="visibility"',
    '',
    'private',
    `--${BOUNDARY}`,
    'Content-Disposition: form-data; name="mode"',
    '',
    'blocking',
    `--${BOUNDARY}`,
    'Content-Disposition: form-data; name="file"; filename="large.pdf"',
    'Content-Type: application/pdf',
    '',
    '%PDF-1.7\n',
  ].join('\r\n'),
);
const TAIL = Buffer.from(`\n%%EOF\r\n--${BOUNDARY}--\r\n`);

/** A multipart body whose document has about `bytes` bytes; their digest goes into `hash`. */
function* largeBody(bytes: number, hash: Hash, atHalf: () => void): Generator<Buffer> {
  const chunk = Buffer.alloc(2 ** 20, 'seal');
  hash.update('%PDF-1.7\n');
  yield HEAD;
  for (let sent = 0; sent < bytes; sent += chunk.length) {
    hash.update(chunk);
    yield chunk;
    if (sent === bytes / 2) atHalf();
  }
  hash.update('\n%%EOF');
  yield TAIL;
}

interface Answer {
  status: number | undefined;
  text: string;
}

function post(sandbox: Sandbox, apiKey: string) {
  const req = request(`${sandbox.url}/v1/jobs/seal`, {
    method: 'POST',
    headers: {
      Authorization: `Bearer ${apiKey}`,
      'Content-Type': `multipart/form-data; boundary=${BOUNDARY}`,
    },
  });
  const answer = new Promise<Answer>((resolve, reject) => {
    req.once('error', reject);
    req.once('response', async (response) => {
      resolve({ status: response.statusCode, text: await readText(response) });
    });
  });
  return { req, answer };
}

/** The most memory the process ever held, in bytes. */
function peakRss(daemon: Daemon): number {
  const [, kib] = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${daemon.pid}/status`, 'utf8')) ?? [];
  return Number(kib) * 1024;
}

/** Regular files the daemon holds open outside of its state folder. */
function filesOpenElsewhere(daemon: Daemon, sandbox: Sandbox): string[] {
  const folder = `/proc/${daemon.pid}/fd`;
  return readdirSync(folder)
    .flatMap((fd) => {
      try {
        return [readlinkSync(`${folder}/${fd}`)];
      } catch {
        return [];
      }
    })
    .filter((path) => path.startsWith('/') && !path.startsWith('/dev/') && !path.startsWith(sandbox.dir));
}

async function openHouse(t: Test, limits = '') {
  const sandbox = await openSandbox({ code: 'dist', tables: { limits } });
  t.teardown(() => sandbox.close());
  const apiKey = await sandbox.issueKey();
  const daemon = await sandbox.start();
  const client = await Client.connect(sandbox.url, apiKey);
  return { sandbox, apiKey, daemon, client };
}

t.test('a document of 4 GiB is streamed without being held in memory or on disk', async (t) => {
  const { sandbox, apiKey, daemon, client } = await openHouse(t, 'document_bytes_max = "5GiB"');
  const hash = createHash('sha256');
  const { req, answer } = post(sandbox, apiKey);
  let filesOpen: string[] | undefined;
  const lookForFiles = () => {
    filesOpen = filesOpenElsewhere(daemon, sandbox);
  };
  await pipeline(Readable.from(largeBody(4 * GIB, hash, lookForFiles)), req);
  const { status, text } = await answer;
  t.equal(status, 202, text);
  const job = JSON.parse(text) as JobBody;
  t.equal(job.phase, 'completed');
  const receipt = await client.get(`/v1/jobs/${job.id}/receipt.json`);
  t.equal(receipt.json().document_sha256, hash.digest('hex'));
  const mebibytes = Math.round(peakRss(daemon) / 2 ** 20);
  t.ok(mebibytes < 250, `the daemon held ${mebibytes} MiB at the most`);
  t.strictSame(filesOpen, [], 'no file was open but those of the store');
});

t.test('200 uploads that hardly move do not block sealing for others', async (t) => {
  const { sandbox, apiKey, daemon } = await openHouse(t);
  const other = await Client.connect(sandbox.url, await sandbox.issueKey('other', 'other'));
  const slow = Array.from({ length: 200 }, () => post(sandbox, apiKey));
  for (const { req } of slow) req.write(HEAD);
  // Hardly more than http.body_rate_min asks for.
  const drip = setInterval(() => {
    for (const { req } of slow) req.write('slow '.repeat(12));
  }, 50);
  t.teardown(() => clearInterval(drip));
  for (let n = 0; n < 20; n++) {
    const answer = await other.seal(Buffer.from(`%PDF-1.7\nquick ${n}\n%%EOF\n`), { mode: 'blocking' });
    t.match(answer.json<JobBody>(), { phase: 'completed' });
  }
  clearInterval(drip);

  const [finished, abandoned] = [slow.slice(0, 100), slow.slice(100)];
  for (const { req, answer } of abandoned) {
    answer.catch(() => {});
    req.destroy();
  }
  for (const { req } of finished) req.end(TAIL);
  for (const { answer } of finished) t.equal((await answer).status, 202);
  const client = other.as(apiKey);
  await until('nothing of the abandoned ones is left', async () => {
    const { jobs } = (await client.get('/v1/jobs?limit=100')).json<{ jobs: JobBody[] }>();
    return jobs.length === 100 && jobs.every((job) => job.phase === 'completed');
  });
  const again = await client.seal(Buffer.from('%PDF-1.7\nlast\n%%EOF\n'), { mode: 'blocking' });
  t.equal(again.status, 202);
  t.equal(await daemon.stop(), 0, 'and a stop waits for none of them');
});
