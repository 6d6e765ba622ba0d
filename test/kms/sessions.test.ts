import { writeFileSync } from 'node:fs';
import pkcs11 from 'pkcs11js';
import t, { type Test } from 'tap';
import { bytesOrder } from '../../src/kms/order.ts';
import type { PartitionsOptions } from '../../src/kms/partitions.ts';
import { restartPauseMs } from '../../src/kms/restartPause.ts';
import { SessionQueue } from '../../src/kms/sessionQueue.ts';
import { verifySignature } from '../../src/log/verifierKey.ts';
import {
  behindFaulty,
  buildFaultyModule,
  faultsPlayed,
  type ModuleFault,
  refusedLogins,
  setFault,
} from '../support/faults.ts';
import { allReady, isAlive, item, MESSAGE, makeSite, pidOf, statesOf } from '../support/partitions.ts';
import { until } from '../support/until.ts';

/** One partition behind the module with faults. */
async function makeFaultySite(t: Test, algorithm: 'ed25519' | 'ecdsa-p256' = 'ed25519') {
  const site = await makeSite(t, algorithm);
  const token = behindFaulty(item(site.tokens, 0), buildFaultyModule(t.testdirName));
  const open = async (fault?: ModuleFault, options: Partial<PartitionsOptions> = {}) => {
    setFault(token, fault);
    return site.open({ partitions: [token], ...options });
  };
  return { site, token, key: item(site.keys, 0), open };
}

for (const algorithm of ['ed25519', 'ecdsa-p256'] as const) {
  t.test(`two ${algorithm} signatures are under way at the same time`, async (t) => {
    const { token, key, open } = await makeFaultySite(t, algorithm);
    const partitions = await open();
    t.equal(partitions.sessions, 2);
    setFault(token, { overtaken: 'by a signature' });
    const signer = item(partitions.signers, 0);
    const ended: number[] = [];
    // An odd one at the end would wait for ever.
    const messages = Array.from({ length: 10 }, (_, index) => Buffer.from(`message ${index}`));
    const signatures = await Promise.all(
      messages.map(async (message, index) => {
        const signature = await signer.sign(bytesOrder(message));
        ended.push(index);
        return signature;
      }),
    );
    // The first of each two waits in the module until the second has ended.
    t.strictSame(ended.toSorted(), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    t.ok(
      messages.every((message, index) =>
        verifySignature(key, message, signatures[index] ?? new Uint8Array()),
      ),
    );
    t.equal(faultsPlayed(token, 'overtake'), 10);
    t.match(partitions.status(), [{ state: 'ready', sessions: 2, signatures: 10, restarts: 0 }]);
    t.equal(item(partitions.status(), 0).sessionsRefused, undefined);
  });
}

t.test('a failure of one of two concurrent signatures ends both, and the child', async (t) => {
  const { token, open } = await makeFaultySite(t);
  const partitions = await open();
  const pid = pidOf(partitions);
  setFault(token, { overtaken: 'by a failure' });
  const signer = item(partitions.signers, 0);
  t.strictSame(await Promise.all([signer.sign(bytesOrder(MESSAGE)), signer.sign(bytesOrder(MESSAGE))]), [
    undefined,
    undefined,
  ]);
  setFault(token, undefined);
  await until('the child gone', () => !isAlive(pid));
  await allReady(partitions);
  t.match(partitions.status(), [{ lastError: 'CKR_DEVICE_ERROR', restarts: 1, sessions: 2 }]);
  t.ok(await signer.sign(bytesOrder(MESSAGE)));
});

for (const { fault, code, refused } of [
  { fault: { sessions: 1 }, code: 'CKR_SESSION_COUNT', refused: 'sessions' },
  { fault: 'no-locks', code: 'CKR_CANT_LOCK', refused: 'no-locks' },
] as const) {
  t.test(`a token with one session only is used with one (${code})`, async (t) => {
    const { site, token, open } = await makeFaultySite(t);
    const partitions = await open(fault);
    t.equal(partitions.sessions, 1);
    const signer = item(partitions.signers, 0);
    const many = await Promise.all(Array.from({ length: 5 }, () => signer.sign(bytesOrder(MESSAGE))));
    t.ok(many.every((signature) => signature !== undefined));
    process.kill(pidOf(partitions), 'SIGKILL');
    await until('another child', () => faultsPlayed(token, refused) === 2);
    await allReady(partitions);
    t.match(partitions.status(), [{ sessions: 1, sessionsRefused: code }]);
    const told = new RegExp(`"level":40[^\\n]*"sessions":1,"wanted":2,"code":"${code}"`, 'g');
    t.equal(site.log().match(told)?.length, 1, 'said once');
  });
}

t.test('a token that cannot sign in several sessions is used with one', async (t) => {
  const { token, open } = await makeFaultySite(t);
  const partitions = await open('alone');
  await until('it is back', () => partitions.canSign());
  t.ok(faultsPlayed(token, 'alone') > 0);
  t.match(partitions.status(), [
    { state: 'ready', sessions: 1, sessionsRefused: 'CKR_OPERATION_ACTIVE', restarts: 1 },
  ]);
  t.ok(await item(partitions.signers, 0).sign(bytesOrder(MESSAGE)));
});

t.test('a token that keeps the log-in by session signs in all of them', async (t) => {
  const { token, open } = await makeFaultySite(t);
  const partitions = await open('login-by-session', { sessions: 3 });
  t.match(partitions.status(), [{ state: 'ready', sessions: 3, sessionsRefused: undefined, restarts: 0 }]);
  t.equal(faultsPlayed(token, 'login-by-session'), 3);
  const signer = item(partitions.signers, 0);
  const many = await Promise.all(Array.from({ length: 9 }, () => signer.sign(bytesOrder(MESSAGE))));
  t.ok(many.every((signature) => signature !== undefined));
  t.match(partitions.status(), [{ restarts: 0 }]);
});

t.test('a PIN that the token took for one session is not remembered as refused', async (t) => {
  const { token, open } = await makeFaultySite(t);
  const partitions = await open({ loginBySession: 1 });
  t.match(partitions.status(), [{ state: 'unavailable', lastError: 'CKR_GENERAL_ERROR' }]);
  setFault(token, undefined);
  await allReady(partitions);
});

t.test('a wrong PIN is presented for one session only', async (t) => {
  const { token, open } = await makeFaultySite(t);
  writeFileSync(token.pinFile, 'wrong-pin');
  await t.rejects(open('login-by-session', { sessions: 3 }), { message: /CKR_PIN_INCORRECT/ });
  t.equal(refusedLogins(token), 1);
});

t.test('only one session is opened if configured so', async (t) => {
  const { token, open } = await makeFaultySite(t);
  const partitions = await open({ sessions: 1 }, { sessions: 1 });
  t.equal(faultsPlayed(token, 'sessions'), 0);
  t.match(partitions.status(), [{ state: 'ready', sessions: 1, sessionsRefused: undefined }]);
  setFault(token, { delayed: 'C_Sign', ms: 300 });
  const [first, second] = [
    item(partitions.signers, 0).sign(bytesOrder(MESSAGE)),
    item(partitions.signers, 0).sign(bytesOrder(MESSAGE)),
  ];
  await partitions.withdraw('region-0', { belowQuorum: true });
  t.ok((await first) && (await second), 'both are signed before the child goes');
});

t.test('the time-out counts from when a message gets a session', async (t) => {
  const { token, open } = await makeFaultySite(t);
  const partitions = await open(undefined, { signTimeoutMs: 4000 });
  setFault(token, { delayed: 'C_Sign', ms: 1500 });
  const signer = item(partitions.signers, 0);
  const many = await Promise.all(Array.from({ length: 6 }, () => signer.sign(bytesOrder(MESSAGE))));
  t.ok(
    many.every((signature) => signature !== undefined),
    'the last ones wait for longer than that',
  );
  t.match(partitions.status(), [{ restarts: 0 }]);
});

t.test('a withdrawal waits for all signatures under way', async (t) => {
  const { token, open } = await makeFaultySite(t);
  const partitions = await open();
  setFault(token, { overtaken: 'by a signature' });
  const signer = item(partitions.signers, 0);
  const before = Array.from({ length: 4 }, () => signer.sign(bytesOrder(MESSAGE)));
  const withdrawal = partitions.withdraw('region-0', { belowQuorum: true });
  const after = signer.sign(bytesOrder(MESSAGE));
  await withdrawal;
  t.ok((await Promise.all(before)).every((signature) => signature !== undefined));
  t.equal(await after, undefined, 'what comes later is not signed');
  t.strictSame(statesOf(partitions), ['withdrawn']);
  t.equal(partitions.sessions, 1, 'nobody is ready');
  setFault(token, undefined);
  await partitions.restore('region-0');
  await allReady(partitions);
  t.ok(await signer.sign(bytesOrder(MESSAGE)));
});

t.test('a signer that failed closes its token, after the signatures under way', async (t) => {
  const { token, open } = await makeFaultySite(t);
  const partitions = await open();
  const signer = item(partitions.signers, 0);
  setFault(token, { fails: 'C_Sign', with: pkcs11.CKR_DEVICE_ERROR });
  t.equal(await signer.sign(bytesOrder(MESSAGE)), undefined);
  await until('the module at its end', () => faultsPlayed(token, 'finalize') === 1);
  await until('the same for one whose start fails', () => faultsPlayed(token, 'finalize') > 1);
  setFault(token, undefined);
  await allReady(partitions);
  const before = faultsPlayed(token, 'finalize');
  await partitions.close();
  t.equal(faultsPlayed(token, 'finalize'), before + 1);
});

t.test('a signer whose module hangs at its end is killed', async (t) => {
  const { token, open } = await makeFaultySite(t);
  const partitions = await open();
  const pid = pidOf(partitions);
  setFault(token, { delayed: 'C_Finalize', ms: 600_000 });
  await partitions.withdraw('region-0', { belowQuorum: true });
  t.equal(faultsPlayed(token, 'C_Finalize-delay'), 1);
  t.equal(faultsPlayed(token, 'finalize'), 0);
  t.notOk(isAlive(pid));
});

t.test('starts that go on failing become rare, and not at the same moment', (t) => {
  for (const [failingMs, first, last] of [
    [0, 100, 150],
    [1_000, 100, 150],
    [10_000, 1_000, 1_500],
    [60_000, 6_000, 9_000],
    [3_600_000, 15_000, 22_500],
  ] as const) {
    const pauseAt = (random: number) => restartPauseMs({ code: 'CKR_DEVICE_ERROR' }, failingMs, () => random);
    t.equal(pauseAt(0), first);
    t.equal(pauseAt(1), last);
  }
  t.end();
});

t.test('a token that judges PINs is left alone for longer, and one that is locked for longest', (t) => {
  const pauseAfter = (code: string) => restartPauseMs({ code }, 0);
  for (const code of [
    'CKR_PIN_INCORRECT',
    'pin_refused',
    'pin_final_try',
    'pin_file_exposed',
    'tree_unknown',
  ])
    t.equal(pauseAfter(code), 10_000, code);
  t.equal(pauseAfter('CKR_PIN_LOCKED'), 60_000);
  t.end();
});

t.test('the queue runs tasks in order, up to its width, and some alone', async (t) => {
  const queue = new SessionQueue();
  queue.width = 2;
  const running = new Set<string>();
  const seen: string[] = [];
  const ends = new Map<string, () => void>();
  const take = (name: string, isAlone = false) =>
    queue.take(
      async () => {
        running.add(name);
        seen.push([...running].join(''));
        await new Promise<void>((end) => ends.set(name, end));
        running.delete(name);
      },
      { isAlone },
    );
  const end = async (name: string) => {
    await until(name, () => ends.has(name));
    ends.get(name)?.();
  };
  const all = [take('a'), take('b'), take('c'), take('D', true), take('e'), take('f')];
  for (const name of ['b', 'c', 'a', 'D', 'f', 'e']) await end(name);
  await Promise.all(all);
  t.strictSame(seen, ['a', 'ab', 'ac', 'D', 'e', 'ef']);
  await t.rejects(
    queue.take(() => Promise.reject(new Error('of the task'))),
    { message: 'of the task' },
  );
  t.equal(await queue.take(async () => 'next', { isAlone: true }), 'next');
});
