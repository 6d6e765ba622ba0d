import { createPrivateKey, generateKeyPairSync, verify } from 'node:crypto';
import { chmodSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { initKey, inspectKey, useKey } from '../../src/kms/keyOperations.ts';
import { openPartitions, type PartitionOptions } from '../../src/kms/partitions.ts';
import { makeSoftwareKey } from '../../src/kms/softwareKey.ts';
import type { LogKey } from '../../src/log/verifierKey.ts';
import { item, MESSAGE, makeSite } from '../support/partitions.ts';

function tokenOf(pinFile: string, content: string): PartitionOptions {
  writeFileSync(pinFile, content, { mode: 0o600 });
  return { region: 'eu', keyLabel: 'post-quantum', algorithm: 'mldsa44', pinFile, refusedPins: '/nowhere' };
}

t.test('a software key signs as in FIPS 204, and is marked as one', async (t) => {
  const text = makeSoftwareKey();
  const token = tokenOf(join(t.testdir(), 'key'), text);
  const { key, signature } = await useKey(token, async (key, sign) => ({
    key,
    signature: await sign(MESSAGE),
  }));
  t.match(key, { region: 'eu', keyLabel: 'post-quantum', algorithm: 'mldsa44', software: true });
  t.ok(verify(null, MESSAGE, createPrivateKey(text), signature));
  t.match(await inspectKey(token), { software: true, exposures: [], wasAlwaysInside: false });
});

t.test('a file that others can read, or without such a key, is refused by name', async (t) => {
  const file = join(t.testdir(), 'key');
  const refusal = async (content: string, mode = 0o600) => {
    const token = tokenOf(file, content);
    chmodSync(file, mode);
    return useKey(token, async () => 'taken').catch((error: Error) => error.message);
  };
  t.match(await refusal(makeSoftwareKey(), 0o604), /key_file_exposed.*chmod o=/);
  t.match(await refusal(''), /file of the software key .*key is empty \(key_file_invalid\)/);
  t.match(await refusal('not a key'), /holds no ML-DSA-44 key .*key_file_invalid.*make-software-key/);
  for (const { privateKey } of [generateKeyPairSync('ed25519'), generateKeyPairSync('ml-dsa-65')]) {
    const pem = privateKey.export({ format: 'pem', type: 'pkcs8' }).toString();
    t.match(await refusal(pem), /holds no ML-DSA-44 key/);
  }
  await t.rejects(initKey(tokenOf(file, makeSoftwareKey()), 'mldsa44'), /key_in_file.*make-software-key/);
});

t.test('a software key is never taken for a key of an HSM, nor for another one', async (t) => {
  const site = await makeSite(t, 'ed25519');
  const token = tokenOf(join(t.testdir(), 'key'), makeSoftwareKey());
  const held = (await useKey(token, async (key) => key)) as LogKey;
  const { software: _, ...unlabelled } = held;
  const opened = (key: LogKey) =>
    openPartitions({
      partitions: [...site.tokens, token],
      keys: [...site.keys, key],
      quorum: { needed: 1, postQuantum: 1 },
      duties: { anything: true },
      sessions: 3,
      signTimeoutMs: 60_000,
      logger: site.logger,
    });
  await t.rejects(opened(unlabelled), /key_changed/);
  const partitions = await opened(held);
  t.teardown(() => partitions.close());
  t.equal(item(partitions.status(), 1).sessions, 3, 'as many as a token would give');
  t.match(item(partitions.status(), 1), { algorithm: 'mldsa44', software: true, state: 'ready' });
  writeFileSync(token.pinFile, makeSoftwareKey());
  await t.rejects(
    opened(held),
    /: the file holds another mldsa44 key than the log knows \(key_changed\); restore the key .* or plan an epoch/,
  );
});
