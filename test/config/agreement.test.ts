import t from 'tap';
import { assertAgreement } from '../../src/config/agreement.ts';
import { type Config, parseConfig } from '../../src/config/config.ts';
import type { Epoch, Epochs } from '../../src/log/epochs.ts';
import { firstEpoch, makeKey } from '../support/sealing.ts';

const SWITCH = 2000;
const [eu, us, ap] = ['eu', 'us', 'ap'].map((region) => {
  const { privateKey: _, ...key } = makeKey('ed25519', region);
  return key;
}) as [Epoch['keys'][number], Epoch['keys'][number], Epoch['keys'][number]];

function configOf(regions: string[], quorum: string, stamped = false, more = ''): Config {
  const token = (list: string, region: string) =>
    `[[${list}]]\nregion = "${region}"\nmodule = "/hsm.so"\ntoken_label = "t"\nkey_label = "log"\npin_file = "pin"\n`;
  return parseConfig(
    `environment = "test"
state_dir = "state"
[log]
origin = "seal.example.com/test"
[timestamp]
authorities = [${stamped ? '"built-in"' : ''}]
${token('timestamp.keys', 'eu')}
[kms]
quorum = ${quorum}
${regions.map((region) => token('kms.partitions', region)).join('')}${more}`,
    '/etc/test.toml',
  );
}

function planned(first: Epoch, second: Epoch): Epochs {
  return { revision: 1, list: [first, { ...second, from: SWITCH }] };
}

const both = firstEpoch([eu, us]);
const WITNESSED = '[witness]\npolicy = "w.policy"\n';
const ecdsa = firstEpoch(['eu', 'us'].map((region) => makeKey('ecdsa-p256', region)));
const oneOfTwo = { ...both, keys: [...both.keys.slice(0, 1), ...ecdsa.keys.slice(1)] };
const mixed = firstEpoch([eu, makeKey('mldsa44', 'us')]);
const POST_QUANTUM =
  '[[kms.partitions]]\nregion = "us"\nkey_label = "log"\nalgorithm = "mldsa44"\nsoftware_key_file = "key"\n';
const refusals: Record<string, [Config, Epochs, RegExp[]]> = {
  'another quorum': [
    configOf(['eu', 'us'], '2'),
    { revision: 0, list: [both] },
    [/^kms\.quorum: 2, in this epoch 1$/m],
  ],
  'another partition': [
    configOf(['eu', 'ap'], '1'),
    { revision: 0, list: [both] },
    [/^kms\.partitions: ap\/log is not a partition/m, /^kms\.partitions: us\/log is missing/m],
  ],
  'time-stamps where there are none': [
    configOf(['eu', 'us'], '1', true),
    { revision: 0, list: [both] },
    [/^timestamp\.authorities: some, in this epoch none$/m, /pdfseal epochs plan --config \/etc\/test\.toml/],
  ],
  'witnesses, and no key that they accept': [
    configOf(['eu', 'us'], '1', false, WITNESSED),
    { revision: 0, list: [ecdsa] },
    [/^witness\.policy: no key of this epoch is an Ed25519 key, and witnesses accept no other$/m],
  ],
  'another kind of key': [
    configOf(['eu', 'us'], '1'),
    { revision: 0, list: [{ ...both, keys: mixed.keys }] },
    [/^kms\.partitions: us\/log: algorithm is not set, in this epoch mldsa44$/m],
  ],
  'a software key that is in an HSM now': [
    configOf(['eu'], '"1 classical and 1 post-quantum"', false, POST_QUANTUM),
    { revision: 0, list: [{ ...mixed, quorum: { needed: 1, postQuantum: 1 } }] },
    [/^kms\.partitions: us\/log is a software key, in this epoch in an HSM$/m],
  ],
  'neither of both epochs': [
    configOf(['eu', 'us'], '2'),
    planned(both, firstEpoch([eu, us, ap])),
    [/not that of the planned epoch either/],
  ],
  'no time-stamps before they end': [
    configOf(['eu', 'us'], '1'),
    planned({ ...both, timestamps: 'required' }, both),
    [/^timestamp\.authorities: required until the planned epoch begins, 1970-01-01T00:00:02\.000Z$/],
  ],
  'a partition that is needed until the next epoch': [
    configOf(['eu'], '1'),
    planned({ ...both, quorum: { needed: 2 } }, firstEpoch([eu])),
    [/^kms\.partitions: without those taken out, 2 of 1 keys can never sign until/],
  ],
};
for (const [name, [config, epochs, messages]] of Object.entries(refusals)) {
  t.test(`refused: ${name}`, async (t) => {
    for (const message of messages)
      t.throws(() => assertAgreement(config, epochs, 1000), { name: 'OperatorError', message });
  });
}

t.test('a configuration agrees with the epoch in force or planned, whatever the labels', async (t) => {
  const relabelled = firstEpoch([
    { ...eu, keyLabel: 'log-e2' },
    { ...us, keyLabel: 'log-e2' },
  ]);
  const renamed = { ...relabelled, keys: relabelled.keys.map((key) => ({ ...key, partition: 'log' })) };
  const agrees = (config: Config, epochs: Epochs, at = 1000) => assertAgreement(config, epochs, at);
  t.doesNotThrow(() => agrees(configOf(['us', 'eu'], '1'), { revision: 0, list: [renamed] }), 'in any order');
  const epochs = planned(both, {
    ...firstEpoch([eu, us, ap]),
    quorum: { needed: 2, regions: ['eu', 'us', 'ap'] },
  });
  const next = configOf(['eu', 'us', 'ap'], '"2 of eu, us, ap"');
  t.doesNotThrow(() => agrees(configOf(['eu', 'us'], '1'), epochs));
  t.doesNotThrow(() => agrees(next, epochs));
  t.doesNotThrow(() => agrees(next, epochs, SWITCH));
  t.throws(() => agrees(configOf(['eu', 'us'], '1'), epochs, SWITCH), { message: /ap\/log is missing/ });
  t.doesNotThrow(() => agrees(configOf(['eu', 'us'], '1'), { revision: 0, list: [ecdsa] }));
  const witnessed = configOf(['eu', 'us'], '1', false, WITNESSED);
  t.doesNotThrow(() => agrees(witnessed, { revision: 0, list: [oneOfTwo] }), 'one Ed25519 key is enough');
});
