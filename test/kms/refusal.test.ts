import { chmodSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import t from 'tap';
import { initKey, inspectKey, readKey } from '../../src/kms/keyOperations.ts';
import {
  behindFaulty,
  buildFaultyModule,
  refusedLogins,
  setFault,
  withoutFaults,
} from '../support/faults.ts';
import { makeNssToken } from '../support/nss.ts';
import {
  allReady,
  CHECKPOINT,
  item,
  makeSite,
  makeToken,
  NEVER,
  pidOf,
  signers,
  statesOf,
} from '../support/partitions.ts';
import { changePin, destroyKey, mismatchHalves, takeToken, tokenFolder } from '../support/tamper.ts';
import { until } from '../support/until.ts';

t.test('a token that is slow to refuse a PIN is not asked twice', async (t) => {
  const site = await makeSite(t, 'ed25519');
  const token = behindFaulty(item(site.tokens, 0), buildFaultyModule(t.testdirName));
  const partitions = await site.open({ partitions: [token] });
  const writePin = changePin(withoutFaults(token));
  setFault(token, { delayed: 'C_Login', ms: 2500 });
  process.kill(pidOf(partitions), 'SIGKILL');
  await until('the PIN refused', () => statesOf(partitions)[0] === 'pin_refused');
  t.equal(refusedLogins(token), 1);
  setFault(token, undefined);
  writePin();
  await allReady(partitions);
  t.equal(refusedLogins(token), 1);
});

t.test('a changed or a lost key, a missing module, too many wrong PINs refuse the start', async (t) => {
  const site = await makeSite(t, 'ed25519', 'ed25519');
  const [first, second] = [item(site.tokens, 0), item(site.tokens, 1)];
  const names = /region-1.*token "vault-1".*key "log"/;
  const pin = readFileSync(second.pinFile);

  writeFileSync(second.pinFile, 'wrong-pin');
  const both = { quorum: { needed: 2 } };
  await t.rejects(site.open(both), { name: 'OperatorError', message: /CKR_PIN_INCORRECT/ });
  await t.rejects(site.open(both), { message: names });
  await t.rejects(site.open(both), { message: /pin_refused/ }, 'not tried again');
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

t.test('with a quorum of 2 of 3, one wrong PIN is tolerated, and two refuse the start', async (t) => {
  const site = await makeSite(t, 'ed25519', 'ed25519', 'ecdsa-p256');
  const lib = buildFaultyModule(t.testdirName);
  const tokens = site.tokens.map((token) => behindFaulty(token, lib));
  const { pinFile } = item(tokens, 0);
  const pin = readFileSync(pinFile);
  const open = () => site.open({ partitions: tokens, quorum: { needed: 2 } });
  const mend = () => {
    rmSync(pinFile, { force: true });
    writeFileSync(pinFile, pin, { mode: 0o600 });
  };
  for (const { what, code, breaks } of [
    { what: 'missing', code: 'pin_file_unreadable', breaks: () => rmSync(pinFile) },
    { what: 'exposed', code: 'pin_file_exposed', breaks: () => chmodSync(pinFile, 0o644) },
    { what: 'empty', code: 'pin_file_invalid', breaks: () => writeFileSync(pinFile, '') },
    { what: 'wrong', code: 'CKR_PIN_INCORRECT', breaks: () => writeFileSync(pinFile, 'wrong-pin') },
  ]) {
    breaks();
    const partitions = await open();
    t.ok(partitions.canSign(), what);
    t.strictSame(await signers(partitions), ['region-1', 'region-2'], what);
    // A child that is slow to start, on a busy machine, says so in between.
    await until(what, () => partitions.status()[0]?.lastError === code);
    t.match(site.log(), new RegExp(`"level":50[^\\n]*"code":"${code}"[^\\n]*"remedy":`), `${what}: an alarm`);
    mend();
    await allReady(partitions);
    t.strictSame(await signers(partitions), ['region-0', 'region-1', 'region-2'], 'by itself');
    await partitions.close();
  }
  t.equal(refusedLogins(item(tokens, 0)), 1, 'the wrong PIN was tried once');

  rmSync(pinFile);
  writeFileSync(item(tokens, 1).pinFile, 'wrong-pin');
  await t.rejects(open(), { message: /region-0.*pin_file_unreadable.*\n.*region-1.*CKR_PIN_INCORRECT/ });
});

t.test('a wrong PIN is tried once per token, however many keys are on it', async (t) => {
  const site = await makeSite(t, 'ed25519');
  const token = behindFaulty(item(site.tokens, 0), buildFaultyModule(t.testdirName));
  const names = ['log', 'log-2', 'log-3'];
  const [, ...others] = names;
  const more = await Promise.all(others.map((keyLabel) => initKey({ ...token, keyLabel }, 'ed25519')));
  const options = {
    partitions: names.map((keyLabel) => ({ ...token, keyLabel })),
    keys: [...site.keys, ...more],
  };
  const pin = readFileSync(token.pinFile);
  writeFileSync(token.pinFile, 'wrong-pin');
  const refusal = await site.open(options).then(String, String);
  const codes = Array.from(refusal.matchAll(/\((CKR_PIN_INCORRECT|pin_refused)\);/g), ([, code]) => code);
  t.strictSame(codes.sort(), ['CKR_PIN_INCORRECT', 'pin_refused', 'pin_refused']);
  t.equal(refusedLogins(token), 1);
  writeFileSync(token.pinFile, pin);
  const partitions = await site.open(options);
  t.strictSame(statesOf(partitions), ['ready', 'ready', 'ready']);
});

t.test('a mistyped name is answered with the existing ones', async (t) => {
  const site = await makeSite(t, 'ed25519');
  const token = item(site.tokens, 0);
  const { tokenLabel: _, ...unlabelled } = token;
  const away = { SOFTHSM2_CONF: `${token.pinFile}.none` };
  const hollow = `${token.pinFile}.conf`;
  writeFileSync(hollow, 'directories.tokendir = /nonexistent');
  for (const [what, wrong, message] of [
    ['label', { ...token, tokenLabel: 'volt-0' }, /there is "vault-0" \(serial [0-9a-f]{16}\)/],
    ['serial', { ...unlabelled, tokenSerial: '1' }, /there is "vault-0"/],
    [
      'its file',
      { ...token, environment: away },
      /SOFTHSM2_CONF names \S+\.none, which cannot be read \(no such file/,
    ],
    [
      'what that names',
      { ...token, environment: { SOFTHSM2_CONF: hollow } },
      /check the contents of \S+\.conf/,
    ],
    ['module', { ...token, module: '/nonexistent.so' }, /module \/nonexistent\.so/],
    ['PIN file', { ...token, pinFile: '/nonexistent/pin' }, /PIN file \/nonexistent\/pin \(no such file/],
    [
      'credential',
      { ...token, pinFile: '/nonexistent/pin', pinSource: '/etc/x.pins/eu (credential pin_eu)' },
      /PIN file \/etc\/x\.pins\/eu \(credential pin_eu\).*restarted/,
    ],
  ] as const) {
    await t.rejects(readKey(wrong), { name: 'OperatorError', message }, what);
  }
});

t.test('a key that is changed or lost meanwhile is not used until it is restored', async (t) => {
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

t.test('keys with which another process signs do not sign, until that one has ended', async (t) => {
  const site = await makeSite(t, 'ed25519', 'ed25519');
  const [own, spare] = [item(site.tokens, 0), item(site.tokens, 1)];
  const log = { origin: 'seal.example.com/test/2026', folder: t.testdirName, sessions: 2, isUnit: false };
  const asDaemon = { claims: true, duties: { log }, signTimeoutMs: 2_000 };
  const first = await site.open({ ...asDaemon, partitions: [own] });
  const second = await site.open({ ...asDaemon, quorum: { needed: 2 } });
  t.match(second.status(), [{ state: 'unavailable', lastError: 'signer_twice' }, { state: 'ready' }]);
  t.ok(second.areTaken(), 'though it was not asked to sign anything');
  t.notOk(first.areTaken());
  const enough = await site.open({
    ...asDaemon,
    partitions: [spare, own],
    duties: { log: { ...log, origin: 'x' } },
  });
  t.notOk(enough.areTaken(), 'each log has a record of its own');
  const next = await site.open({ ...asDaemon, partitions: [own], claims: false });
  t.strictSame(statesOf(next), ['ready'], 'keys of an epoch to come wait for their turn');

  await first.close();
  await second.recovered(NEVER);
  t.notOk(second.areTaken());
  t.match(site.log(), /"level":50[^\n]*signer_twice[^\n]*another daemon signs with these keys/, 'loud');
});

t.test('a contradictory configuration is refused before any token is asked', async (t) => {
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

t.test('neither the PIN nor the environment of the daemon is visible', async (t) => {
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
  await partitions.sign(CHECKPOINT).catch(() => {});
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

t.test('a module that refuses its parameters is reported, with the vendor’s number', async (t) => {
  const token = makeNssToken(t.testdir());
  const libraryParameters = token.libraryParameters.replace(/sql:[^']*/, 'sql:/nowhere');
  await t.rejects(inspectKey({ ...token, libraryParameters }), {
    message: /refuses to start with 0x[0-9a-f]+: check library_parameters: .* \(CKR_VENDOR_DEFINED\)/,
  });
});
