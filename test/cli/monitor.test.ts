/** The command of an auditor, against logs that keep their word and logs that do not. */
import { once } from 'node:events';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { toHex } from '../../src/base/bytes.ts';
import type { ReceivedJob } from '../../src/job/job.ts';
import { encodeCheckpoint, parseCheckpoint } from '../../src/log/checkpoint.ts';
import { parseNote } from '../../src/log/note.ts';
import { HASH_BYTES, parseTilePath } from '../../src/log/tiles.ts';
import { encodeTlogProof } from '../../src/log/tlogProof.ts';
import { leafHash, rootOf } from '../../src/log/tree.ts';
import { assembleBundle, encodeBundle } from '../../src/manifest/bundle.ts';
import { leafData, manifestOf } from '../../src/manifest/manifest.ts';
import { encodeReceipt, type Receipt } from '../../src/manifest/receipt.ts';
import { encodeTrust, type TrustedEpoch, type TrustedLog } from '../../src/manifest/trustFile.ts';
import { Client } from '../support/client.ts';
import { pdfseal } from '../support/commands.ts';
import { openSandbox } from '../support/sandbox.ts';
import {
  growTree,
  makeJob,
  makeKey,
  oneEpoch,
  sealJobs,
  signNote,
  type TestKey,
} from '../support/sealing.ts';
import { TestWitness } from '../support/witness.ts';

const origin = 'seal.example.com/sandbox/2026';
const sealedAt = Date.parse('2026-03-04T05:06:07.300Z');
const key = makeKey('ed25519', 'eu-1');
const { privateKey: _, ...logKey } = key;

async function serve(t: Test, listener: RequestListener): Promise<string> {
  // The command is in this process: while it computes, nothing else happens, and a connection only seems idle.
  const server = createServer({ keepAliveTimeout: 60_000 }, listener).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** A log of these jobs in memory, as the API shows it. */
function logOf(jobs: readonly ReceivedJob[], ...signers: TestKey[]): RequestListener {
  const leaves = jobs.map((job) => leafHash(leafData(manifestOf(job, 'sandbox', sealedAt))));
  const { edge, shelf } = growTree(leaves, 1);
  const text = encodeCheckpoint({ origin, treeSize: edge.size, root: rootOf(edge) });
  const note = signNote(origin, text, signers.length === 0 ? [key] : signers);
  return async (req, res) => {
    const path = req.url?.replace('/v1/log/', '') ?? '';
    const tile = parseTilePath(path);
    const hashes =
      tile && typeof tile.level === 'number' ? await shelf.read(tile.level, tile.index) : undefined;
    if (path === 'checkpoint') res.end(note);
    else if (tile && hashes) res.end(hashes.subarray(0, tile.width * HASH_BYTES));
    else res.writeHead(404).end();
  };
}

/** The log, but what it answers to one path is another; undefined withholds it. */
function except(log: RequestListener, path: string, answer: string | undefined): RequestListener {
  return (req, res) => {
    if (req.url?.startsWith(`/v1/log/${path}`) !== true) log(req, res);
    else if (answer === undefined) res.writeHead(404).end();
    else res.end(answer);
  };
}

function checkpointOf(sealed: readonly ReceivedJob[]): string {
  const leaves = sealed.map((job) => leafHash(leafData(manifestOf(job, 'sandbox', sealedAt))));
  const { edge } = growTree(leaves, 1);
  return signNote(origin, encodeCheckpoint({ origin, treeSize: edge.size, root: rootOf(edge) }), [key]);
}

const jobs = Array.from({ length: 700 }, (_, n) => makeJob(`job_${n}`));
const forked = jobs.map((job, n) => (n < 300 ? job : makeJob(`job_other_${n}`)));

/** An auditor's folder, and the command run in it. The log can be replaced by another. */
async function auditor(t: Test, { epochs, witnessPolicy }: Partial<TrustedLog> = {}) {
  const one = oneEpoch({ origin, environment: 'env_sandbox', keys: [logKey] });
  const log = { ...one, ...(epochs && { epochs }), ...(witnessPolicy && { witnessPolicy }) };
  const dir = t.testdir({
    'trust.json': encodeTrust({ timestampAuthorities: [], logs: [log] }),
    receipts: {},
  });
  const shown: { log: RequestListener } = { log: logOf(jobs.slice(0, 300)) };
  const url = await serve(t, (req, res) => shown.log(req, res));
  const run = async (env: Record<string, string>, more: string[]) => {
    const args = ['monitor', '--url', url, '--trust', 'trust.json', '--state', 'state', ...more];
    const { signal: _, ...said } = await pdfseal(args, { cwd: dir, env });
    return said;
  };
  const monitor = (...more: string[]) => run({ PDFSEAL_API_KEY: 'seal_test' }, more);
  const monitorWithoutKey = () => run({}, []);
  const kept = (kind: 'contradiction' | 'unproven') =>
    readdirSync(dir).filter((name) => name.startsWith(`state.${kind}-`));
  return {
    dir,
    shown,
    monitor,
    monitorWithoutKey,
    kept,
    state: () => readFileSync(join(dir, 'state'), 'utf8'),
  };
}

async function receiptOf(sealed: readonly ReceivedJob[], index: number): Promise<Receipt> {
  const receipt = (await sealJobs({ jobs: sealed, environment: 'sandbox', origin, keys: [key], sealedAt }))[
    index
  ];
  if (receipt === undefined) throw new Error('nothing was sealed');
  return receipt;
}

t.test('a log that grows is good, and its receipts are in it', async (t) => {
  const { dir, shown, monitor } = await auditor(t);
  t.match(await monitor(), {
    status: 2,
    stdout: '',
    stderr: /there is no state, .* for the first run, add --first/,
  });
  t.strictSame(await monitor('--first'), {
    status: 0,
    stdout: `${origin}: 300 leaves, first run\ngood\n`,
    stderr: '',
  });
  t.match(await monitor('--first'), { status: 2, stderr: /state exists already: leave out --first/ });
  mkdirSync(join(dir, 'receipts/2026'));
  for (const index of [0, 255, 299])
    writeFileSync(
      join(dir, `receipts/2026/${index}.pdf.receipt.json`),
      encodeReceipt(await receiptOf(jobs.slice(0, 300), index)),
    );
  shown.log = logOf(jobs);
  t.strictSame(await monitor('--receipts', 'receipts'), {
    status: 0,
    stdout: `${origin}: 700 leaves, 300 in the last run\n3 of 3 receipts are in the log\ngood\n`,
    stderr: '',
  });
  const again = await monitor('--receipts', 'receipts', '--json');
  t.strictSame(JSON.parse(again.stdout), {
    outcome: 'good',
    log_origin: origin,
    tree_size: 700,
    earlier_tree_size: 700,
    receipts: 3,
    problems: [],
  });
});

t.test('an older copy, and one that was continued, are bad, and both checkpoints are kept', async (t) => {
  const { dir, shown, monitor, state } = await auditor(t);
  shown.log = logOf(jobs.slice(0, 500));
  await monitor('--first');
  const before = state();
  for (const [log, said] of [
    [
      logOf(jobs.slice(0, 499)),
      /had 500 already: this is an older copy of it\. Keep both checkpoints: state and state\.contradiction-499-/,
    ],
    [logOf(forked.slice(0, 500)), /the first 500 leaves are not those that were signed/],
    [logOf(forked), /the first 500 leaves are not those that were signed/],
  ] as const) {
    shown.log = log;
    t.match(await monitor(), { status: 1, stdout: said });
    t.equal(state(), before, 'the state is as it was');
  }
  t.equal(readdirSync(dir).filter((name) => name.startsWith('state.contradiction-')).length, 3);
  shown.log = logOf(jobs);
  t.equal((await monitor()).status, 0, 'the log it knows goes on');
});

t.test('a log that asked for post-quantum signatures does not grow without them', async (t) => {
  const second = makeKey('ed25519', 'us-1');
  const postQuantum = { ...makeKey('mldsa44', 'eu-1'), keyLabel: 'pq' };
  const trusted = [key, second, postQuantum].map(({ privateKey: _, ...one }) => one);
  const epoch = (notBefore: number, quorum: TrustedEpoch['quorum'], keys = 3): TrustedEpoch => ({
    notBefore,
    quorum,
    timestamps: 'none',
    keys: trusted.slice(0, keys),
  });
  const { shown, monitor, state } = await auditor(t, {
    epochs: [
      { ...epoch(0, { needed: 1 }, 2), notAfter: sealedAt - 1 },
      { ...epoch(sealedAt, { needed: 1, postQuantum: 1 }), notAfter: sealedAt },
      epoch(sealedAt + 1, { needed: 2, postQuantum: 1 }),
    ],
  });
  const grown = async (leaves: number, ...signers: TestKey[]) => {
    shown.log = logOf(jobs.slice(0, leaves), ...signers);
    return await monitor(...(leaves === 100 ? ['--first'] : []));
  };
  t.match(await grown(100, key, second), { status: 0 });
  t.match(await grown(200, key), { status: 0 }, 'fewer signed, but in the same epoch');
  t.match(await grown(300, key, second, postQuantum), { status: 0 }, 'of the second epoch, or of the third');
  t.match(await grown(310, key, postQuantum), { status: 0 }, 'of the second');
  const before = state();
  for (const leaves of [310, 400])
    t.match(await grown(leaves, key, second), {
      status: 1,
      stdout: new RegExp(
        `the checkpoint of ${leaves} leaves has the signatures of an earlier epoch only, .* when the log had 310 leaves. Keep both`,
      ),
    });
  t.equal(state(), before);
  t.match(await grown(400, key, second, postQuantum), { status: 0 });
});

t.test('two roots of one size are a contradiction, though the log withholds its tiles', async (t) => {
  const { shown, monitor, kept, state } = await auditor(t);
  await monitor('--first');
  const before = state();
  shown.log = except(logOf(forked.slice(0, 299).concat(makeJob('job_x'))), 'tile', undefined);
  t.match(await monitor(), { status: 1, stdout: /the first 300 leaves are not those that were signed/ });
  t.equal(state(), before);
  t.equal(kept('contradiction').length, 1);
});

t.test(
  'a checkpoint whose tiles are withheld is kept, and must be in the log that shows tiles again',
  async (t) => {
    const { dir, shown, monitor, kept, state } = await auditor(t);
    await monitor('--first');
    const before = state();
    shown.log = except(logOf(forked.slice(0, 400)), 'tile', undefined);
    t.match(await monitor(), { status: 2, stderr: /The next run compares state\.unproven-400-/ });
    const [name = ''] = kept('unproven');
    t.equal(readFileSync(join(dir, name), 'utf8'), checkpointOf(forked.slice(0, 400)));
    t.equal(state(), before);

    shown.log = logOf(jobs);
    t.match(
      await monitor(),
      {
        status: 1,
        stdout: new RegExp(`the first 400 leaves .* Keep both checkpoints: ${name} and state.contra`),
      },
      'a log that has grown since the last run, but not over what it showed meanwhile',
    );
    t.strictSame(kept('unproven'), [name]);

    shown.log = logOf(forked);
    t.equal((await monitor()).status, 0);
    t.strictSame(kept('unproven'), [], 'the state stands for what is proven');
  },
);

t.test('a hostile log cannot make the monitor keep more than 16 checkpoints of a kind', async (t) => {
  const { shown, monitor, kept } = await auditor(t);
  await monitor('--first');
  for (let leaves = 301; leaves <= 317; leaves++) {
    shown.log = except(logOf(jobs.slice(0, leaves)), 'tile', undefined);
    t.match(await monitor(), {
      status: 2,
      stderr: leaves === 317 ? /not kept; 16 files state\.unproven-\* are kept/ : /next run compares/,
    });
  }
  t.equal(kept('unproven').length, 16);
  for (let leaves = 299; leaves >= 283; leaves--) {
    shown.log = logOf(jobs.slice(0, leaves));
    t.match(await monitor(), {
      status: 1,
      stdout: leaves === 283 ? /16 files state\.contradiction-\* are/ : /Keep /,
    });
  }
  t.equal(kept('contradiction').length, 16);
});

t.test('a contradiction is bad though the folder cannot keep it', async (t) => {
  const { dir, shown, monitor, kept } = await auditor(t);
  await monitor('--first');
  const other = forked.slice(0, 299).concat(makeJob('job_x'));
  shown.log = logOf(other);
  const { root } = parseCheckpoint(parseNote(checkpointOf(other))?.text ?? '') ?? {};
  // The draft exists already: this user may be root, whom no permission stops.
  writeFileSync(
    join(dir, `state.contradiction-300-${toHex(root ?? new Uint8Array())}.${process.pid}.new`),
    '',
  );
  t.match(await monitor(), { status: 1, stdout: /Keep as evidence: state; cannot write / });
  t.strictSame(kept('contradiction'), []);
});

t.test('a witnessed log is good only with new cosignatures over the same tree', async (t) => {
  const witness = await TestWitness.open(t, 'north');
  const witnessPolicy = `${witness.line('north')}quorum north\n`;
  const { dir, shown, monitor, kept, state } = await auditor(t, { witnessPolicy });
  const hour = 3_600;
  const now = Math.floor(Date.now() / 1000);
  /** A log whose first leaves the witness cosigned at a time. */
  const witnessed = (all: readonly ReceivedJob[], cosigned: readonly ReceivedJob[], time: number) => {
    const note = checkpointOf(cosigned);
    const line = witness.answerFor(parseNote(note)?.text ?? '', time);
    return except(logOf(all), 'checkpoint/witnessed', `${note}${line}`);
  };
  shown.log = logOf(jobs.slice(0, 300));
  t.match(await monitor('--first'), {
    status: 2,
    stderr: /answered 404 to \/v1\/log\/checkpoint\/witnessed/,
  });
  shown.log = witnessed(jobs.slice(0, 300), jobs.slice(0, 290), now - hour);
  t.match(await monitor('--first'), { status: 0 });
  const before = state();

  for (const [time, options] of [
    [now - 365 * 24 * hour, []],
    [now - 25 * hour, []],
    [now - 2 * hour, ['--max-age', '1h']],
    [now + hour, []],
  ] as const) {
    shown.log = witnessed(jobs.slice(0, 310), jobs.slice(0, 290), time);
    t.match(await monitor(...options), {
      status: 2,
      stderr: /cosigned by north at .*: the policy is not met since /,
    });
    t.equal(state(), before);
  }
  shown.log = except(logOf(jobs.slice(0, 310)), 'checkpoint/witnessed', checkpointOf(jobs.slice(0, 310)));
  t.match(await monitor(), { status: 2, stderr: /cosigned by no witness of the policy/ });

  const fork = jobs.slice(0, 310).concat(forked.slice(300, 390));
  for (const [all, cosigned] of [
    [fork, jobs.slice(0, 350)],
    [fork, jobs.slice(0, 390)],
  ] as const) {
    shown.log = witnessed(all, cosigned, now);
    t.match(await monitor(), { status: 1 }, 'the copy that is not witnessed');
  }
  t.equal(kept('contradiction').length, 3, 'the checkpoints of both pairs');
  shown.log = witnessed(jobs.slice(0, 400), jobs.slice(0, 410), now);
  t.match(await monitor(), { status: 2 }, 'the log can have grown between the two answers');
  t.match(await monitor(), { status: 1, stdout: /had 410 already/ }, 'but not twice');
  shown.log = witnessed(jobs, jobs.slice(0, 350), now - 25 * hour);
  t.match(await monitor('--max-age', '48h'), { status: 0 });

  const other = await TestWitness.open(t, 'other');
  writeFileSync(join(dir, 'policy'), `${other.line('other')}quorum other\n`);
  t.match(await monitor('--policy', 'policy'), { status: 2, stderr: /no witness of the policy/ });
  writeFileSync(join(dir, 'policy'), 'quorum none\n');
  t.match(await monitor('--policy', 'policy'), { status: 0 });
  t.match(await monitor('--policy', 'policy', '--max-age', '1h'), {
    status: 2,
    stderr: /--max-age needs a policy/,
  });
  writeFileSync(join(dir, 'policy'), 'quorum nobody\n');
  t.match(await monitor('--policy', 'policy'), { status: 2, stderr: /policy: line 1: / });
});

t.test('a folder without receipts proves nothing', async (t) => {
  const { monitor } = await auditor(t);
  t.match(await monitor('--first', '--receipts', 'receipts'), {
    status: 2,
    stdout: '',
    stderr: /receipts has no receipt, \*\.receipt\.json/,
  });
});

t.test('a public log is followed without an API key', async (t) => {
  const { shown, monitor, monitorWithoutKey } = await auditor(t);
  const log = shown.log;
  const keys: (string | undefined)[] = [];
  shown.log = (req, res) => {
    keys.push(req.headers.authorization);
    log(req, res);
  };
  t.match(await monitor('--first'), { status: 0 });
  t.match(await monitorWithoutKey(), { status: 0 });
  t.strictSame(keys, ['Bearer seal_test', undefined]);
});

t.test('a receipt that the log does not contain is bad', async (t) => {
  const { dir, monitor } = await auditor(t);
  const put = (name: string, text: string) =>
    writeFileSync(join(dir, 'receipts', `${name}.receipt.json`), text);
  put('good', encodeReceipt(await receiptOf(jobs.slice(0, 10), 3)));
  put('later', encodeReceipt(await receiptOf(jobs, 600)));
  put('other', encodeReceipt(await receiptOf(forked.slice(0, 1).concat(makeJob('job_x')), 1)));
  put('forged', encodeReceipt({ ...(await receiptOf(jobs, 3)), kms_key_id: 'x/y' }));
  put('broken', '{');
  const receipt = await receiptOf(jobs.slice(0, 10), 4);
  const { leaf_index: index, inclusion_proof, checkpoint } = receipt.evidence;
  const proof = inclusion_proof.map((hash) => Buffer.from(hash, 'base64'));
  const tlogProof = encodeTlogProof({ index, proof, checkpoint });
  const bundle = encodeBundle(assembleBundle({ receipt, tlogProof, revocationLists: [] }));
  writeFileSync(join(dir, 'receipts', 'a.bundle.json'), bundle);
  const { status, stdout } = await monitor('--first', '--receipts', 'receipts');
  t.equal(status, 1);
  t.match(stdout, /\n2 of 6 receipts are in the log\n/);
  t.match(stdout, /\nreceipts\/later\.receipt\.json: the log has 300 leaves, and leaf 600 is its own\n/);
  t.match(stdout, /\nreceipts\/other\.receipt\.json: leaf 1 of the log is another\n/);
  t.match(stdout, /\nreceipts\/forged\.receipt\.json: it does not verify: receipt: /);
  t.match(stdout, /\nreceipts\/broken\.receipt\.json: it does not verify: receipt: /);
});

t.test('a receipt that is in the log and cannot be judged is undecided, also in a bundle', async (t) => {
  const { dir, shown, monitor } = await auditor(t);
  const future = Date.now() + 24 * 3_600_000;
  const sealed = { environment: 'sandbox', origin, keys: [key] as const, sealedAt: future };
  const [receipt] = await sealJobs({ ...sealed, jobs: jobs.slice(0, 1) });
  if (receipt === undefined) throw new Error('nothing was sealed');
  const { checkpoint, inclusion_proof: hashes } = receipt.evidence;
  shown.log = (req, res) => {
    if (req.url?.endsWith('checkpoint')) res.end(checkpoint);
    else res.end(leafHash(leafData(receipt.manifest)));
  };
  const tlogProof = encodeTlogProof({ index: 0, proof: hashes.map(() => Buffer.alloc(32)), checkpoint });
  for (const [name, text] of [
    ['a.receipt.json', encodeReceipt(receipt)],
    ['b.bundle.json', encodeBundle(assembleBundle({ receipt, tlogProof, revocationLists: [] }))],
  ] as const)
    writeFileSync(join(dir, 'receipts', name), text);
  const { status, stdout } = await monitor('--first', '--receipts', 'receipts');
  t.equal(status, 2);
  t.match(stdout, /\n0 of 2 receipts are in the log\n[\s\S]*\ncould not tell\n$/);
  for (const name of ['a.receipt.json', 'b.bundle.json'])
    t.match(stdout, new RegExp(`\\nreceipts/${name}: it cannot be judged: times: sealed .* in the future`));
  const json = JSON.parse((await monitor('--receipts', 'receipts', '--json')).stdout);
  t.match(json, { outcome: 'unknown', problems: [], doubts: { length: 2 } });
});

t.test('tiles that do not match the signed root do not prove that a receipt is missing', async (t) => {
  const { dir, shown, monitor } = await auditor(t);
  writeFileSync(
    join(dir, 'receipts/a.receipt.json'),
    encodeReceipt(await receiptOf(jobs.slice(0, 300), 299)),
  );
  const [genuine, other] = [
    logOf(jobs.slice(0, 300)),
    logOf(jobs.slice(0, 290).concat(forked.slice(400, 410))),
  ];
  shown.log = (req, res) => (req.url?.endsWith('checkpoint') ? genuine(req, res) : other(req, res));
  t.match(await monitor('--first', '--receipts', 'receipts'), { status: 2, stderr: /do not give the root/ });
});

t.test('an answer that proves nothing is undecided, and leaves the state unchanged', async (t) => {
  const { dir, shown, monitor, state } = await auditor(t);
  await monitor('--first');
  const before = state();
  const refused: [RequestListener, RegExp][] = [
    [
      logOf(jobs, makeKey('ed25519', 'eu-1')),
      /as its checkpoint proves nothing: too few keys of this log signed it/,
    ],
    [
      (_, res) => void res.end('nothing\n'),
      /as its checkpoint proves nothing: it is neither a signed checkpoint/,
    ],
    [(_, res) => void res.writeHead(503).end(), /the log answered 503 to \/v1\/log\/checkpoint/],
    [(_, res) => void res.writeHead(401).end(), /the log answered 401 .*\n.*give the API key/],
    [(_, res) => void res.end(Buffer.alloc(2 << 20)), /answered \/v1\/log\/checkpoint without end/],
    [(req) => req.socket.destroy(), /the log cannot be reached: /],
    [
      (req, res) => (req.url?.endsWith('checkpoint') ? logOf(jobs)(req, res) : void res.writeHead(404).end()),
      /the log answered 404 to \/v1\/log\/tile\//,
    ],
    [
      (req, res) => (req.url?.endsWith('checkpoint') ? logOf(jobs)(req, res) : void res.end('short')),
      /the log answered a tile with 5 bytes in the place of /,
    ],
    [
      (req, res) => (req.url?.endsWith('checkpoint') ? logOf(jobs)(req, res) : logOf(forked)(req, res)),
      /the tiles that the log shows do not give the root of its checkpoint/,
    ],
  ];
  for (const [log, said] of refused) {
    shown.log = log;
    t.match(await monitor(), { status: 2, stdout: '', stderr: said });
    t.equal(state(), before);
  }
  writeFileSync(join(dir, 'state'), 'damaged');
  t.match(await monitor(), { status: 2, stderr: /state proves nothing about this log/ });
});

t.test('monitor follows the log of a running daemon, and finds its receipts', async (t) => {
  const sandbox = await openSandbox({ stamped: true });
  t.teardown(() => sandbox.close());
  await sandbox.start();
  const env = { PDFSEAL_API_KEY: await sandbox.issueKey() };
  const client = await Client.connect(sandbox.url, env.PDFSEAL_API_KEY);
  const dir = t.testdir({ receipts: {} });
  const monitor = (...more: string[]) =>
    sandbox.pdfseal(
      ['monitor', '--url', sandbox.url, '--trust', sandbox.trustFile, '--state', 'state', ...more],
      { cwd: dir, env },
    );
  for (const round of ['first', 'second']) {
    const job = await client.seal(Buffer.from(`%PDF-1.4\n% ${round}\n%%EOF\n`), { mode: 'blocking' });
    const receipt = await client.get(`/v1/jobs/${job.json<{ id: string }>().id}/receipt.json`);
    writeFileSync(join(dir, `receipts/${round}.receipt.json`), receipt.text);
    const { status, stdout, stderr } = await monitor(
      '--receipts',
      'receipts',
      ...(round === 'first' ? ['--first'] : []),
    );
    t.equal(status, 0, stderr);
    t.match(
      stdout,
      round === 'first'
        ? /\n1 of 1 receipts are in the log\ngood\n$/
        : /\n2 of 2 receipts are in the log\ngood\n$/,
    );
  }
});
