/** The log beside a witness that others wrote: it cosigns what grows, and is told what it does not know. */
import { createPublicKey, verify } from 'node:crypto';
import { join } from 'node:path';
import t from 'tap';
import { openStore } from '../../src/store/lmdb/open.ts';
import { until } from '../support/until.ts';
import { eventsOf, ORIGIN, openWitnessed } from './witnessed.ts';

t.test('witnessing by litewitness', async (t) => {
  const opened = await openWitnessed(t);
  const { sandbox, witness, known, unknown, client, pdfseal, status, seal, untilWitnessed } = opened;
  let { daemon } = opened;

  await t.test('the witness cosigns a growing log, and its cosignature verifies', async (t) => {
    for (const name of ['one', 'two', 'three']) {
      t.equal((await seal(name)).status, 202);
      await untilWitnessed();
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
    await untilWitnessed();
  });

  await t.test('the witness is asked from the tree it holds, whatever the store remembers', async (t) => {
    await daemon.stop();
    const store = await openStore({ path: join(sandbox.dir, 'state', 'store') });
    await store.witnessing.put({ witnesses: {} });
    await store.close();
    daemon = await sandbox.start();
    t.equal((await seal('four')).status, 202);
    await untilWitnessed();
    t.notOk(eventsOf(daemon).includes('witness_failing'));
  });

  await t.test('a witness that does not know the signing keys refuses with the reason', async (t) => {
    witness.control('del-key', '-origin', ORIGIN, '-key', known);
    witness.control('add-key', '-origin', ORIGIN, '-key', unknown);
    await seal('five');
    await until('it is noticed', () => eventsOf(daemon).includes('witness_failing'));
    t.match((await status()).witnesses?.members, [{ state: 'failing', trouble: 'unknown_log' }]);
    t.match(
      (await pdfseal('status')).stdout,
      /north +unknown_log: it does not know the log, .*; holds \d+ leaves/,
    );
    t.equal((await seal('six')).status, 202, 'sealing goes on');
    witness.control('add-key', '-origin', ORIGIN, '-key', known);
    await untilWitnessed();
    await until('its return is told', () => eventsOf(daemon).includes('witness_back'));
  });
});
