import { readFileSync, writeFileSync } from 'node:fs';
import pkcs11 from 'pkcs11js';
import t, { type Test } from 'tap';
import { EC_PARAMS } from '../../src/kms/encoding.ts';
import { initKey, readKey, useKey } from '../../src/kms/keyOperations.ts';
import { item } from '../support/partitions.ts';
import { openSandbox, type Sandbox, type SandboxOptions } from '../support/sandbox.ts';
import { destroyKey, editToken } from '../support/tamper.ts';

t.test('init-key: makes only keys of the config file, and never replaces one', async (t) => {
  const sandbox = await open(t, { regions: ['eu-west', 'eu-north'] });
  const [west, north] = [item(sandbox.partitions, 0), item(sandbox.partitions, 1)];
  await initKey(west, 'ed25519');
  const initKeyOf = (...args: string[]) => hsm(sandbox, 'init-key', ...args);

  for (const [args, stderr] of [
    [
      [],
      /several keys match.*eu-west\/sandbox-2026 \(log\), eu-north\/sandbox-2026 \(log\), eu-west\/timestamp/,
    ],
    [['--region', 'eu-south'], /no such key.*--region and --key-label/],
    [
      ['--key-label', 'timestamp-2026', '--algorithm', 'ed25519'],
      /time-stamp key must be ecdsa-p256 or ecdsa-p384 or rsa-2048 or rsa-3072 or rsa-4096/,
    ],
    [['--region', 'eu-north', '--algorithm', 'rsa-3072'], /log key must be ed25519 or ecdsa-p256/],
    [['--region', 'eu-west', '--key-label', 'sandbox-2026'], /key_exists/],
  ] as const) {
    t.match(await initKeyOf(...args), { status: 1, stdout: '', stderr }, args.join(' '));
  }

  const log = await initKeyOf('--region', 'eu-north', '--algorithm', 'ecdsa-p256');
  t.match(log, { status: 0, stdout: 'key    eu-north/sandbox-2026  ecdsa-p256  made\n', stderr: '' });
  t.match(await readKey(north), { algorithm: 'ecdsa-p256' });
  const stamp = await initKeyOf('--key-label', 'timestamp-2026', '--json');
  const report = {
    purpose: 'time-stamp',
    region: 'eu-west',
    key_label: 'timestamp-2026',
    algorithm: 'ecdsa-p256',
  };
  t.strictSame(JSON.parse(stamp.stdout), report);
  t.match(stamp.stderr, /Next: .*hsm csr/);
  t.ok(await useKey({ ...west, keyLabel: 'timestamp-2026' }, async () => true));

  await sandbox.init('--use-existing-keys');
  destroyKey(north);
  const lost = await initKeyOf('--region', 'eu-north');
  t.match(lost, { status: 1, stderr: /the log already has a key eu-north\/sandbox-2026: restore that key/ });
});

t.test('list: shows each key, whether it signs, and whether it can leave the token', async (t) => {
  const sandbox = await open(t, {
    regions: ['eu-west', 'eu-north'],
    quorum: 2,
  });
  await sandbox.init();
  t.equal((await hsm(sandbox, 'list')).status, 0);

  const [west, north] = [item(sandbox.partitions, 0), item(sandbox.partitions, 1)];
  destroyKey(north);
  destroyKey({ ...west, keyLabel: 'timestamp-2026' });
  makeExtractable({ ...west, keyLabel: 'timestamp-2026' });
  const { status, stdout, stderr } = await hsm(sandbox, 'list');
  t.equal(status, 1);
  t.match(
    stdout,
    new RegExp(
      [
        '^PURPOSE +KEY +ALGORITHM +STATE +PROTECTION',
        'log +eu-west/sandbox-2026 +ed25519 +ready +created in the token, cannot leave it',
        'log +eu-north/sandbox-2026 +missing',
        'time-stamp +eu-west/timestamp-2026 +ecdsa-p256 +exposed +CKA_SENSITIVE = false, CKA_EXTRACTABLE = true',
        'root +eu-west/timestamp-2026-root +ecdsa-p256 +ready +created in the token, cannot leave it\n$',
      ].join('\n'),
    ),
  );
  t.match(
    stderr,
    /eu-north .*key_not_found.*hsm init-key\n.*eu-west\/timestamp-2026: the private key can leave its token/,
  );

  const pin = readFileSync(west.pinFile);
  writeFileSync(west.pinFile, 'wrong-pin');
  const refused = (await hsm(sandbox, 'list', '--json')).stdout
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
  t.match(refused, [
    { purpose: 'log', region: 'eu-west', state: 'CKR_PIN_INCORRECT', detail: /the token refused the PIN/ },
    { state: 'missing' },
    {
      region: 'eu-west',
      key_label: 'timestamp-2026',
      state: 'pin_refused',
      detail: /before \(CKR_PIN_INCORRECT\), and it is not presented again/,
    },
    { purpose: 'root', state: 'pin_refused' },
  ]);
  t.match(await hsm(sandbox, 'retry-pin', '--json'), {
    status: 0,
    stdout: /^\{"forgotten":\["eu-west\/\S+"\]\}$/m,
  });
  t.match(await hsm(sandbox, 'retry-pin'), { status: 0, stdout: /no refused PIN is remembered/ });
  writeFileSync(west.pinFile, pin);
});

async function open(t: Test, options: SandboxOptions = {}): Promise<Sandbox> {
  const sandbox = await openSandbox({ ...options, stamped: true, init: false });
  t.teardown(() => sandbox.close());
  return sandbox;
}

function hsm(sandbox: Sandbox, command: string, ...args: string[]) {
  return sandbox.pdfseal(['hsm', command, '--config', sandbox.configFile, ...args]);
}

/** A key as it should not be. */
function makeExtractable(token: Sandbox['partitions'][number]): void {
  editToken(token, (module, session) => {
    const common = [
      { type: pkcs11.CKA_LABEL, value: token.keyLabel },
      { type: pkcs11.CKA_TOKEN, value: true },
    ];
    const unprotected = [
      { type: pkcs11.CKA_SENSITIVE, value: false },
      { type: pkcs11.CKA_EXTRACTABLE, value: true },
    ];
    const mechanism = { mechanism: pkcs11.CKM_EC_KEY_PAIR_GEN };
    const curve = { type: pkcs11.CKA_EC_PARAMS, value: EC_PARAMS['ecdsa-p256'] };
    module.C_GenerateKeyPair(
      session,
      mechanism,
      [...common, curve],
      [...common, { type: pkcs11.CKA_SIGN, value: true }, ...unprotected],
    );
  });
}
