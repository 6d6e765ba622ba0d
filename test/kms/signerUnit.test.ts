/** The unit of a signer, and at its socket a daemon in wrong hands. */

import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { encodeQuery, encodeTstInfo, parseQuery } from '../../src/asn1/timestampQuery.ts';
import { fromBase64, toBase64 } from '../../src/base/bytes.ts';
import { Companion } from '../../src/base/companion.ts';
import { encodeFrame, readFrames } from '../../src/base/frames.ts';
import { findExisting } from '../../src/kms/epochKeys.ts';
import { heldTrees } from '../../src/kms/heldTrees.ts';
import { verifierOf } from '../../src/kms/keyAlgorithm.ts';
import { initKey, readKey } from '../../src/kms/keyOperations.ts';
import { openPartitions, type PartitionOptions } from '../../src/kms/partitions.ts';
import { type SignerReply, type SignerRequest, type Step, tokenName } from '../../src/kms/protocol.ts';
import { encodeCheckpoint } from '../../src/log/checkpoint.ts';
import type { LogKey } from '../../src/log/verifierKey.ts';
import { IMPRINT, makePki, SILENT } from '../support/authority.ts';
import { ENVIRONMENT } from '../support/daemon.ts';
import { behindFaulty, buildFaultyModule, logins, setFault } from '../support/faults.ts';
import { FORK_AT, History } from '../support/history.ts';
import { allReady, makeTokenWithKey, statesOf } from '../support/partitions.ts';
import { startUnit, type Unit } from '../support/unit.ts';
import { until } from '../support/until.ts';

const PROGRAM = fileURLToPath(new URL('../../src/main/signerUnit.ts', import.meta.url));
const ORIGIN = 'seal.example.com/production/2026';
const POLICY = '1.3.6.1.4.1.99999.7';
const [log, fork] = [new History('of the log'), new History('of the fork')];

interface Site {
  token: PartitionOptions;
  key: LogKey;
  /** Starts the unit as it is started after a boot: what it keeps on disk is there. */
  start(): Promise<Unit>;
  /** With what it keeps. */
  state: string;
  /** Gives it another PIN file, from its next start on. */
  writePin(pin: string): void;
}

/** Makes the key of the next epoch. */
async function initNext({ token }: Site): Promise<void> {
  await initKey({ ...token, keyLabel: 'next' }, 'ecdsa-p256');
}

async function makeSite(t: Test, module?: string): Promise<Site> {
  const dir = mkdtempSync(join(tmpdir(), 'signer-'));
  t.teardown(() => rmSync(dir, { recursive: true, force: true }));
  const names = { label: 'vault', region: 'eu-west', keyLabel: 'log' };
  const { token: plain, key } = await makeTokenWithKey(dir, names, 'ecdsa-p256');
  const token = module === undefined ? plain : behindFaulty(plain, module);
  const [credentials, state] = [t.testdir({ credentials: {}, state: {} }), join(t.testdirName, 'state')].map(
    (folder, n) => (n === 0 ? join(folder, 'credentials') : folder),
  ) as [string, string];
  const table = `region = "eu-west"
module = "${token.module}"
token_label = "vault"
key_label = "log"
pin_credential = "pin_west"
environment = { ${Object.entries(token.environment ?? {}).map(([name, value]) => `${name} = "${value}"`)} }`;
  const writePin = (pin: string) => writeFileSync(join(credentials, 'pin'), pin, { mode: 0o600 });
  writeFileSync(
    join(credentials, 'config'),
    `environment = "production"
state_dir = "/var/lib/pdfseal/production"
[http]
listen = "127.0.0.1:8400"
[log]
origin = "${ORIGIN}"
[kms]
sessions = 2
[[kms.partitions]]
${table}
[timestamp]
authorities = ["built-in"]
policy = "${POLICY}"
[[timestamp.keys]]
${table}
`,
  );
  writePin(readFileSync(token.pinFile, 'utf8'));
  const env = { ...ENVIRONMENT, CREDENTIALS_DIRECTORY: credentials, STATE_DIRECTORY: state };
  return { token, key, state, writePin, start: () => startUnit(t, [PROGRAM, 'production/west'], env) };
}

/** A daemon that says what it likes. */
class Hostile {
  readonly companion: Companion;
  readonly #waiting = new Map<number, (reply: SignerReply) => void>();
  readonly #token: PartitionOptions;
  #id = 0;

  constructor({ socket }: Unit, token: PartitionOptions) {
    this.#token = token;
    this.companion = Companion.reach(socket);
    readFrames(this.companion.stream, 100_000, (reply) => {
      const { id } = reply as SignerReply;
      this.#waiting.get(id)?.(reply as SignerReply);
    });
  }

  /** The answer; or the code of the failure. */
  async ask(request: SignerRequest | Record<string, unknown>): Promise<unknown> {
    const id = this.#id++;
    const { promise, resolve, reject } = Promise.withResolvers<SignerReply>();
    this.#waiting.set(id, resolve);
    void this.companion.gone.then((reason) => reject(new Error(reason)));
    this.companion.stream.write(encodeFrame({ timeoutMs: 60_000, ...request, id }));
    const reply = await promise;
    return 'failure' in reply ? reply.failure.code : reply.answer;
  }

  connect(changed: object = {}): Promise<unknown> {
    const token = tokenName(this.#token);
    return this.ask({ kind: 'connect', token, keyLabel: 'log', access: 'read', sessions: 2, ...changed });
  }

  /** A signature of the log's key, or why there is none. */
  async sign(history: History, from: number, to: number, changed: object = {}): Promise<unknown> {
    const step: Step = await history.step(from, to);
    const { size, root } = await history.tree(to);
    const text = encodeCheckpoint({
      origin: ORIGIN,
      treeSize: size,
      root: fromBase64(root) ?? new Uint8Array(),
    });
    return this.ask({ kind: 'signCheckpoint', text, time: 0, step, ...changed });
  }

  async open(keyLabel = 'log'): Promise<void> {
    await this.connect({ keyLabel });
    await this.ask({ kind: 'logIn' });
    await this.ask({ kind: 'findKey' });
  }
}

const isSigned = (answer: unknown) => typeof (answer as { signature?: unknown }).signature === 'string';

t.test('a hostile daemon can have only the next checkpoint signed', async (t) => {
  const site = await makeSite(t);
  const unit = await site.start();
  const daemon = new Hostile(unit, site.token);
  const elsewhere: [what: string, changed: object, code: string][] = [
    ['another module', { token: { ...tokenName(site.token), module: '/tmp/evil.so' } }, 'token_not_allowed'],
    ['another token', { token: { ...tokenName(site.token), tokenLabel: 'other' } }, 'token_not_allowed'],
    ['a token of its choice', { token: {} }, 'token_not_allowed'],
    ['to make keys', { access: 'write' }, 'signing_refused'],
  ];
  for (const [what, changed, code] of elsewhere) t.equal(await daemon.connect(changed), code, what);
  t.equal(await daemon.sign(log, 0, 1), 'signer_error', 'a signature before the log-in');
  await daemon.open();
  t.equal(await daemon.ask({ kind: 'signBytes', message: 'AAAA' }), 'signing_refused', 'any bytes');
  t.equal(await daemon.ask({ kind: 'generateKey', algorithm: 'ed25519' }), 'signing_refused');
  t.equal(await daemon.ask({ kind: 'destroyKey' }), 'signing_refused');

  t.ok(isSigned(await daemon.sign(log, 10, 25)), 'the first is believed');
  t.ok(isSigned(await daemon.sign(log, 25, 30)));
  t.ok(isSigned(await daemon.sign(log, 30, 35)));
  t.equal(await daemon.sign(fork, 30, 36), 'tree_unknown', 'a fork');
  t.equal(await daemon.sign(fork, FORK_AT, 36), 'tree_unknown', 'a fork from before');
  t.equal(await daemon.sign(log, 10, 20), 'tree_unknown', 'an older size');
  t.equal(await daemon.sign(log, 35, 36, { step: undefined }), 'signing_refused', 'no proof');
  t.equal(await daemon.sign(log, 35, 36, { step: await log.step(35, 37) }), 'tree_inconsistent');
  const text = (origin: string, more = '') =>
    `${origin}\n36\n${Buffer.alloc(32).toString('base64')}\n${more}`;
  for (const other of [
    text('seal.example.com/sandbox/2026'),
    text(ORIGIN, 'extension\n'),
    'no checkpoint',
    '',
  ])
    t.equal(await daemon.sign(log, 35, 36, { text: other }), 'signing_refused');
  for (const request of [
    { kind: 'sign' },
    { kind: 'connect', token: null },
    { kind: 'signCheckpoint', text: 1 },
  ]) {
    const other = new Hostile(unit, site.token);
    await t.rejects(other.ask(request), /closed the connection/, 'what is no request ends the connection');
  }
  t.notMatch(unit.errors(), readFileSync(site.token.pinFile, 'utf8').trim());
});

t.test('the unit stamps the present time under its own policy', async (t) => {
  const site = await makeSite(t);
  const daemon = new Hostile(await site.start(), site.token);
  await daemon.open();
  const { certificate } = await makePki();
  const { imprintDer } = parseQuery(encodeQuery({ imprint: IMPRINT, certReq: true }));
  const stamp = (changed: { genTime?: number; policy?: string; accuracyMs?: number } = {}) => {
    const info = {
      policy: POLICY,
      genTime: Date.now(),
      accuracyMs: 1000,
      serial: Buffer.of(1),
      imprintDer,
      ...changed,
    };
    const content = toBase64(encodeTstInfo(info));
    return daemon.ask({
      kind: 'signToken',
      content,
      certificate: toBase64(certificate.der),
    });
  };
  t.ok(isSigned(await stamp()));
  t.equal(await stamp({ genTime: Date.now() - 60_000 }), 'time_refused', 'back-dated');
  t.equal(await stamp({ genTime: Date.now() + 60_000 }), 'time_refused', 'post-dated');
  t.equal(await stamp({ policy: '1.3.6.1.4.1.99999.8' }), 'signing_refused');
  t.equal(await stamp({ accuracyMs: 1 }), 'signing_refused', 'an accuracy that it does not have');
  t.equal(await daemon.ask({ kind: 'signToken', content: 'AAAA', certificate: 'AAAA' }), 'signing_refused');
});

t.test('the record of signed trees survives the unit, and one process at a time has the key', async (t) => {
  const site = await makeSite(t);
  await initNext(site);
  const unit = await site.start();
  const daemon = new Hostile(unit, site.token);
  await daemon.open();
  for (const [from, to] of [
    [10, 25],
    [25, 30],
    [30, 35],
  ] as const)
    t.ok(isSigned(await daemon.sign(log, from, to)));
  const asked = { ...site.token, signer: unit.socket };
  const held = await heldTrees(asked, { origin: ORIGIN, folder: '/nowhere', spki: site.key.spki });
  t.strictSame(
    held,
    await Promise.all([25, 30, 35].map((size) => log.tree(size))),
    'a check is told meanwhile',
  );
  const second = new Hostile(unit, site.token);
  await second.open();
  const impatient = { timeoutMs: 10_000 };
  t.equal(await second.sign(log, 35, 36, impatient), 'signer_twice');
  second.companion.kill();
  t.equal((await daemon.ask({ kind: 'close' })) ?? 'closed', 'closed');
  const other = new Hostile(unit, { ...site.token, keyLabel: 'next' });
  await other.open('next');
  t.equal(await other.sign(fork, 0, 40), 'tree_unknown', 'nor does the key of the next epoch sign a fork');
  t.equal(await other.sign(fork, 30, 40), 'tree_unknown');
  unit.process.kill('SIGKILL');
  await other.companion.gone;
  const after = new Hostile(await site.start(), site.token);
  await after.open();
  t.equal(await after.sign(fork, 30, 36), 'tree_unknown');
  t.equal(await after.sign(log, 10, 20), 'tree_unknown');
  const signed = await after.sign(log, 35, 36);
  const { root } = await log.tree(36);
  const signature = Buffer.from((signed as { signature: string }).signature, 'base64');
  t.ok(verifierOf(site.key)(Buffer.from(`${ORIGIN}\n36\n${root}\n`), signature));
  t.equal(readdirSync(site.state).filter((name) => name.endsWith('.trees')).length, 1);
});

/** The daemon's end of a unit, which believes that the log is this one. */
async function openUnit(t: Test, site: Site, unit: Unit, refused: string[] = []) {
  const partitions = await openPartitions({
    partitions: [{ ...site.token, pinFile: '/nowhere', signer: unit.socket }],
    keys: [site.key],
    quorum: { needed: 1 },
    duties: {},
    sessions: 2,
    signTimeoutMs: 60_000,
    onRefused: ({ region, keyLabel }, code) => void refused.push(`${region}/${keyLabel} ${code}`),
    logger: SILENT,
  });
  t.teardown(() => partitions.close());
  await allReady(partitions);
  const sign = async (from: number, to: number, history = log) => {
    const { size, root } = await history.tree(to);
    const text = encodeCheckpoint({
      origin: ORIGIN,
      treeSize: size,
      root: fromBase64(root) ?? new Uint8Array(),
    });
    const step = await history.step(from, to, false);
    const growth = {
      step: () => step,
      stepFrom: async (trees: readonly { size: number }[]) =>
        history.step(trees.at(-1)?.size ?? from, to, trees.length === 0),
    };
    return (await partitions.sign(text, growth)).length;
  };
  return { partitions, sign };
}

t.test('a partition whose signer is a unit signs, and signs again after the unit was killed', async (t) => {
  const site = await makeSite(t);
  const unit = await site.start();
  const { partitions, sign } = await openUnit(t, site, unit);
  t.equal(await sign(1, 2), 1);
  t.equal(await sign(5, 9), 1, 'it has not seen what it leads from, and is shown where it stands');
  unit.process.kill('SIGKILL');
  await until('it is lost', () => statesOf(partitions)[0] === 'unavailable');
});

t.test('abandoned trees and refusals are counted', async (t) => {
  const site = await makeSite(t);
  const refused: string[] = [];
  const { partitions, sign } = await openUnit(t, site, await site.start(), refused);
  for (const [from, to] of [
    [10, 25],
    [25, 30],
    [25, 32],
    [32, 35],
  ] as const)
    t.equal(await sign(from, to), 1);
  t.match(partitions.status(), [{ signatures: 4, treesGivenUp: 1, refusals: 0 }]);
  await t.rejects(sign(35, 40, fork), { code: 'kms_partition_unavailable' });
  await until('the refusal is counted', () => partitions.status()[0]?.refusals === 1);
  t.match(partitions.status(), [{ signatures: 4, treesGivenUp: 1, lastError: 'tree_unknown' }]);
  t.strictSame(refused, ['eu-west/log tree_unknown']);
});

t.test('a damaged record of signed trees is reported each time, and never guessed', async (t) => {
  const site = await makeSite(t);
  const unit = await site.start();
  const daemon = new Hostile(unit, site.token);
  await daemon.open();
  t.ok(isSigned(await daemon.sign(log, 1, 2)));
  const [name = ''] = readdirSync(site.state).filter((each) => each.endsWith('.trees'));
  unit.process.kill('SIGKILL');
  await daemon.companion.gone;
  writeFileSync(join(site.state, name), 'half');
  const after = new Hostile(await site.start(), site.token);
  await after.open();
  for (let n = 0; n < 2; n++) t.equal(await after.sign(log, 2, 3), 'tree_file_damaged');
});

t.test('planning an epoch finds a key of the unit, and makes none', async (t) => {
  const site = await makeSite(t);
  await initNext(site);
  const { socket } = await site.start();
  const at = (keyLabel: string) => ({ ...site.token, keyLabel, signer: socket });
  t.match(await findExisting(at('next'), undefined), { keyLabel: 'next', algorithm: 'ecdsa-p256' });
  t.equal(await findExisting(at('none'), undefined), undefined);
  await t.rejects(initKey(at('other'), 'ecdsa-p256'), { message: /does not create or destroy keys/ });
});

t.test('a wrong PIN is presented once, whatever a daemon in wrong hands asks', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'faulty-'));
  t.teardown(() => rmSync(folder, { recursive: true }));
  const site = await makeSite(t, buildFaultyModule(folder));
  const { token } = site;
  const tried = logins(token);
  site.writePin('wrong-pin');
  // The token takes its time, and the daemon has none.
  setFault(token, { delayed: 'C_Login', ms: 1500 });
  const unit = await site.start();
  const ask = async (changed: object = {}) => {
    const daemon = new Hostile(unit, token);
    try {
      await daemon.connect();
      return await daemon.ask({ kind: 'logIn', ...changed });
    } catch (error) {
      return String(error);
    } finally {
      daemon.companion.kill();
    }
  };
  t.equal(await ask({ timeoutMs: 1 }), 'CKR_PIN_INCORRECT', 'no haste has the refusal forgotten');
  setFault(token, undefined);
  const outcomes = await Promise.all(Array.from({ length: 6 }, () => ask()));
  t.strictSame(
    [...new Set(outcomes)].filter((one) => one !== 'pin_refused' && !/closed/.test(String(one))),
    [],
  );
  t.equal(logins(token), tried + 1);
  const [status] =
    unit.process.exitCode === null ? await once(unit.process, 'exit') : [unit.process.exitCode];
  t.equal(status, 0, 'with its last signer it ends, so that it gets the file anew');

  const second = await site.start();
  const after = new Hostile(second, token);
  await after.connect();
  t.equal(await after.ask({ kind: 'logIn' }), 'pin_refused', 'nor has another start');
  second.process.kill('SIGKILL');
  await after.companion.gone;
  for (const [pin, code] of [
    ['wrong-pin\n4321', 'pin_file_invalid'],
    ['', 'pin_file_invalid'],
    ['\n', 'pin_file_invalid'],
    ['wrong-pin\n', 'pin_refused'],
  ] as const) {
    site.writePin(pin);
    const daemon = new Hostile(await site.start(), token);
    await daemon.connect();
    t.equal(await daemon.ask({ kind: 'logIn' }), code, JSON.stringify(pin));
  }
  t.equal(logins(token), tried + 1);
  site.writePin(readFileSync(token.pinFile, 'utf8'));
  const { partitions, sign } = await openUnit(t, site, await site.start());
  t.equal(await sign(1, 2), 1, 'the corrected PIN is presented');
  t.match(statesOf(partitions), ['ready']);
});

t.test('a daemon that was started too early gets the corrected PIN of a unit by itself', async (t) => {
  const site = await makeSite(t);
  const right = readFileSync(site.token.pinFile, 'utf8');
  site.writePin('wrong-pin');
  const unit = await site.start();
  await t.rejects(readKey({ ...site.token, signer: unit.socket }), {
    message: /\/etc\/pdfseal\/signers\/production\/west\/pin.*CKR_PIN_INCORRECT/,
  });
  const refusal = await readKey({ ...site.token, signer: unit.socket }).catch(String);
  t.notMatch(refusal, /once it is restarted/, 'no restart is needed');
  if (unit.process.exitCode === null) await once(unit.process, 'exit');
  site.writePin(right);
  const again = await site.start();
  t.match(await readKey({ ...site.token, signer: again.socket }), { spki: site.key.spki });
});
