import { cpSync, existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Logger } from 'pino';
import t from 'tap';
import { parseTrust } from '../../../src/manifest/trustFile.ts';
import { contradiction, readEarlier } from '../../../src/prove/trail/history.ts';
import { openLastCheckpoint, readLastCheckpoint } from '../../../src/prove/trail/lastCheckpoint.ts';
import { openStore } from '../../../src/store/lmdb/open.ts';
import type { Store } from '../../../src/store/store.ts';
import { Client, type JobBody } from '../../support/client.ts';
import { openSandbox } from '../../support/sandbox.ts';

/** A log of three documents, canaries aside, that was copied at two, and the copy continued in another way. */
const sandbox = await openSandbox();
t.teardown(() => sandbox.close());
const apiKey = await sandbox.issueKey();
const state = join(sandbox.dir, 'state', 'store');
const lastCheckpoint = join(sandbox.dir, 'state', 'last-checkpoint');
const trust = parseTrust(readFileSync(sandbox.trustFile, 'utf8'));
const none = copyTo('none');
const [first, second] = await sealed('first', 'second');
const older = copyTo('older');
// Each goes on, so that neither is shorter than what the other signed, however canaries fall.
const [third] = await sealed('third', 'fourth');
const newest = copyTo('newest');
putBack(older);
const [fork] = await sealed('another third', 'another fourth');
const forked = copyTo('forked');

function copyTo(name: string): string {
  const copy = join(sandbox.dir, name);
  cpSync(state, copy, { recursive: true });
  if (existsSync(lastCheckpoint)) cpSync(lastCheckpoint, `${copy}.last`);
  return copy;
}

function putBack(copy: string): void {
  rmSync(state, { recursive: true });
  // The newest one would not let a daemon continue the copy, nor would its signers.
  rmSync(join(sandbox.dir, 'state', 'signers'), { recursive: true });
  cpSync(`${copy}.last`, lastCheckpoint);
  cpSync(copy, state, { recursive: true });
}

interface Signed {
  receipt: string;
  checkpoint: string;
}

/** Seals two documents and stops the daemon again; files with the receipt of each and the log's checkpoint then. */
async function sealed(...names: [string, string]): Promise<[Signed, Signed]> {
  const daemon = await sandbox.start();
  const client = await Client.connect(sandbox.url, apiKey);
  const one = async (name: string) => {
    const answer = await client.seal(Buffer.from(`%PDF-1.7\n${name}\n%%EOF\n`), { mode: 'blocking' });
    const files = {
      receipt: join(sandbox.dir, `${name}.json`),
      checkpoint: join(sandbox.dir, `${name}.txt`),
    };
    const { text } = await client.get(`/v1/jobs/${answer.json<JobBody>().id}/receipt.json`);
    writeFileSync(files.receipt, text);
    writeFileSync(files.checkpoint, (await client.get('/v1/log/checkpoint')).text);
    return files;
  };
  const files: [Signed, Signed] = [await one(names[0]), await one(names[1])];
  await daemon.stop();
  return files;
}

/** What the log in a copy says to a file. */
async function contradictionIn(copy: string, file: string): Promise<string | undefined> {
  const store = await openStore({ path: copy, readOnly: true });
  try {
    const earlier = readEarlier({ text: readFileSync(file, 'utf8'), from: file }, trust);
    return await contradiction(store, earlier, await store.log.head());
  } finally {
    await store.close();
  }
}

const filesOf = (...names: Signed[]) => names.flatMap(({ receipt, checkpoint }) => [receipt, checkpoint]);

t.test('a log that grew extends every checkpoint and receipt it signed', async (t) => {
  for (const file of filesOf(first, second, third))
    t.equal(await contradictionIn(newest, file), undefined, file);
  for (const file of filesOf(first, second, fork))
    t.equal(await contradictionIn(forked, file), undefined, file);
});

t.test('an older copy of the log contradicts what was signed later', async (t) => {
  for (const file of filesOf(third)) {
    t.match(await contradictionIn(older, file), /^the log has \d+ leaves, and had \d+ already/);
    t.match(await contradictionIn(none, file), /^the log has 0 leaves, and had \d+ already/);
  }
});

t.test('an older copy that was continued contradicts what was signed', async (t) => {
  for (const file of filesOf(third))
    t.match(await contradictionIn(forked, file), /^the first \d+ leaves are not those that were signed/);
  for (const file of filesOf(fork))
    t.match(await contradictionIn(newest, file), /^the first \d+ leaves are not those that were signed/);
});

t.test('a file that the keys of the log did not sign proves nothing', async (t) => {
  const [checkpoint, receipt] = [third.checkpoint, third.receipt].map((file) => readFileSync(file, 'utf8'));
  if (checkpoint === undefined || receipt === undefined) throw new Error('a file is missing');
  for (const [text, why] of [
    [checkpoint.replace(/\n\d+\n/, '\n1\n'), /too few keys of this log signed it/],
    [checkpoint.replace(/^.*/, 'other.example'), /it is of another log/],
    [receipt.replace(/"bytes": \d+/, '"bytes": 5'), /its receipt did not pass/],
    [receipt.replace('"manifest"', '"manifesto"'), /its receipt did not pass/],
    [receipt.replace('{', '[{'), /neither a signed checkpoint nor a receipt/],
    ['', /neither a signed checkpoint nor a receipt/],
  ] as const) {
    t.throws(() => readEarlier({ text, from: 'a file' }, trust), { name: 'OperatorError', message: why });
  }
});

t.test('no checkpoint is noted if the log is no longer the one that was noted', async (t) => {
  const opened = await Promise.all(
    [older, newest, forked].map((path) => openStore({ path, readOnly: true })),
  );
  t.teardown(() => Promise.all(opened.map((store) => store.close())));
  const [before, after, other] = opened as [Store, Store, Store];
  // What a process sees whose database becomes another one while it runs.
  let current = before;
  const log = {
    head: () => current.log.head(),
    tile: (level: number, index: number) => current.log.tile(level, index),
  } as Store['log'];
  const file = join(sandbox.dir, 'noted');
  cpSync(`${older}.last`, file);
  const faults: unknown[] = [];
  const noting = () =>
    openLastCheckpoint({
      file,
      store: { identity: before.identity, epochs: before.epochs, log },
      intervalMs: 3_600_000,
      logger: { error: t.fail } as unknown as Logger,
      onFatal: (error) => faults.push(error),
    });
  const first = await noting();
  current = after;
  await first.close();
  t.strictSame(faults, []);
  const leaves = readLastCheckpoint(file)?.checkpoint.treeSize;
  t.equal(leaves, (await after.log.head())?.treeSize);

  const second = await noting();
  const text = readFileSync(file, 'utf8');
  for (const [store, why] of [
    [
      other,
      /is not the one that this machine noted: the (?:first \d+ leaves are not|log has \d+ leaves, and had)/,
    ],
    [before, /is not the one that this machine noted: the log has \d+ leaves, and had \d+ already/],
  ] as const) {
    current = store;
    await second.close();
    t.match(faults.pop(), { message: why });
    t.equal(readFileSync(file, 'utf8'), text);
    t.equal(second.noted.treeSize, leaves);
  }
});

t.test('pdfseal check --against compares a store with files', async (t) => {
  const check = (...args: string[]) => sandbox.pdfseal(['check', '--config', sandbox.configFile, ...args]);
  putBack(older);
  t.match(await check(), { status: 0, stdout: /good\n$/ }, 'an older copy holds together');
  t.match(await check('--against', second.receipt), { status: 0, stdout: /good\n$/ });
  t.match(await check('--against', third.receipt), {
    status: 1,
    stdout: /bad: 1 problems; restore a backup/,
    stderr: /^pdfseal: the log has \d+ leaves, and had \d+ already: this is an older copy of it\n$/,
  });
  t.match(await check('--against', sandbox.configFile), {
    status: 2,
    stderr: /proves nothing about this log/,
  });
  t.match(await check('--against', join(sandbox.dir, 'no')), { status: 2, stderr: /cannot read .*no / });
});
