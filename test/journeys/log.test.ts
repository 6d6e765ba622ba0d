import { spawnSync } from 'node:child_process';
import { constants, openSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { Client, type JobBody } from '../support/client.ts';
import { openSandbox } from '../support/sandbox.ts';

const DOCUMENT = Buffer.from('%PDF-1.7\na small document\n%%EOF\n');

/** More requests than a pipe has room for lines. */
const REQUESTS = 400;

/** A pipe whose reader never reads. */
function stoppedReader(dir: string): number {
  const path = join(dir, 'log.pipe');
  spawnSync('mkfifo', [path]);
  openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  return openSync(path, 'w');
}

async function serveInto(t: Test, open: (dir: string) => number): Promise<void> {
  const sandbox = await openSandbox();
  t.teardown(() => sandbox.close());
  const apiKey = await sandbox.issueKey();
  const daemon = await sandbox.start({ stdout: open(sandbox.dir) });
  const client = await Client.connect(sandbox.url, apiKey);
  for (let n = 0; n < REQUESTS; n++) await client.get('/v1/jobs?limit=1');
  const answer = await client.seal(DOCUMENT, { mode: 'blocking' });
  t.equal(answer.json<JobBody>().phase, 'completed', 'it serves');

  const second = await sandbox.pdfseald();
  t.equal(second.status, 1, 'it holds its lock');
  t.equal(await daemon.stop(), 0, 'it stops');
  t.equal(daemon.stderr, '');
  await sandbox.start();
}

t.test('the daemon works if its log’s disk is full', (t) => serveInto(t, () => openSync('/dev/full', 'w')));
t.test('the daemon works if its log’s reader hangs', (t) => serveInto(t, stoppedReader));
