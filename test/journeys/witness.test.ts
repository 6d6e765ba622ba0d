/** The log beside a witness that others wrote: it cosigns what grows, and nobody continues an older copy of the store beside it. */
import { createPublicKey, verify } from 'node:crypto';
import { cpSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import type { AdminStatus } from '../../src/admin/statusSchema.ts';
import { openStore } from '../../src/store/lmdb/open.ts';
import { askAdmin } from '../support/admin.ts';
import { type Answer, Client, type Envelope, type JobBody } from '../support/client.ts';
import type { Daemon } from '../support/daemon.ts';
import { Litewitness } from '../support/litewitness.ts';
import { openSandbox } from '../support/sandbox.ts';
import { random } from '../support/seed.ts';
import { until } from '../support/until.ts';

const ORIGIN = 'seal.example.com/sandbox/2026';

const sizeOf = ({ text }: Answer) => Number(text.split('\n')[1]);
const eventsOf = ({ log }: Daemon) => log.map(({ event }) => event);

t.test('witnessing by litewitness', async (t) => {
  const tables = { witness: 'policy = "policy"\ninterval = "200ms"', health: 'canary_interval = "off"' };
  const sandbox = await openSandbox({ regions: ['eu', 'us'], quorum: 2, tables });
  t.teardown(() => sandbox.close());
  const apiKey = await sandbox.issueKey();
  const { logs } = JSON.parse(readFileSync(sandbox.trustFile, 'utf8'));
  const [known, unknown] = logs[0].epochs[0].keys.map(({ vkey }: { vkey: string }) => vkey);
  const witness = await Litewitness.open(t, 'witness.example.net/north', ORIGIN, [known]);
  const policy = `log ${known}\nwitness north ${witness.vkey} ${witness.url}\nquorum north\n`;
  writeFileSync(join(sandbox.dir, 'policy'), policy);

  const state = join(sandbox.dir, 'state');
  const aside = (name: string) => join(sandbox.dir, name);
  const pdfseal = (...args: string[]) => sandbox.pdfseal([...args, '--config', sandbox.configFile]);
  const status = async () => (await askAdmin(sandbox, '/status')).json<AdminStatus>();
  const seal = async (name: string, client: Client) =>
    client.seal(Buffer.from(`%PDF-1.7\n${name}\n%%EOF\n`), { mode: 'blocking' });
  const sizeHeld = async () => (await status()).witnesses?.members[0]?.tree_size ?? 0;
  const untilWitnessed = (client: Client) =>
    until('the newest checkpoint is witnessed', async () => {
      const [newest, witnessed] = [
        await client.get('/v1/log/checkpoint'),
        await client.get('/v1/log/checkpoint/witnessed'),
      ];
      return newest.status === 200 && newest.text === witnessed.text;
    });
  let daemon = await sandbox.start();
  const client = await Client.connect(sandbox.url, apiKey);

  await t.test('the witness cosigns a growing log, and its cosignature verifies', async (t) => {
    for (const name of ['one', 'two', 'three']) {
      t.equal((await seal(name, client)).status, 202);
      await untilWitnessed(client);
    }
    const { text } = await client.get('/v1/log/checkpoint/witnessed');
    t.equal(
      text.split('\n').filter((line) => line.startsWith(`— ${ORIGIN} `)).length,
      2,
      'the lines of the log',
    );
    const line = text.split('\n').find((one) => one.startsWith('— witness.example.net/north ')) ?? '';
    // By hand, as C2SP tlog-cosignature writes it.
    const signature = Buffer.from(line.split(' ')[2] ?? '', 'base64');
    const body = text.slice(0, text.indexOf('\n\n') + 1);
    const message = `cosignature/v1\ntime ${signature.readBigUInt64BE(4)}\n${body}`;
    const point = Buffer.from(witness.vkey.split('+').slice(2).join('+'), 'base64').subarray(1);
    const jwk = { kty: 'OKP', crv: 'Ed25519', x: point.toString('base64url') };
    const key = createPublicKey({ key: jwk, format: 'jwk' });
    t.ok(verify(null, Buffer.from(message), key, signature.subarray(12)));
    t.notOk(eventsOf(daemon).includes('witness_failing'));
    t.match(await status(), {
      witnesses: { fork_alarm: false, members: [{ name: 'north', state: 'cosigning' }] },
      parts: [{}, {}, {}, {}, { name: 'witnesses', ready: true, detail: /^1 of 1 cosign; / }, {}, {}, {}],
    });
  });

  await t.test('a request that is carried to the witness works too, as does its answer', async (t) => {
    const carry = async (body: string) => {
      const answer = await fetch(`${witness.url}/add-checkpoint`, { method: 'POST', body });
      const head = `HTTP/1.1 ${answer.status} ${answer.statusText}\r\n`;
      return `${head}Content-Type: ${answer.headers.get('Content-Type')}\r\n\r\n${await answer.text()}`;
    };
    const accept = (input: string) =>
      sandbox.pdfseal(['witness', 'accept', '--config', sandbox.configFile], { input });
    // Each request is on the audit trail, so the log grows, and the witness may be asked over the network before the answer is here.
    await until('an answer that was carried is taken', async () => {
      const answer = await carry((await pdfseal('witness', 'request')).stdout);
      const { status, stdout, stderr } = await accept(answer);
      return status === 0 && stdout === '' && /the quorum has cosigned it/.test(stderr);
    });
    await until('a refusal that tells what was known raises no alarm', async () => {
      const { stdout: request } = await pdfseal('witness', 'request');
      const refusal = await carry(request.replace(/^old \d+/, 'old 0'));
      const { status, stdout, stderr } = await accept(refusal);
      const isKnown = /^north holds \d+ leaves, as was known\n.*unchanged, .* --raise-fork-alarm\n/;
      return (
        refusal.startsWith('HTTP/1.1 409 ') &&
        status === 1 &&
        /^old \d+\n/.test(stdout) &&
        isKnown.test(stderr)
      );
    });
    t.match(await status(), { witnesses: { fork_alarm: false } });
    await untilWitnessed(client);
  });

  await t.test('the witness is asked from the tree it holds, whatever the store remembers', async (t) => {
    await daemon.stop();
    const store = await openStore({ path: join(state, 'store') });
    await store.witnessing.put({ witnesses: {} });
    await store.close();
    daemon = await sandbox.start();
    t.equal((await seal('four', client)).status, 202);
    await untilWitnessed(client);
    t.notOk(eventsOf(daemon).includes('witness_failing'));
  });

  await t.test('a witness that does not know the signing keys refuses with the reason', async (t) => {
    witness.control('del-key', '-origin', ORIGIN, '-key', known);
    witness.control('add-key', '-origin', ORIGIN, '-key', unknown);
    await seal('five', client);
    await until('it is noticed', () => eventsOf(daemon).includes('witness_failing'));
    t.match((await status()).witnesses?.members, [{ state: 'failing', trouble: 'unknown_log' }]);
    t.match(
      (await pdfseal('status')).stdout,
      /north +unknown_log: it does not know the log, .*; holds \d+ leaves/,
    );
    t.equal((await seal('six', client)).status, 202, 'sealing goes on');
    witness.control('add-key', '-origin', ORIGIN, '-key', known);
    await untilWitnessed(client);
    await until('its return is told', () => eventsOf(daemon).includes('witness_back'));
  });

  await t.test(
    'an older copy that is sealed on raises the fork alarm, and nothing more is sealed',
    async (t) => {
      await daemon.stop();
      cpSync(join(state, 'store'), aside('older'), { recursive: true });
      daemon = await sandbox.start();
      for (const name of ['seven', 'eight', 'nine']) await seal(name, client);
      const receipt = (await seal('ten', client)).json<JobBody>();
      await untilWitnessed(client);
      const held = await sizeHeld();
      await daemon.stop();
      renameSync(join(state, 'store'), aside('true'));
      cpSync(aside('older'), join(state, 'store'), { recursive: true });
      renameSync(join(state, 'last-checkpoint'), aside('true-last'));
      const older = await openStore({ path: join(state, 'store'), readOnly: true });
      const size = (await older.log.head())?.treeSize ?? 0;
      await older.close();
      t.ok(size < held);
      t.match(await pdfseal('last-checkpoint', '--accept-rollback', `${size}`), { status: 0 });

      await witness.stop();
      daemon = await sandbox.start();
      while (sizeOf(await client.get('/v1/log/checkpoint')) <= held) await seal('another history', client);
      t.equal(
        (await client.get(`/v1/jobs/${receipt.id}`)).status,
        404,
        'it contradicts a receipt that is out',
      );
      await witness.start();
      await until('the alarm is raised', () => eventsOf(daemon).includes('fork_alarm'));
      const refused = await seal('too late', client);
      t.equal(`${refused.status} ${refused.json<Envelope>().error.code}`, '503 fork_alarm');
      const sizeThen = sizeOf(await client.get('/v1/log/checkpoint'));
      t.equal((await client.get('/v1/log/checkpoint')).status, 200, 'what is there can be read');
      t.equal((await askAdmin(sandbox, '/readyz')).status, 503);
      t.match((await askAdmin(sandbox, '/metrics')).text, /^pdfseal_fork_alarm 1$/m);
      t.match(
        (await pdfseal('status')).stdout,
        /witnesses .*north holds another history of the log: it refuses/,
      );
      t.match(await pdfseal('doctor'), {
        status: 1,
        stdout: /witnesses: north holds another history of the log/,
      });
      await daemon.stop();
      t.match((await pdfseal('check')).stderr, /holds another history of the log/);
      daemon = await sandbox.start();
      t.ok(eventsOf(daemon).includes('fork_alarm'), 'a restart does not end it');
      t.equal((await seal('too late', client)).json<Envelope>().error.code, 'fork_alarm');
      t.equal(sizeOf(await client.get('/v1/log/checkpoint')), sizeThen);
      await daemon.stop();
      t.match(await pdfseal('doctor'), {
        status: 1,
        stdout: /witness north: it holds another history of the log/,
      });
    },
  );

  await t.test('an older copy that is not sealed on raises the fork alarm at once', async (t) => {
    for (const name of ['store', 'last-checkpoint']) rmSync(join(state, name), { recursive: true });
    cpSync(aside('older'), join(state, 'store'), { recursive: true });
    const older = await openStore({ path: join(state, 'store'), readOnly: true });
    const size = (await older.log.head())?.treeSize ?? 0;
    await older.close();
    await pdfseal('last-checkpoint', '--accept-rollback', `${size}`);
    daemon = await sandbox.start();
    await until('the alarm is raised', () => eventsOf(daemon).includes('fork_alarm'));
    t.match(
      daemon.log.find(({ event }) => event === 'fork_alarm'),
      { msg: /it holds a tree of \d+ leaves, and the log has \d+/ },
    );
    await daemon.stop();
  });

  await t.test('the true store, put back, is cosigned again', async (t) => {
    for (const name of ['store', 'last-checkpoint']) rmSync(join(state, name), { recursive: true });
    renameSync(aside('true'), join(state, 'store'));
    renameSync(aside('true-last'), join(state, 'last-checkpoint'));
    daemon = await sandbox.start();
    t.equal((await seal('eleven', client)).status, 202);
    await untilWitnessed(client);
    t.notOk(eventsOf(daemon).includes('fork_alarm'));
    t.match(await pdfseal('check'), { status: 0 });
  });
});

t.test('with required witnesses, what they saw survives every crash', async (t) => {
  const tables = {
    witness: 'policy = "policy"\ninterval = "200ms"\nrequired = true',
    health: 'canary_interval = "off"',
    blocking: 'timeout = "2s"',
  };
  const sandbox = await openSandbox({ tables });
  t.teardown(() => sandbox.close());
  const apiKey = await sandbox.issueKey();
  const { logs } = JSON.parse(readFileSync(sandbox.trustFile, 'utf8'));
  const [{ vkey }] = logs[0].epochs[0].keys;
  const witness = await Litewitness.open(t, 'witness.example.net/near', ORIGIN, [vkey]);
  writeFileSync(join(sandbox.dir, 'policy'), `witness near ${witness.vkey} ${witness.url}\nquorum near\n`);
  let daemon = await sandbox.start();
  const client = await Client.connect(sandbox.url, apiKey);
  const seal = (name: string, mode: 'blocking' | 'async' = 'blocking') =>
    client.seal(Buffer.from(`%PDF-1.7\n${name}\n%%EOF\n`), { mode });

  await t.test('every released checkpoint is witnessed', async (t) => {
    for (const name of ['one', 'two', 'three']) {
      t.equal((await seal(name)).json<JobBody>().phase, 'completed');
      const size = sizeOf(await client.get('/v1/log/checkpoint'));
      await until(
        'it is served',
        async () => sizeOf(await client.get('/v1/log/checkpoint/witnessed')) >= size,
      );
    }
  });

  await t.test('without a witness nothing is sealed, and the announced batch is sealed first', async (t) => {
    const size = sizeOf(await client.get('/v1/log/checkpoint'));
    await witness.stop();
    const first = (await seal('announced')).json<JobBody>();
    await until('it is noticed', async () => (await seal('refused')).status === 503);
    const refused = (await seal('refused')).json<Envelope>();
    t.equal(refused.error.code, 'witness_unavailable');
    t.match(
      (await askAdmin(sandbox, '/readyz')).text,
      /"name":"witnesses","ready":false,.*bring witnesses back/,
    );
    t.equal(sizeOf(await client.get('/v1/log/checkpoint')), size);
    t.not((await client.get(`/v1/jobs/${first.id}`)).json<JobBody>().phase, 'completed');
    await daemon.kill();
    daemon = await sandbox.start();
    t.equal(sizeOf(await client.get('/v1/log/checkpoint')), size);
    await witness.start();
    await until('it is sealed', async () => {
      return (await client.get(`/v1/jobs/${first.id}`)).json<JobBody>().phase === 'completed';
    });
  });

  await t.test('kills at any moment lose nothing', async (t) => {
    for (let round = 0; round < 8; round++) {
      const sealed = Array.from({ length: 6 }, (_, n) =>
        seal(`${round}, ${n}`, 'async').catch(() => undefined),
      );
      await sleep(random() * 300);
      await daemon.kill();
      await Promise.all(sealed);
      daemon = await sandbox.start();
      t.notOk(eventsOf(daemon).includes('fork_alarm'));
    }
    t.equal((await seal('after all')).json<JobBody>().phase, 'completed');
    t.notOk(eventsOf(daemon).some((event) => event === 'fork_alarm' || event === 'cannot_go_on'));
    await daemon.stop();
    t.match(await sandbox.pdfseal(['check', '--config', sandbox.configFile]), { status: 0 });
    t.notMatch(witness.log, 'bad consistency proof');
  });
});
