import {
  chownSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import pkcs11 from 'pkcs11js';
import t, { type Test } from 'tap';
import { loadConfig } from '../../src/config/config.ts';
import { hostOfOrigin, isPlaceholder } from '../../src/config/placeholder.ts';
import { initKey, readKey } from '../../src/kms/keyOperations.ts';
import type { PartitionOptions } from '../../src/kms/partitions.ts';
import { parseTrust } from '../../src/manifest/trustFile.ts';
import { openStore } from '../../src/store/lmdb/open.ts';
import { freePort } from '../support/freePort.ts';
import { openSandbox, type Sandbox, type SandboxOptions } from '../support/sandbox.ts';
import { editToken, findObjects } from '../support/tamper.ts';

t.test('init makes a key in every partition, the store and the trust file', async (t) => {
  const sandbox = await uninitialized(t, { regions: ['eu-west', 'eu-north'], quorum: 2 });
  const { status, stdout, stderr } = await init(sandbox, '--algorithm', 'ecdsa-p256');
  t.equal(status, 0, stderr);
  t.match(stdout, /key\s+eu-west\/sandbox-2026\s+ecdsa-p256\s+made\n.*key\s+eu-north\/sandbox-2026/s);
  t.match(stderr, /Next: .*pdfseal keys issue .*pdfseald --config/s);

  const store = await openStore({ path: join(sandbox.dir, 'state/store'), readOnly: true });
  t.teardown(() => store.close());
  const keys = await Promise.all(sandbox.partitions.map((partition) => readKey(partition)));
  t.match(store.identity, {
    environment: 'sandbox',
    logOrigin: 'seal.example.com/sandbox/2026',
  });
  t.match(await store.epochs.newest(), { revision: 0, list: [{ from: store.identity.createdAt, keys }] });
  const trust = readFileSync(sandbox.trustFile, 'utf8');
  t.match(parseTrust(trust), {
    logs: [{ environment: 'env_sandbox', epochs: [{ quorum: { needed: 2 }, keys }] }],
  });

  // This process has the store open.
  const exported = await sandbox.pdfseal(['trust', 'export', '--config', sandbox.configFile], {
    apart: true,
  });
  t.equal(exported.stdout, trust, 'trust export says the same');
  t.equal(statSync(join(sandbox.dir, 'state')).mode & 0o077, 0, 'the state folder is nobody else’s');
});

t.test('init refuses to run a second time', async (t) => {
  const sandbox = await uninitialized(t);
  await sandbox.init();
  const before = readFileSync(sandbox.trustFile, 'utf8');
  const again = await init(sandbox, '--use-existing-keys');
  t.match(again, { status: 1, stderr: /store exists already: a store is never overwritten/ });
  t.match(again.stderr, /^[^\n]+\n {2}→ [^\n]+\n$/, 'one line and its remedy, no stack');
  t.equal(readFileSync(sandbox.trustFile, 'utf8'), before);
});

t.test('an existing key is used only with --use-existing-keys', async (t) => {
  const sandbox = await uninitialized(t, { regions: ['eu-west', 'eu-north'] });
  const [west, north] = sandbox.partitions;
  if (!west || !north) throw new Error('two partitions');
  const existing = await initKey(north, 'ecdsa-p256');

  const refused = await init(sandbox);
  t.match(refused, {
    status: 1,
    stderr: /there is a key already: eu-north\/sandbox-2026\. .*--use-existing-keys/,
  });
  await t.rejects(readKey(west), /key_not_found/, 'no key was made before the refusal');
  t.notOk(existsSync(join(sandbox.dir, 'state/store')));

  const taken = await init(sandbox, '--use-existing-keys');
  t.equal(taken.status, 0, taken.stderr);
  t.match(
    taken.stdout,
    /eu-west\/sandbox-2026\s+ed25519\s+made\n.*eu-north\/sandbox-2026\s+ecdsa-p256\s+found/s,
  );
  t.match(parseTrust(readFileSync(sandbox.trustFile, 'utf8')), {
    logs: [{ epochs: [{ keys: [{}, existing] }] }],
  });
});

t.test('an init that failed half-way can be repeated', async (t) => {
  const sandbox = await uninitialized(t, { regions: ['eu-west', 'eu-north'] });
  const [west, north] = sandbox.partitions;
  if (!west || !north) throw new Error('two partitions');
  // Half a key is refused before any key is made.
  await initKey(north, 'ed25519');
  editToken(north, (module, session) => destroy(module, session, pkcs11.CKO_PRIVATE_KEY));
  t.match(await init(sandbox), { status: 1, stderr: /private_key_missing/ });
  await t.rejects(readKey(west), /key_not_found/, 'no key was made before the refusal');
  editToken(north, (module, session) => destroy(module, session, pkcs11.CKO_PUBLIC_KEY));

  // The label is taken by something that is no key.
  editToken(north, (module, session) =>
    module.C_CreateObject(session, [
      { type: pkcs11.CKA_CLASS, value: pkcs11.CKO_DATA },
      { type: pkcs11.CKA_TOKEN, value: true },
      { type: pkcs11.CKA_LABEL, value: north.keyLabel },
    ]),
  );

  const failed = await init(sandbox);
  t.match(failed, {
    status: 1,
    stderr: /repeat the command with --use-existing-keys[\s\S]*eu-north[\s\S]*key_exists/,
  });
  t.notOk(existsSync(join(sandbox.dir, 'state/store')));
  const made = await readKey(west);

  editToken(north, (module, session) => destroy(module, session, pkcs11.CKO_DATA));
  const repeated = await init(sandbox, '--use-existing-keys');
  t.equal(repeated.status, 0, repeated.stderr);
  t.match(parseTrust(readFileSync(sandbox.trustFile, 'utf8')), {
    logs: [{ epochs: [{ keys: [made, { region: 'eu-north' }] }] }],
  });

  function destroy(module: pkcs11.PKCS11, session: Buffer, objectClass: number): void {
    for (const object of findObjects(module, session, 'sandbox-2026', objectClass)) {
      module.C_DestroyObject(session, object);
    }
  }
});

t.test('another user’s state folder is left alone', async (t) => {
  const sandbox = await uninitialized(t);
  const stateDir = join(sandbox.dir, 'state');
  mkdirSync(stateDir);
  if (process.geteuid?.() === 0) chownSync(stateDir, 12_345, 12_345);
  const { status, stderr } = await init(sandbox);
  if (process.geteuid?.() === 0)
    t.match({ status, stderr }, { status: 1, stderr: /user with id 12345: run this command as that user/ });
  else t.equal(status, 0, 'one’s own folder that is there already is taken');
});

t.test('init refuses the host of an example unless the log is a throwaway', async (t) => {
  const sandbox = await uninitialized(t);
  const text = readFileSync(sandbox.configFile, 'utf8');
  const own = text.replace('seal.example.com', 'seal.corp.acme.com');
  const plain = () => sandbox.pdfseal(['init', '--config', sandbox.configFile]);
  t.match(await plain(), { status: 1, stderr: /log\.origin names seal\.example\.com, .*--throwaway/ });
  writeFileSync(sandbox.configFile, own.replace('[http]', '[http]\npublic_url = "https://seal.example.com"'));
  t.match(await plain(), { status: 1, stderr: /http\.public_url names seal\.example\.com/ });
  t.notOk(existsSync(join(sandbox.dir, 'state/store')));
  writeFileSync(sandbox.configFile, own);
  t.match(await plain(), { status: 0 });
});

t.test('only names that are reserved for examples are placeholders', async (t) => {
  for (const host of ['seal.example.com', 'example.org', 'x.example', 'log.test', 'a.invalid', 'EXAMPLE.COM'])
    t.ok(isPlaceholder(host), host);
  for (const host of [
    'seal.acme.com',
    'examples.com',
    'example.acme.com',
    'localhost',
    '127.0.0.1',
    'test.acme.de',
  ])
    t.notOk(isPlaceholder(host), host);
  t.equal(hostOfOrigin('seal.example.com:8443/production/2026'), 'seal.example.com');
});

t.test('init takes a configuration from flags or answers, and asks again after a wrong one', async (t) => {
  const sandbox = await uninitialized(t, { regions: ['eu', 'us', 'ap'] });
  const port = await freePort();
  const [eu, us, ap] = sandbox.partitions;
  if (!eu || !us || !ap) throw new Error('three partitions');
  const argumentOf = ({ region, module, tokenLabel, pinFile, environment = {} }: PartitionOptions) =>
    `region=${region},module=${module},token=${tokenLabel},pin-file=${pinFile},env.SOFTHSM2_CONF=${environment.SOFTHSM2_CONF}`;
  const partitions = [eu, us, ap].flatMap((one) => ['--add-partition', argumentOf(one)]);
  const common = ['--origin', 'seal.acme.com/flags', '--listen', `127.0.0.1:${port}`, '--clock', 'system'];
  const flags = (file: string, ...args: string[]) =>
    sandbox.pdfseal(['init', '--config', join(sandbox.dir, file), ...common, ...args]);

  const made = await flags('flags.toml', ...partitions);
  t.match(made, { status: 0, stderr: /flags\.toml is written[\s\S]*Next: / });
  const file = join(sandbox.dir, 'flags.toml');
  t.match(loadConfig(file), {
    environment: 'flags',
    log: { origin: 'seal.acme.com/flags' },
    http: { listen: [{ port }] },
    kms: { quorum: { needed: 2 }, partitions: [{ region: 'eu' }, { region: 'us' }, { region: 'ap' }] },
    timestamp: { authorities: ['built-in'], keys: [{ region: 'eu' }] },
  });
  t.ok(readFileSync(file, 'utf8').split('\n').length < 60, 'what differs from the defaults');
  t.match(await flags('flags.toml', ...partitions), { status: 1, stderr: /never overwritten/ });
  t.match(await flags('none.toml', '--environment', 'none'), {
    status: 1,
    stderr: /--add-partition is missing: region=NAME/,
  });
  const wrong = argumentOf({ ...eu, tokenLabel: 'typo' });
  t.match(await flags('none.toml', '--add-partition', wrong), {
    status: 1,
    stderr: /there is "token-eu" \(serial/,
  });
  t.notOk(existsSync(join(sandbox.dir, 'none.toml')), 'nothing is written');

  mkdirSync(join(sandbox.dir, 'asked.pins'));
  copyFileSync(us.pinFile, join(sandbox.dir, 'asked.pins/us'));
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', () => resolve()));
  const { port: taken } = server.address() as AddressInfo;
  const answers = [
    ...['A B', '', 'https://seal.acme.com', 'seal.example.com/x', 'seal.acme.com/asked'],
    ...[`127.0.0.1:${taken}`, `127.0.0.1:${port}`],
    // Each of them may be the wrong one, so all are asked for again.
    ...['us', us.module, 'none', '', 'token-us'],
    ...['', '', `SOFTHSM2_CONF=${us.environment?.SOFTHSM2_CONF}`, '', 'typo'],
    ...['', '', '', '', 'token-us', 'n'],
    ...['2', '1', 'none', 'system'],
  ];
  const ask = (name: string, input: string) =>
    sandbox.pdfseal(['init', '--interactive', '--config', join(sandbox.dir, name)], { input });
  const asked = await ask('asked.toml', `${answers.join('\n')}\n`);
  server.close();
  for (const said of [
    /"A B" is not accepted/,
    /without scheme/,
    /seal\.example\.com, an example host/,
    /address already in use/,
    /there is "token-us"/,
    /✓ the token "token-us" exists and accepts the PIN/,
    /"2" is not accepted: a number from 1 to 1/,
    /asked\.toml is written/,
  ])
    t.match(asked.stderr, said);
  t.match(readFileSync(join(sandbox.dir, 'asked.toml'), 'utf8'), /\npin_credential = "pin_us"\n/);
  t.match(
    asked,
    { status: 1, stderr: /pin_credential: cannot read/ },
    'which systemd hands out, not this test',
  );
  t.match(await ask('ended.toml', ''), { status: 1, stderr: /no answer to "Name/ });
});

async function uninitialized(t: Test, options: SandboxOptions = {}): Promise<Sandbox> {
  const sandbox = await openSandbox({ ...options, init: false });
  t.teardown(() => sandbox.close());
  return sandbox;
}

function init(sandbox: Sandbox, ...args: string[]) {
  return sandbox.pdfseal(['init', '--throwaway', '--config', sandbox.configFile, ...args]);
}
