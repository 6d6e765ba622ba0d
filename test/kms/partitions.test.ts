import pkcs11 from 'pkcs11js';
import t from 'tap';
import { ServiceError } from '../../src/base/errors.ts';
import { verifySignature } from '../../src/log/verifierKey.ts';
import { behindFaulty, buildFaultyModule, setFault } from '../support/faults.ts';
import {
  allReady,
  CHECKPOINT,
  isAlive,
  item,
  MESSAGE,
  makeSite,
  NEVER,
  pidOf,
  signers,
  statesOf,
} from '../support/partitions.ts';
import { hangModule, takeToken } from '../support/tamper.ts';
import { until } from '../support/until.ts';

function checkpointOf(size: number): string {
  return CHECKPOINT.replace('\n1\n', `\n${size}\n`);
}

t.test('every partition signs, in the order of the configuration', async (t) => {
  const site = await makeSite(t, 'ed25519', 'ecdsa-p256', 'ed25519');
  const partitions = await site.open();
  const signatures = await partitions.sign(CHECKPOINT);
  t.strictSame(
    signatures.map(({ signature: _, ...key }) => key),
    site.keys,
  );
  for (const [index, { signature }] of signatures.entries()) {
    t.ok(verifySignature(item(site.keys, index), MESSAGE, signature), `region-${index}`);
  }
  const many = await Promise.all(
    Array.from({ length: 20 }, (_, index) => partitions.sign(checkpointOf(index))),
  );
  t.ok(
    many.every((each, index) =>
      each.every((one) => verifySignature(one, Buffer.from(checkpointOf(index)), one.signature)),
    ),
    'concurrent calls are queued',
  );
  t.match(partitions.status(), [
    { region: 'region-0', keyLabel: 'log', state: 'ready', signatures: 21, restarts: 0 },
    { region: 'region-1', state: 'ready', signatures: 21 },
    { region: 'region-2', state: 'ready', signatures: 21 },
  ]);

  const pids = [0, 1, 2].map((index) => pidOf(partitions, index));
  await partitions.close();
  t.notOk(pids.some(isAlive), 'no child is left');
  t.strictSame(statesOf(partitions), ['closed', 'closed', 'closed']);
  await t.rejects(partitions.sign(CHECKPOINT), { code: 'kms_partition_unavailable' });
});

for (const { quorum, lost, signing } of [
  { quorum: 1, lost: 1, signing: true },
  { quorum: 1, lost: 2, signing: true },
  { quorum: 2, lost: 1, signing: true },
  { quorum: 2, lost: 2, signing: false },
]) {
  t.test(`a quorum of ${quorum} of 3 holds with ${lost} lost and returned`, async (t) => {
    const site = await makeSite(t, 'ed25519', 'ecdsa-p256', 'ed25519');
    const partitions = await site.open({ quorum: { needed: quorum } });
    const returnTokens = site.tokens.slice(0, lost).map(takeToken);
    const staying = ['region-0', 'region-1', 'region-2'].slice(lost);
    // Twice: once finding the loss by signing, once knowing of it.
    for (const when of ['finding out', 'knowing']) {
      if (signing) t.strictSame(await signers(partitions), staying, when);
      else await t.rejects(partitions.sign(CHECKPOINT), ServiceError, when);
    }
    t.equal(partitions.canSign(), signing);
    t.match(partitions.status().slice(0, lost), Array(lost).fill({ state: 'unavailable' }));

    for (const returnToken of returnTokens) returnToken();
    await partitions.recovered(NEVER);
    t.ok(partitions.canSign());
    await allReady(partitions);
    t.strictSame(await signers(partitions), ['region-0', 'region-1', 'region-2'], 'by itself');
  });
}

t.test('a withdrawn partition signs nothing, has no child, and can come back', async (t) => {
  const site = await makeSite(t, 'ed25519', 'ecdsa-p256');
  const durations: string[] = [];
  const partitions = await site.open({
    onSigned: (key, ms) => void durations.push(`${key.region} ${ms >= 0}`),
  });
  const pid = pidOf(partitions, 0);
  const during = signers(partitions);
  t.strictSame(partitions.spare, ['region-0/log', 'region-1/log']);
  await partitions.withdraw('region-0');
  t.strictSame(await during, ['region-0', 'region-1'], 'what it was asked before is still signed');
  t.notOk(isAlive(pid));
  t.match(partitions.status()[0], { state: 'withdrawn', pid: undefined });
  t.strictSame(await signers(partitions), ['region-1']);
  t.ok(partitions.canSign());

  await t.rejects(partitions.withdraw('region-0'), { code: 'partition_not_ready', message: /withdrawn/ });
  t.strictSame(partitions.spare, [], 'of one that is left none is to spare');
  await t.rejects(partitions.withdraw('region-1'), { code: 'below_quorum' });
  for (const name of ['region-2', 'region-1/other']) {
    await t.rejects(partitions.withdraw(name), {
      code: 'not_found',
      message: /region-0\/log, region-1\/log/,
    });
  }
  await partitions.withdraw('region-1/log', { belowQuorum: true });
  t.notOk(partitions.canSign());

  await partitions.restore('region-1');
  await partitions.recovered(NEVER);
  t.strictSame(await signers(partitions), ['region-1']);
  await Promise.all([partitions.restore('region-0'), partitions.restore('region-0')]);
  await allReady(partitions);
  t.strictSame(await signers(partitions), ['region-0', 'region-1']);
  t.notMatch(site.log(), /unavailable/, 'nothing was lost');
  t.ok(durations.includes('region-0 true') && !durations.includes('region-1 false'), 'signatures are timed');

  await partitions.withdraw('region-0');
  await partitions.close();
  t.strictSame(statesOf(partitions), ['closed', 'closed'], 'a withdrawn one closes too');
});

t.test('a child that is killed while signing costs one signature, and is replaced', async (t) => {
  const site = await makeSite(t, 'ed25519', 'ecdsa-p256', 'ed25519');
  const partitions = await site.open();
  const pid = pidOf(partitions, 1);
  process.kill(pid, 'SIGSTOP');
  const signing = signers(partitions);
  process.kill(pid, 'SIGKILL');
  t.strictSame(await signing, ['region-0', 'region-2']);
  t.match(partitions.status()[1], { state: 'unavailable', lastError: 'signer_died' });
  await allReady(partitions);
  t.not(pidOf(partitions, 1), pid);
  t.match(partitions.status()[1], { restarts: 1, lastError: 'signer_died' });
  t.strictSame(await signers(partitions), ['region-0', 'region-1', 'region-2']);
});

t.test('an idle child that dies is replaced', async (t) => {
  const site = await makeSite(t, 'ed25519');
  const partitions = await site.open();
  process.kill(pidOf(partitions), 'SIGKILL');
  await until('the death noticed', () => !partitions.canSign());
  await partitions.recovered(NEVER);
  t.strictSame(await signers(partitions), ['region-0']);
});

t.test('a module that hangs delays one message, once', async (t) => {
  const site = await makeSite(t, 'ed25519', 'ecdsa-p256');
  const partitions = await site.open({ signTimeoutMs: 4000, startTimeoutMs: 10_000 });
  const pid = pidOf(partitions, 1);
  const mend = hangModule(item(site.tokens, 1));
  t.strictSame(await signers(partitions), ['region-0']);
  t.match(partitions.status()[1], { state: 'unavailable', lastError: 'timed_out' });
  for (let round = 0; round < 5; round++) t.strictSame(await signers(partitions), ['region-0']);
  await until('the hung child gone', () => !isAlive(pid));
  mend();
  await allReady(partitions);
  t.strictSame(await signers(partitions), ['region-0', 'region-1']);
  t.match(site.log(), /"code":"timed_out"/, 'reported');
});

t.test('a partition that returns in time replaces one that is lost meanwhile', async (t) => {
  const site = await makeSite(t, 'ed25519', 'ecdsa-p256', 'ed25519');
  const partitions = await site.open({ quorum: { needed: 2 } });
  const returnToken = takeToken(item(site.tokens, 0));
  t.strictSame(await signers(partitions), ['region-1', 'region-2']);
  const pid = pidOf(partitions, 1);
  process.kill(pid, 'SIGSTOP');
  const signing = signers(partitions);
  returnToken();
  await until('the first is back', () => statesOf(partitions)[0] === 'ready');
  process.kill(pid, 'SIGKILL');
  t.strictSame(await signing, ['region-0', 'region-2'], 'never were two of them lost');
});

t.test('a child that hangs at its start does not delay a token that is back', async (t) => {
  const site = await makeSite(t, 'ed25519');
  const partitions = await site.open({ startTimeoutMs: 60_000 });
  const mend = hangModule(item(site.tokens, 0));
  process.kill(pidOf(partitions), 'SIGKILL');
  await until('the next child hangs', () => partitions.status()[0]?.lastError === 'timed_out');
  await until('and the next', () => partitions.status()[0]?.pid !== undefined);
  mend();
  await allReady(partitions);
  t.strictSame(await signers(partitions), ['region-0']);
});

t.test('a stopped child is killed and replaced', async (t) => {
  const site = await makeSite(t, 'ed25519');
  const partitions = await site.open({ signTimeoutMs: 4000 });
  const pid = pidOf(partitions);
  process.kill(pid, 'SIGSTOP');
  await t.rejects(partitions.sign(CHECKPOINT), {
    code: 'kms_partition_unavailable',
    retryAfterSeconds: 5,
  });
  await partitions.recovered(NEVER);
  t.notOk(isAlive(pid));
  t.strictSame(await signers(partitions), ['region-0']);
});

t.test('the loss of an idle token is found by a probe', async (t) => {
  const site = await makeSite(t, 'ed25519');
  const partitions = await site.open({ probeIntervalMs: 50 });
  const returnToken = takeToken(item(site.tokens, 0));
  await until('the loss found', () => !partitions.canSign());
  t.equal(item(partitions.status(), 0).signatures, 0, 'probes are not counted');
  returnToken();
  await partitions.recovered(NEVER);
  t.pass('and its return too');
});

t.test('a token that is out of reach at the start is waited for', async (t) => {
  const site = await makeSite(t, 'ed25519');
  const returnToken = takeToken(item(site.tokens, 0));
  const partitions = await site.open();
  t.notOk(partitions.canSign());
  t.match(partitions.status(), [{ state: 'unavailable', lastError: 'token_not_found' }]);
  await t.rejects(partitions.sign(CHECKPOINT), { code: 'kms_partition_unavailable' });
  await partitions.recovered(AbortSignal.timeout(300));
  t.notOk(partitions.canSign(), 'whoever waits can give up');
  t.equal(site.log().match(/token_not_found/g)?.length, 1, 'one failure that repeats is one line');
  returnToken();
  await partitions.recovered(NEVER);
  t.strictSame(await signers(partitions), ['region-0']);
});

t.test('a module that hangs at the start delays it by at most the time-out', async (t) => {
  const site = await makeSite(t, 'ed25519', 'ed25519');
  const mend = hangModule(item(site.tokens, 0));
  const partitions = await site.open({ startTimeoutMs: 10_000 });
  t.strictSame(statesOf(partitions), ['unavailable', 'ready']);
  mend();
  await allReady(partitions);
});

t.test('a slow module that is not there at first comes up at its first good start', async (t) => {
  const site = await makeSite(t, 'ed25519');
  const token = behindFaulty(item(site.tokens, 0), buildFaultyModule(t.testdirName));
  setFault(token, { fails: 'C_OpenSession', with: pkcs11.CKR_DEVICE_ERROR });
  const partitions = await site.open({ partitions: [token], startTimeoutMs: 120_000 });
  t.match(partitions.status(), [{ state: 'unavailable', lastError: 'CKR_DEVICE_ERROR' }]);
  setFault(token, { delayed: 'C_FindObjectsInit', ms: 1500 });
  await allReady(partitions);
  t.match(partitions.status(), [{ lastError: 'CKR_DEVICE_ERROR' }], 'no start was cut off');
});

t.test('signals to the whole process group are left to the parent', async (t) => {
  const site = await makeSite(t, 'ed25519');
  const partitions = await site.open();
  const pid = pidOf(partitions);
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.kill(pid, signal);
  t.strictSame(await signers(partitions), ['region-0']);
  t.equal(pidOf(partitions), pid);
});
