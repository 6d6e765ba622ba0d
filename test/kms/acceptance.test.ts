/** The trials of a device tell what works, are safe for it, and leave nothing behind. */
import { writeFileSync } from 'node:fs';
import pkcs11 from 'pkcs11js';
import t, { type Test } from 'tap';
import { type AcceptanceOptions, type DeviceAcceptance, tryDevice } from '../../src/kms/acceptance.ts';
import { KEY_ALGORITHMS } from '../../src/kms/keyAlgorithm.ts';
import type { PartitionOptions } from '../../src/kms/partitions.ts';
import {
  behindFaulty,
  buildFaultyModule,
  logins,
  type ModuleFault,
  setFault,
  withoutFaults,
} from '../support/faults.ts';
import { item, makeToken } from '../support/partitions.ts';
import { allObjects } from '../support/tamper.ts';

const module = buildFaultyModule(t.testdir());
/** The primes of an RSA key take seconds. */
const QUICK_ALGORITHMS = KEY_ALGORITHMS.filter((one) => !one.startsWith('rsa'));

function makeDevice(t: Test, fault?: ModuleFault): PartitionOptions {
  const token = makeToken(t.testdir(), { label: 'vault', region: 'eu', keyLabel: 'unused' });
  const device = behindFaulty(token, module);
  setFault(device, fault);
  return device;
}

function tryOut(
  device: PartitionOptions,
  options: Partial<AcceptanceOptions> = {},
): Promise<DeviceAcceptance> {
  const { signal } = new AbortController();
  const few = { sessions: [1, 2], measureMs: 20, algorithms: QUICK_ALGORITHMS };
  return tryDevice(device, { ...few, signal, onProgress: () => {}, ...options });
}

function outcomes({ trials, algorithms }: DeviceAcceptance): Record<string, string> {
  const pairs = [
    ...trials.map(({ name, outcome }) => [name, outcome]),
    ...algorithms.map(({ algorithm, outcome }) => [algorithm, outcome]),
  ];
  return Object.fromEntries(pairs);
}

function objectsIn(device: PartitionOptions): number {
  return allObjects(withoutFaults(device)).length;
}

t.test('a device that works: every trial, rates, and nothing is left', async (t) => {
  const device = makeDevice(t);
  const acceptance = await tryOut(device, { algorithms: KEY_ALGORITHMS });
  t.match(outcomes(acceptance), {
    'module starts': 'works',
    'log-in': 'works',
    'starts again': 'works',
    'starts after a kill': 'works',
    'two processes': 'works',
    'keys removed': 'works',
    ed25519: 'works',
    'ecdsa-p256': 'works',
    'ecdsa-p384': 'works',
    'rsa-2048': 'works',
    'rsa-3072': 'works',
    'rsa-4096': 'works',
    mldsa44: 'does not work',
  });
  const [first] = acceptance.algorithms;
  t.match(first, { algorithm: 'ed25519', exposures: [], wasAlwaysInside: true, generateMs: Number });
  t.match(first?.rates, [
    { sessions: 1, outcome: 'works', perSecond: Number, medianMs: Number, slowestMs: Number },
    { sessions: 2, outcome: 'works' },
  ]);
  const none = acceptance.algorithms.find(({ algorithm }) => algorithm === 'mldsa44');
  t.match(none, { detail: /CKR_MECHANISM_INVALID/, rates: [] });
  t.match(acceptance.device, {
    module: { manufacturer: 'SoftHSM', cryptoki: '2.40' },
    token: { label: 'vault', flags: ['CKF_LOGIN_REQUIRED', 'CKF_USER_PIN_INITIALIZED'] },
  });
  t.strictSame(acceptance.leftBehind, []);
  t.equal(objectsIn(device), 0);
});

t.test('a wrong PIN is presented once, and nothing else is tried', async (t) => {
  const device = makeDevice(t);
  writeFileSync(device.pinFile, 'wrong-pin');
  const first = await tryOut(device);
  t.match(outcomes(first), {
    'module starts': 'works',
    'log-in': 'could not tell',
    ed25519: 'could not tell',
    'two processes': 'could not tell',
    'keys removed': 'works',
  });
  t.match(first.trials, [
    {},
    { detail: /refused the PIN in \S+ \(CKR_PIN_INCORRECT\): the PIN is wrong; correct the PIN file/ },
  ]);
  await tryOut(device);
  t.equal(logins(device), 1, 'not by a second run either');
});

t.test('the last attempt of a token is not made', async (t) => {
  const device = makeDevice(t, { tokenFlags: pkcs11.CKF_USER_PIN_FINAL_TRY });
  t.match((await tryOut(device)).trials[1], { outcome: 'could not tell', detail: /pin_final_try/ });
  t.equal(logins(device), 0);
});

t.test(
  'a module that does not start, or hangs or crashes while it signs, is told from one that lacks it',
  async (t) => {
    const silent = makeDevice(t, { fails: 'C_Initialize', with: 5 });
    const none = await tryOut(silent);
    t.match(none.trials[0], { outcome: 'does not work', detail: /refuses to start.*CKR_GENERAL_ERROR/ });
    t.equal(outcomes(none).ed25519, 'could not tell');
    t.equal(none.device, undefined);

    const crashing = makeDevice(t, 'crash');
    const crashed = await tryOut(crashing);
    t.match(item(crashed.algorithms, 0), { outcome: 'does not work', detail: /SIGSEGV \(signer_died\)/ });
    t.match(outcomes(crashed), { 'starts again': 'could not tell', 'keys removed': 'works' });
    t.equal(objectsIn(crashing), 0);

    const forging = makeDevice(t, { forges: 'bit' });
    const forged = await tryOut(forging);
    t.match(item(forged.algorithms, 1), { outcome: 'does not work', detail: /signature_invalid/ });
    t.equal(objectsIn(forging), 0);
  },
);

t.test('a device with few sessions is measured up to these', async (t) => {
  const device = makeDevice(t, { sessions: 2 });
  const { algorithms } = await tryOut(device, { sessions: [1, 2, 4, 8] });
  t.match(algorithms[0]?.rates, [
    { sessions: 1, outcome: 'works' },
    { sessions: 2, outcome: 'works' },
    { sessions: 4, outcome: 'does not work', detail: /only 2 of 4 sessions \(CKR_SESSION_COUNT\)/ },
    { sessions: 8, outcome: 'could not tell', detail: /not tried after 4 sessions/ },
  ]);
});

t.test('keys that cannot be removed are named', async (t) => {
  const device = makeDevice(t, { fails: 'C_DestroyObject', with: 0x200 });
  const { trials, leftBehind } = await tryOut(device);
  // SoftHSM has all but mldsa44.
  const made = QUICK_ALGORITHMS.length - 1;
  t.equal(leftBehind.length, made);
  t.match(leftBehind[0], /^pdfseal-acceptance-[0-9a-f]{8}-ed25519$/);
  t.match(trials.at(-1), { name: 'keys removed', outcome: 'does not work' });
  t.ok(trials.at(-1)?.detail.includes(item(leftBehind, 2)));
  t.equal(objectsIn(device), 2 * made);
});

t.test('an interrupt ends the trials, and the keys are removed all the same', async (t) => {
  const device = makeDevice(t);
  const interrupt = new AbortController();
  const acceptance = await tryOut(device, {
    signal: interrupt.signal,
    onProgress: (line) => {
      if (line === 'measuring signatures: ed25519') setTimeout(() => interrupt.abort(), 100);
    },
    sessions: [1],
    measureMs: 60_000,
  });
  t.match(acceptance.algorithms[0], {
    outcome: 'works',
    rates: [{ outcome: 'could not tell', detail: /interrupted/ }],
  });
  t.match(outcomes(acceptance), { 'starts again': 'could not tell', 'keys removed': 'works' });
  t.equal(objectsIn(device), 0);
});
