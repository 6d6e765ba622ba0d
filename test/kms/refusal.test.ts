import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import t from 'tap';
import { initKey } from '../../src/kms/keys.ts';
import {
  behindFaulty,
  buildFaultyModule,
  refusedLogins,
  setFault,
  withoutFaults,
} from '../support/faultyModule.ts';
import { allReady, item, MESSAGE, makeSite, NEVER, pidOf, signers, statesOf } from '../support/site.ts';
import { makeToken } from '../support/softhsm.ts';
import { changePin, destroyKey, mismatchHalves, takeToken, tokenFolder } from '../support/tamper.ts';
import { until } from '../support/until.ts';

t.test('a wrong PIN is tried once, until the file changes', async (t) => {
  const site = await makeSite(t, 'ed25519');
  const partitions = await site.open();
  const { pinFile } = item(site.tokens, 0);
  const pin = readFileSync(pinFile);
  writeFileSync(pinFile, 'wrong-pin-1');
  process.kill(pidOf(partitions), 'SIGKILL');
  await until('the PIN refused', () => statesOf(partitions)[0] === 'pin_refused');
  const { restarts } = item(partitions.status(), 0);
  t.equal(item(partitions.status(), 0).lastError, 'CKR_PIN_INCORRECT');

  // Each child logs in once, so attempts are counted by children.
  await partitions.recovered(AbortSignal.timeout(1500));
  renameSync(pinFile, `${pinFile}.away`);
  await partitions.recovered(AbortSignal.timeout(700));
  renameSync(`${pinFile}.away`, pinFile);
  await partitions.recovered(AbortSignal.timeout(700));
  t.equal(item(partitions.status(), 0).restarts, restarts, 'not tried again');

  writeFileSync(pinFile, 'wrong-pin-2!');
  await until('the next PIN tried', () => item(partitions.status(), 0).restarts === restarts + 1);
  await until('and refused', () => partitions.status()[0]?.pid === undefined);
  t.strictSame(statesOf(partitions), ['pin_refused']);
  writeFileSync(pinFile, pin);
  await partitions.recovered(NEVER);
  t.equal(item(partitions.status(), 0).restarts, restarts + 2);
});

t.test('a token that is slow to refuse a PIN is not asked twice', async (t) => {
  const site = await makeSite(t, 'ed25519');
  const token = behindFaulty(item(site.tokens, 0), buildFaultyModule(t.testdirName));
  const partitions = await site.open({ partitions: [token] });
  const writePin = changePin(withoutFaults(token));
  setFault(token, { loginDelayMs: 2500 });
  process.kill(pidOf(partitions), 'SIGKILL');
  await until('the PIN refused', () => statesOf(partitions)[0] === 'pin_refused');
  t.equal(refusedLogins(token), 1);
  setFault(token, undefined);
  writePin();
  await allReady(partitions);
  t.equal(refusedLogins(token), 1);
});

t.test('a wrong PIN, a changed or a lost key, a missing module refuse the start', async (t) => {
  const site = await makeSite(t, 'ed25519', 'ed25519');
  const [first, second] = [item(site.tokens, 0), item(site.tokens, 1)];
  const names = /region-1.*token "vault-1".*key "log"/;
  const pin = readFileSync(second.pinFile);

  writeFileSync(second.pinFile, 'wrong-pin');
  await t.rejects(site.open(), { name: 'OperatorError', message: /CKR_PIN_INCORRECT/ });
  await t.rejects(site.open(), { message: names });
  writeFileSync(second.pinFile, pin);

  await t.rejects(site.open({ partitions: [first, { ...second, module: '/nonexistent.so' }] }), {
    name: 'OperatorError',
    message: /module_unusable/,
  });

  destroyKey(second);
  await t.rejects(site.open(), { name: 'OperatorError', message: /key_not_found/ });
  await initKey(second, 'ed25519');
  await t.rejects(site.open(), { name: 'OperatorError', message: /key_changed.*restore/ });
  destroyKey(first);
  await t.rejects(site.open(), { message: /region-0.*key_not_found.*\n.*region-1.*key_changed/ }, 'says all');
});

t.test('a key changed or lost behind our back is not used, and used again once restored', async (t) => {
  const site = await makeSite(t, 'ed25519', 'ed25519');
  const partitions = await site.open();
  const token = item(site.tokens, 0);
  const returnOriginal = takeToken(token);
  t.strictSame(await signers(partitions), ['region-1']);

  const { pinFile } = token;
  const pin = readFileSync(pinFile);
  makeToken(`${pinFile}/../..`, { label: 'vault-0', region: 'region-0', keyLabel: 'log' });
  await until('the loss found', () => statesOf(partitions)[0] === 'key_lost');
  await initKey(token, 'ed25519');
  await until('the change found', () => statesOf(partitions)[0] === 'key_changed');
  t.strictSame(await signers(partitions), ['region-1']);
  t.match(site.log(), /"level":50[^\n]*key_changed/, 'loud');

  rmSync(tokenFolder(token), { recursive: true });
  writeFileSync(pinFile, pin);
  returnOriginal();
  await allReady(partitions);
  t.strictSame(await signers(partitions), ['region-0', 'region-1']);
});

t.test('what the configuration contradicts is refused before any token is asked', async (t) => {
  const site = await makeSite(t, 'ed25519', 'ed25519');
  const [first, second] = [item(site.tokens, 0), item(site.tokens, 1)];
  const key = item(site.keys, 0);
  for (const [what, options, message] of [
    ['quorum out of reach', { quorum: { needed: 3 } }, /kms\.quorum: 3 of 2 keys can never sign/],
    [
      'quorum of a region that is not there',
      { quorum: { needed: 1, regions: ['region-0', 'moon'] } },
      /kms\.quorum: region moon has no key/,
    ],
    [
      'key unknown to the log',
      { partitions: [{ ...first, keyLabel: 'new' }, second] },
      /no key "new".*region-0/,
    ],
    ['one key twice', { keys: [key, { ...key, region: 'region-1' }] }, /same key/],
  ] as const) {
    await t.rejects(
      site.open({
        ...options,
        ...('partitions' in options && { partitions: [...options.partitions] }),
      } as object),
      { name: 'OperatorError', message },
      what,
    );
  }
});

t.test('the PIN and our environment stay out of sight', async (t) => {
  process.env.PDFSEAL_TEST_SECRET = 'inherited-secret';
  t.teardown(() => delete process.env.PDFSEAL_TEST_SECRET);
  const site = await makeSite(t, 'ed25519');
  const partitions = await site.open();
  const token = item(site.tokens, 0);
  const pin = readFileSync(token.pinFile, 'utf8').trim();
  const pid = pidOf(partitions);
  const environment = readFileSync(`/proc/${pid}/environ`, 'utf8');
  t.match(environment, `SOFTHSM2_CONF=${token.environment?.SOFTHSM2_CONF}`);
  t.notMatch(environment, 'inherited-secret');
  takeToken(token)();
  await partitions.sign(MESSAGE).catch(() => {});
  const seen = [environment, readFileSync(`/proc/${pid}/cmdline`, 'utf8'), site.log()];
  seen.push(JSON.stringify(partitions.status()));
  for (const text of seen) t.notOk(text.includes(pin));
});

t.test('a partition whose signatures do not verify is never used', async (t) => {
  const site = await makeSite(t, 'ed25519', 'ed25519');
  const token = item(site.tokens, 0);
  await initKey({ ...token, keyLabel: 'other' }, 'ed25519');
  const partitions = await site.open();
  mismatchHalves(token, 'other');
  process.kill(pidOf(partitions), 'SIGKILL');
  await until('the mismatch found', () => item(partitions.status(), 0).lastError === 'signature_invalid');
  t.strictSame(statesOf(partitions), ['unavailable', 'ready']);
  t.strictSame(await signers(partitions), ['region-1']);
});
