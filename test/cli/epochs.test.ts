import { X509Certificate } from 'node:crypto';
import { copyFileSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { sha256Of } from '../../src/asn1/x509Names.ts';
import { hsmCommand } from '../../src/cli/hsm/hsmCommand.ts';
import { epochsCommand } from '../../src/cli/store/epochsCommand.ts';
import { keyMaker } from '../../src/cli/store/keyMaker.ts';
import { keysForEpoch } from '../../src/kms/epochKeys.ts';
import { readKey } from '../../src/kms/keyOperations.ts';
import type { LogKey } from '../../src/log/verifierKey.ts';
import { parseTrust } from '../../src/manifest/trustFile.ts';
import { openStore } from '../../src/store/lmdb/open.ts';
import { retiredDir } from '../../src/tsa/installed.ts';
import { makeAuthority } from '../support/certificates.ts';
import { item } from '../support/partitions.ts';
import { openSandbox, type Sandbox, type SandboxOptions } from '../support/sandbox.ts';
import { firstEpoch, makeKey } from '../support/sealing.ts';
import { destroyKey, editToken, findObjects, takeToken } from '../support/tamper.ts';

const HOUR_MS = 3_600_000;

async function open(t: Test, options: SandboxOptions = {}): Promise<Sandbox> {
  const sandbox = await openSandbox(options);
  t.teardown(() => sandbox.close());
  return sandbox;
}

function run(sandbox: Sandbox, ...args: string[]) {
  const [group = '', command = '', ...more] = args;
  return sandbox.pdfseal([group, command, ...more, '--config', sandbox.configFile]);
}

function inHours(hours: number): string {
  return new Date(Math.floor((Date.now() + hours * HOUR_MS) / 1000) * 1000).toISOString().replace('.000', '');
}

async function epochs(sandbox: Sandbox): Promise<Record<string, unknown>[]> {
  const { stdout } = await run(sandbox, 'epochs', 'list', '--json');
  return stdout
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
}

function configure(sandbox: Sandbox, edit: (text: string) => string): void {
  writeFileSync(sandbox.configFile, edit(readFileSync(sandbox.configFile, 'utf8')));
}

t.test('a plan makes new keys, lists them, and puts them into the trust file ahead of time', async (t) => {
  const sandbox = await open(t, { regions: ['eu', 'us'] });
  const [eu, us] = [item(sandbox.partitions, 0), item(sandbox.partitions, 1)];
  t.match(await epochs(sandbox), [{ epoch: 1, state: 'in force', quorum: 1, timestamps: 'none' }]);

  const from = inHours(1);
  const planned = await run(sandbox, 'epochs', 'plan', '--from', from);
  t.equal(planned.status, 0, planned.stderr);
  t.match(
    planned.stdout,
    /eu\/sandbox-2026-e2 +ed25519 +made\n.*us\/sandbox-2026-e2 .*made\n.*epoch +2 +planned from/s,
  );
  t.match(planned.stderr, /give verifiers the new trust file/);
  const keys = await Promise.all([eu, us].map((token) => readKey({ ...token, keyLabel: 'sandbox-2026-e2' })));
  const at = from.replace('Z', '.000Z');
  t.match(await epochs(sandbox), [
    { epoch: 1, state: 'in force', until: at },
    { epoch: 2, state: 'planned', from: at, keys: [{ region: 'eu', key_label: 'sandbox-2026-e2' }, {}] },
  ]);
  t.match(parseTrust(readFileSync(sandbox.trustFile, 'utf8')), {
    logs: [{ epochs: [{ notAfter: Date.parse(from) - 1 }, { notBefore: Date.parse(from), keys }] }],
  });
  const list = await run(sandbox, 'hsm', 'list', '--json');
  t.equal(list.stdout.match(/"state":"ready"/g)?.length, 4, 'keys in force and planned');

  await refuses(
    t,
    sandbox,
    ['epochs', 'plan'],
    /an epoch is already planned from .* on: wait until it begins, or cancel it/,
  );
  for (const label of ['sandbox-2026', 'sandbox-2026-e2']) {
    const args = ['hsm', 'destroy-key', `eu/${label}`, '--confirm', label];
    await refuses(t, sandbox, args, /signs the log in the epoch in force or in the planned one/);
  }

  const cancelled = await run(sandbox, 'epochs', 'cancel');
  t.match(cancelled, { status: 0, stdout: /^cancelled/, stderr: /hsm destroy-key eu\/sandbox-2026-e2/ });
  t.match(await epochs(sandbox), [{ state: 'in force', until: undefined }]);
  t.match(parseTrust(readFileSync(sandbox.trustFile, 'utf8')), { logs: [{ epochs: { length: 1 } }] });
  await refuses(t, sandbox, ['epochs', 'cancel'], /no epoch is planned/);

  const again = ['epochs', 'plan', '--from', from];
  await refuses(t, sandbox, again, /a key eu\/sandbox-2026-e2 already exists; .* --use-existing-keys/);
  const misnamed = ['hsm', 'destroy-key', 'us/sandbox-2026-e2', '--confirm', 'sandbox-2026'];
  await refuses(t, sandbox, misnamed, /is not the label of us\/sandbox-2026-e2; nothing was done/);
  const destroyed = await run(
    sandbox,
    'hsm',
    'destroy-key',
    'us/sandbox-2026-e2',
    '--confirm',
    'sandbox-2026-e2',
  );
  t.match(destroyed, { status: 0, stdout: /us\/sandbox-2026-e2 +ed25519 +destroyed/ });
  editToken(us, (module, session) => {
    t.strictSame(findObjects(module, session, 'sandbox-2026-e2'), [], 'nothing of it is left');
  });
  const taken = await run(sandbox, 'epochs', 'plan', '--from', from, '--use-existing-keys');
  t.match(taken, { status: 0, stdout: /eu\/sandbox-2026-e2 .*found\n.*us\/sandbox-2026-e2 .*made/s });
});

t.test(
  'newly trusted roots are named, a stranger is refused, and a trust file that cannot be written is reported',
  async (t) => {
    const sandbox = await open(t);
    const retired = retiredDir(join(sandbox.dir, 'state', 'certificates'));
    mkdirSync(retired, { recursive: true });
    const { certificateFile } = makeAuthority(sandbox.dir, 'stranger');
    copyFileSync(certificateFile, join(retired, 'stranger.pem'));
    const refused = await run(sandbox, 'epochs', 'plan', '--new-keys', 'none');
    t.match(refused, {
      status: 1,
      stderr: /which no epoch and no audit record names\n.*install-certificate/,
    });
    rmSync(retired, { recursive: true });
    configure(sandbox, (text) => `${text}\n[timestamp.remotes.acme]\nroots_file = "${certificateFile}"\n`);
    rmSync(sandbox.trustFile);
    mkdirSync(sandbox.trustFile);
    const planned = await run(sandbox, 'epochs', 'plan');
    const digest = sha256Of(new X509Certificate(readFileSync(certificateFile)));
    t.match(planned.stdout, new RegExp(`^root +acme ${digest} +trusted from this epoch on$`, 'm'));
    t.match(planned, {
      status: 1,
      stderr: /epochs are changed, but not the trust file.*pdfseal trust export/,
    });
    t.match(await epochs(sandbox), [{ state: 'in force' }, { state: 'planned' }]);
  },
);

/** Runs a command that is expected to refuse, in this process. */
function refuses(t: Test, sandbox: Sandbox, command: string[], message: RegExp): Promise<unknown> {
  const [group = '', ...args] = command;
  const program = group === 'epochs' ? epochsCommand() : hsmCommand();
  for (const each of [program, ...program.commands])
    each.exitOverride().configureOutput({ writeErr: () => {} });
  const parsed = program.parseAsync([...args, '--config', sandbox.configFile], { from: 'user' });
  return t.rejects(parsed, { message }, command.join(' '));
}

t.test('a changed quorum or partition in the config file needs an epoch, and kept keys stay', async (t) => {
  const sandbox = await open(t, { regions: ['eu', 'us', 'ap'] });
  const original = readFileSync(sandbox.configFile, 'utf8');
  const without = (region: string) => (text: string) =>
    text.replace(new RegExp(`\\[\\[kms\\.partitions\\]\\]\\nregion = "${region}"\\n(\\w.*\\n)*`), '');

  configure(sandbox, (text) => text.replace('[kms]', '[kms]\nquorum = "2 of eu, us"'));
  const refused = await sandbox.pdfseald();
  t.equal(refused.status, 1);
  t.match(
    refused.stderr,
    /kms\.quorum: 2 of eu, us, in this epoch 1\n.*put it back, or plan an epoch with it: pdfseal epochs plan/s,
  );
  const planned = await run(sandbox, 'epochs', 'plan', '--from', inHours(1), '--new-keys', 'none');
  t.match(planned, { status: 0, stdout: /eu\/sandbox-2026 .*kept\n.*quorum 2 of eu, us/s });
  const daemon = await sandbox.start();
  t.equal(await daemon.stop(), 0, 'a configuration that is planned is good');
  await run(sandbox, 'epochs', 'cancel');

  writeFileSync(sandbox.configFile, original);
  await refuses(t, sandbox, ['epochs', 'plan', '--new-keys', 'none'], /nothing would change/);
  configure(sandbox, without('us'));
  const which = ['--new-keys', 'ap/sandbox-2026', '--suffix', 'b'];
  const fewer = await run(sandbox, 'epochs', 'plan', '--from', inHours(1), ...which);
  t.match(fewer, { status: 0, stdout: /eu\/sandbox-2026 .*kept\n.*ap\/sandbox-2026-b .*made/s });
  t.match((await epochs(sandbox))[1], {
    keys: [{ region: 'eu' }, { key_label: 'sandbox-2026-b', partition: 'sandbox-2026' }],
  });
});

t.test('an epoch that begins before the log’s last checkpoint cannot be cancelled', async (t) => {
  const sandbox = await open(t);
  t.equal((await run(sandbox, 'epochs', 'plan', '--from', inHours(1))).status, 0);
  const store = await openStore({ path: join(sandbox.dir, 'state', 'store') });
  const { revision } = await store.epochs.newest();
  const sealedAt = Date.now() + 2 * HOUR_MS;
  const batch = { firstLeaf: 0, treeSize: 1, sealedAt, checkpoint: '', algorithm: 'Ed25519', kmsKeyId: 'x' };
  t.ok(await store.log.announce({ ...batch, epochsRevision: revision, jobIds: [] }));
  await store.close();
  await refuses(
    t,
    sandbox,
    ['epochs', 'cancel'],
    /the log has a checkpoint of \S+ already: you can plan or cancel only an epoch that begins later/,
  );
});

t.test('a plan with a wrong date, partition, suffix or key is refused', async (t) => {
  const sandbox = await open(t);
  const partition = item(sandbox.partitions, 0);
  const refused = (message: RegExp, ...args: string[]) =>
    refuses(t, sandbox, ['epochs', 'plan', ...args], message);
  await refused(/too soon or in the past/, '--from', '2026-01-01');
  await refused(/Expected a date/, '--from', '2027-02-30');
  await refused(/Expected a date/, '--from', '2027-01-01T00:00:00');
  await refused(/no such partition; it has local\/sandbox-2026/, '--new-keys', 'moon/sandbox-2026');
  await refused(/Expected at most 32 letters/, '--suffix', '../x');
  const giveBack = takeToken(partition);
  await refused(/token_not_found/, '--from', inHours(1));
  const settings = readFileSync(sandbox.configFile, 'utf8');
  configure(sandbox, (text) =>
    text.replace('[[kms.partitions]]\n', '[[kms.partitions]]\nalgorithm = "ecdsa-p256"\n'),
  );
  await refused(
    /algorithm is ecdsa-p256, in this epoch ed25519: correct the config file, or give this partition a new key/,
    '--new-keys',
    'none',
  );
  configure(sandbox, () => settings);
  giveBack();
  destroyKey(partition);
  const wanted = ['--from', inHours(1), '--algorithm', 'ecdsa-p256'];
  await refused(
    /local\/sandbox-2026 is missing on its token.*--new-keys local\/sandbox-2026/,
    '--new-keys',
    'none',
  );
  const replaced = await run(sandbox, 'epochs', 'plan', ...wanted);
  t.match(replaced, { status: 0, stdout: /ecdsa-p256 +made/ }, 'a lost key is replaced by a new epoch');
});

t.test('a key in a file is not accepted for one in an HSM, nor the reverse', async (t) => {
  const { privateKey: _, ...key } = makeKey('mldsa44', 'eu');
  const files = { pinFile: '/nowhere', refusedPins: '/nowhere' };
  const inFile = { region: 'eu', keyLabel: key.keyLabel, algorithm: key.algorithm, ...files };
  const inHsm = { ...inFile, module: '/nowhere.so', tokenLabel: 'none' };
  const plan = (token: typeof inFile, change: Partial<LogKey>) => {
    const inForce = firstEpoch([{ ...key, ...change }]);
    const trail = { append: () => t.fail('no key is made') } as never;
    return keysForEpoch([token], [inForce], inForce, {
      newKeys: 'none',
      suffix: 'e2',
      ...keyMaker(trail),
      tell: () => {},
    });
  };
  await t.rejects(plan(inHsm, { software: true }), {
    message: /^eu\/log is in an HSM, but the key that the log knows was in a file: create a new key/,
  });
  await t.rejects(plan(inFile, {}), { message: /^eu\/log is in a file, but .* was in an HSM/ });
  t.match(await plan(inFile, { software: true }), [{ spki: key.spki, software: true }], 'it stays');
});
