import { chownSync, existsSync, mkdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import pkcs11 from 'pkcs11js';
import t, { type Test } from 'tap';
import { initKey, readKey } from '../../src/kms/keys.ts';
import { parseTrust } from '../../src/manifest/trust.ts';
import { openStore } from '../../src/store/lmdb.ts';
import { openSandbox, type Sandbox, type SandboxOptions } from '../support/sandbox.ts';
import { editToken, findObjects } from '../support/tamper.ts';

t.test('makes a key in every partition, store and trust file', async (t) => {
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
  t.match(await store.epochs(), { revision: 0, list: [{ from: store.identity.createdAt, keys }] });
  const trust = readFileSync(sandbox.trustFile, 'utf8');
  t.match(parseTrust(trust), {
    logs: [{ environment: 'env_sandbox', epochs: [{ quorum: { needed: 2 }, keys }] }],
  });

  const exported = await sandbox.pdfseal(['trust', 'export', '--config', sandbox.configFile]);
  t.equal(exported.stdout, trust, 'trust export says the same');
  t.equal(statSync(join(sandbox.dir, 'state')).mode & 0o077, 0, 'the state folder is nobody else’s');
});

t.test('never twice', async (t) => {
  const sandbox = await uninitialized(t);
  await sandbox.init();
  const before = readFileSync(sandbox.trustFile, 'utf8');
  const again = await init(sandbox, '--use-existing-keys');
  t.match(again, { status: 1, stderr: /store exists already: a store is never overwritten/ });
  t.equal(again.stderr.trimEnd().split('\n').length, 1, 'one line, no stack');
  t.equal(readFileSync(sandbox.trustFile, 'utf8'), before);
});

t.test('a key that exists is only taken when that is asked for', async (t) => {
  const sandbox = await uninitialized(t, { regions: ['eu-west', 'eu-north'] });
  const [west, north] = sandbox.partitions;
  if (!west || !north) throw new Error('two partitions');
  const existing = await initKey(north, 'ecdsa-p256');

  const refused = await init(sandbox);
  t.match(refused, {
    status: 1,
    stderr: /there is a key already: eu-north\/sandbox-2026; --use-existing-keys/,
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

t.test('what fails half-way can be repeated', async (t) => {
  const sandbox = await uninitialized(t, { regions: ['eu-west', 'eu-north'] });
  const [west, north] = sandbox.partitions;
  if (!west || !north) throw new Error('two partitions');
  // Half a key: none to sign with, but its label is taken.
  await initKey(north, 'ed25519');
  editToken(north, (module, session) => destroy(module, session, pkcs11.CKO_PRIVATE_KEY));

  const failed = await init(sandbox);
  t.match(failed, { status: 1, stderr: /repeat with --use-existing-keys[\s\S]*eu-north[\s\S]*key_exists/ });
  t.notOk(existsSync(join(sandbox.dir, 'state/store')));
  const made = await readKey(west);

  editToken(north, (module, session) => destroy(module, session, pkcs11.CKO_PUBLIC_KEY));
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

async function uninitialized(t: Test, options: SandboxOptions = {}): Promise<Sandbox> {
  const sandbox = await openSandbox({ ...options, init: false });
  t.teardown(() => sandbox.close());
  return sandbox;
}

function init(sandbox: Sandbox, ...args: string[]) {
  return sandbox.pdfseal(['init', '--config', sandbox.configFile, ...args]);
}
