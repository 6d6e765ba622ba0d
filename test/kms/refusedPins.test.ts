/** A token locks itself after a few wrong PINs, so each is presented once, whoever asks. */
import { execFileSync } from 'node:child_process';
import { scryptSync } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import pkcs11 from 'pkcs11js';
import t, { type Test } from 'tap';
import { forgetRefusedPins, probeToken, readKey } from '../../src/kms/keyOperations.ts';
import type { PartitionOptions } from '../../src/kms/partitions.ts';
import { PIN_NOT_JUDGED } from '../../src/kms/refusedPins.ts';
import {
  behindFaulty,
  buildFaultyModule,
  logins,
  refusedLogins,
  setFault,
  withoutFaults,
} from '../support/faults.ts';
import { item, makeSite, pidOf, type Site, statesOf } from '../support/partitions.ts';
import { randomBytes } from '../support/seed.ts';
import { changePin } from '../support/tamper.ts';
import { until } from '../support/until.ts';

const module = buildFaultyModule(t.testdir());

const { CKR_USER_TYPE_INVALID, CKR_FUNCTION_FAILED } = pkcs11;
/** Some tokens report that few attempts are left as well. */
const FINAL_TRY_OF_FEW = pkcs11.CKF_USER_PIN_FINAL_TRY | pkcs11.CKF_USER_PIN_COUNT_LOW;
/** The answers after which the same PIN may be presented again. */
const UNJUDGED = {
  CKR_DEVICE_ERROR: 0x30,
  CKR_DEVICE_REMOVED: 0x32,
  CKR_TOKEN_NOT_PRESENT: 0xe0,
  CKR_SESSION_HANDLE_INVALID: 0xb3,
  CKR_FUNCTION_FAILED: 0x6,
  CKR_CRYPTOKI_NOT_INITIALIZED: 0x190,
  CKR_USER_PIN_NOT_INITIALIZED: 0x102,
};

async function openSite(t: Test): Promise<{ site: Site; token: PartitionOptions; pin: string }> {
  const site = await makeSite(t, 'ed25519');
  const token = behindFaulty(item(site.tokens, 0), module);
  // The key was made without the module that counts, so it has another record.
  rmSync(token.refusedPins, { recursive: true, force: true });
  return { site, token, pin: readFileSync(token.pinFile, 'utf8') };
}

function recordOf({ refusedPins }: PartitionOptions): string {
  return join(refusedPins, item(readdirSync(refusedPins), 0));
}

t.test('a wrong PIN is presented once by daemon and commands, until the file has another', async (t) => {
  const { site, token, pin } = await openSite(t);
  const start = () => site.open({ partitions: [token] });
  writeFileSync(token.pinFile, 'wrong-pin');
  await t.rejects(start(), { message: /refused the PIN in \S+pin \(CKR_PIN_INCORRECT\).*hsm retry-pin/ });
  t.equal(refusedLogins(token), 1);
  const remembered = /before \(CKR_PIN_INCORRECT\), and it is not presented again until the file changes/;
  await t.rejects(start(), { message: remembered }, 'another start');
  await t.rejects(probeToken(token), { message: remembered }, 'a command');
  await t.rejects(readKey({ ...token, keyLabel: 'other' }), { message: remembered }, 'for another key');
  writeFileSync(`${token.pinFile}.new`, 'wrong-pin\n', { mode: 0o600 });
  renameSync(`${token.pinFile}.new`, token.pinFile);
  await t.rejects(start(), { message: remembered }, 'the same PIN in another file');
  t.equal(logins(token), 1);

  for (const content of ['', '\n', `${pin}${pin}`]) {
    writeFileSync(token.pinFile, content);
    await t.rejects(start(), { message: /pin_file_invalid/ }, JSON.stringify(content));
  }
  t.equal(logins(token), 1, 'what cannot be a PIN is never presented');

  writeFileSync(token.pinFile, 'wrong-pin-2');
  await t.rejects(start(), { message: /CKR_PIN_INCORRECT/ });
  writeFileSync(token.pinFile, 'wrong-pin');
  await t.rejects(start(), { message: remembered }, 'the first one again');
  t.equal(refusedLogins(token), 2);
  writeFileSync(token.pinFile, pin);
  await start();
  t.equal(refusedLogins(token), 2);
});

t.test('a running partition presents a wrong PIN once, however often its signer is killed', async (t) => {
  const { site, token } = await openSite(t);
  const partitions = await site.open({ partitions: [token] });
  const writePin = changePin(withoutFaults(token));
  const tried = logins(token);
  process.kill(pidOf(partitions), 'SIGKILL');
  await until('the PIN is refused', () => statesOf(partitions)[0] === 'pin_refused');
  await until('and asked for again', () => partitions.status()[0]?.lastError === 'pin_refused');
  t.equal(logins(token), tried + 1);
  writePin();
  await until('it is back by itself', () => statesOf(partitions)[0] === 'ready');
  t.equal(refusedLogins(token), 1);
});

t.test('processes that log in at the same time present a wrong PIN once', async (t) => {
  const { token } = await openSite(t);
  writeFileSync(token.pinFile, 'wrong-pin');
  const outcomes = await Promise.all(
    Array.from({ length: 8 }, () => probeToken(token).then(String, (error: Error) => error.message)),
  );
  t.equal(outcomes.filter((text) => text.endsWith('refused')).length, 0);
  t.equal(outcomes.filter((text) => /\(CKR_PIN_INCORRECT\);/.test(text)).length, 1);
  t.equal(outcomes.filter((text) => /\(pin_refused\)/.test(text)).length, 7);
  t.equal(logins(token), 1);
});

t.test('a PIN that became right is presented again when an administrator says so', async (t) => {
  const { token, pin } = await openSite(t);
  t.notOk(await forgetRefusedPins(token), 'nothing is remembered');
  writeFileSync(token.pinFile, 'wrong-pin');
  await t.rejects(probeToken(token), { message: /CKR_PIN_INCORRECT/ });
  t.ok(await forgetRefusedPins(token));
  await t.rejects(probeToken(token), { message: /CKR_PIN_INCORRECT/ }, 'presented, and remembered anew');
  await t.rejects(probeToken(token), { message: /pin_refused/ });
  t.equal(refusedLogins(token), 2);
  writeFileSync(token.pinFile, pin);
  await t.resolves(probeToken(token));
});

t.test('the record has digests that cost time to guess from, and is closed to others', async (t) => {
  const { token } = await openSite(t);
  const wrong = randomBytes(8).toString('hex');
  writeFileSync(token.pinFile, wrong);
  await t.rejects(probeToken(token), { message: /CKR_PIN_INCORRECT/ });
  const path = recordOf(token);
  t.equal(statSync(token.refusedPins).mode & 0o777, 0o700);
  const { salt, refused } = JSON.parse(readFileSync(path, 'utf8'));
  const cost = { N: 1 << 15, r: 8, p: 1, maxmem: 64 << 20 };
  const digest = scryptSync(wrong, Buffer.from(salt, 'base64'), 32, cost).toString('base64');
  t.strictSame(refused, [{ digest, code: 'CKR_PIN_INCORRECT' }]);
  const { size } = statSync(path);
  for (let n = 0; n < 20; n++) {
    writeFileSync(token.pinFile, `${wrong}${n}`);
    await t.rejects(probeToken(token), { message: /CKR_PIN_INCORRECT/ });
  }
  t.equal(JSON.parse(readFileSync(path, 'utf8')).refused.length, 16, 'the newest');
  t.equal(statSync(path).size, size, 'a full disk has room for it');
});

t.test('a damaged record is begun anew; where none can be kept, no PIN is presented', async (t) => {
  const { token, pin } = await openSite(t);
  await probeToken(token);
  writeFileSync(recordOf(token), '{"salt":');
  await t.resolves(probeToken(token));
  const tried = logins(token);
  rmSync(token.refusedPins, { recursive: true });
  writeFileSync(token.refusedPins, '');
  await t.rejects(probeToken(token), { message: /cannot remember in .*\(pin_record_unusable\).*writable/ });
  t.equal(logins(token), tried);
  rmSync(token.refusedPins);
  await t.resolves(probeToken(token));
  t.ok(existsSync(recordOf(token)));
  t.notMatch(readFileSync(recordOf(token), 'utf8'), pin.trim());
});

t.test('whatever the token answers counts as a refusal, unless it says nothing about the PIN', async (t) => {
  const { token, pin } = await openSite(t);
  setFault(token, { wrongPinIs: CKR_USER_TYPE_INVALID });
  writeFileSync(token.pinFile, 'wrong-pin');
  const refused = /did not accept the PIN in \S+pin \(CKR_USER_TYPE_INVALID\).*\(pin_refused\).*retry-pin/;
  await t.rejects(probeToken(token), { message: refused });
  await t.rejects(probeToken(token), { message: /before \(CKR_USER_TYPE_INVALID\)/ });
  t.equal(logins(token), 1);

  await resetCount(token, pin);
  setFault(token, { wrongPinIs: CKR_FUNCTION_FAILED });
  writeFileSync(token.pinFile, 'wrong-pin-2');
  await t.rejects(probeToken(token), { message: /\(CKR_FUNCTION_FAILED\).*pin_refused/ });
  t.equal(refusedLogins(token), 2, 'the flags show that the token counted it');
  await t.rejects(probeToken(token), { message: /before \(CKR_FUNCTION_FAILED\)/ });

  await resetCount(token, pin);
  for (const [name, value] of Object.entries(UNJUDGED)) {
    const tried = logins(token);
    setFault(token, { fails: 'C_Login', with: value });
    for (const attempt of [1, 2]) {
      await t.rejects(probeToken(token), { message: new RegExp(`C_Login failed \\(${name}\\)`) });
      t.equal(logins(token), tried + attempt, `${name} is tried again`);
    }
  }
  t.strictSame(Object.keys(UNJUDGED).toSorted(), Object.keys(PIN_NOT_JUDGED).toSorted());
});

t.test('the last attempt before the token locks itself is never made', async (t) => {
  const { site, token, pin } = await openSite(t);
  writeFileSync(token.pinFile, pin);
  for (const flags of [pkcs11.CKF_USER_PIN_FINAL_TRY, FINAL_TRY_OF_FEW]) {
    setFault(token, { tokenFlags: flags });
    const refusal =
      /after one more wrong PIN, so none was presented \(pin_final_try\); .*log in once with the vendor/;
    await t.rejects(probeToken(token), { message: refusal });
    await t.rejects(site.open({ partitions: [token] }), { message: refusal });
    await forgetRefusedPins(token);
    await t.rejects(probeToken(token), { message: refusal }, 'an administrator cannot insist');
  }
  setFault(token, { tokenFlags: pkcs11.CKF_USER_PIN_LOCKED });
  const locked = /its PIN is locked; none was presented \(CKR_PIN_LOCKED\); unlock the PIN/;
  await t.rejects(probeToken(token), { message: locked });
  t.equal(logins(token), 0);

  setFault(token, undefined);
  await t.resolves(probeToken(token), 'once the token has more attempts, nothing is to be forgotten');
});

t.test(
  'a wrong PIN that somebody presented is reported, and the right one is presented all the same',
  async (t) => {
    const { site, token } = await openSite(t);
    setFault(token, { tokenFlags: pkcs11.CKF_USER_PIN_COUNT_LOW });
    await site.open({ partitions: [token] });
    await until('it is logged', () => site.log().includes('a wrong PIN was presented to the token'));
  },
);

/** The user logs in as the vendor's tool would. */
async function resetCount(token: PartitionOptions, pin: string): Promise<void> {
  setFault(token, undefined);
  writeFileSync(token.pinFile, pin);
  await probeToken(token);
}

t.test('a PIN pad is not in the way of a token that accepts a PIN from a program', async (t) => {
  const { site, token } = await openSite(t);
  setFault(token, { tokenFlags: pkcs11.CKF_PROTECTED_AUTHENTICATION_PATH });
  await site.open({ partitions: [token] });
  await until('the pad is in the log', () => /has a PIN pad, at which pdfseald asks nobody/.test(site.log()));
});

t.test(
  'a token that takes its PIN at a pad only is refused with the reason, after one attempt',
  async (t) => {
    const { site, token } = await openSite(t);
    setFault(token, 'pin-pad');
    const message =
      /\(CKR_ARGUMENTS_BAD\).*has a PIN pad.*must accept a PIN from a program, too \(pin_refused\)/;
    await t.rejects(site.open({ partitions: [token] }), { message });
    await t.rejects(probeToken(token), { message: /before \(CKR_ARGUMENTS_BAD\)/ });
    t.equal(logins(token), 1);
  },
);

t.test('tokens of one module have a PIN file each, and a wrong one concerns its token only', async (t) => {
  const { token: first } = await openSite(t);
  const home = dirname(first.pinFile);
  const second = { ...first, tokenLabel: 'second', pinFile: join(home, 'second-pin') };
  writeFileSync(second.pinFile, 'pin of the second', { mode: 0o600 });
  const pins = ['--pin', 'pin of the second', '--so-pin', 'so-pin-of-it'];
  execFileSync('softhsm2-util', ['--init-token', '--free', '--label', 'second', ...pins], {
    env: { PATH: '/usr/bin:/bin', ...first.environment },
    stdio: 'pipe',
  });
  await t.resolves(probeToken(first));
  await t.resolves(probeToken(second));
  writeFileSync(second.pinFile, 'wrong-pin');
  await t.rejects(probeToken(second), { message: /the token refused the PIN in \S+second-pin/ });
  await t.rejects(probeToken(second), { message: /pin_refused/ });
  await t.resolves(probeToken(first), 'also if its module is the same');
  const swapped = { ...first, pinFile: second.pinFile };
  await t.rejects(
    probeToken(swapped),
    { message: /CKR_PIN_INCORRECT/ },
    'the other token has not judged that PIN',
  );
});
