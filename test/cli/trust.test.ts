import { join } from 'node:path';
import t from 'tap';
import type { Certificate } from '../../src/asn1/certificate.ts';
import { encodePem } from '../../src/asn1/pem.ts';
import { toBase64, toHex } from '../../src/base/bytes.ts';
import { sha256 } from '../../src/base/crypto.ts';
import { OperatorError } from '../../src/base/errors.ts';
import { type Config, parseConfig } from '../../src/config/config.ts';
import { strangers, trustOf } from '../../src/config/trustAnchors.ts';
import { encodeVkey } from '../../src/log/verifierKey.ts';
import { encodeTrust, parseTrust } from '../../src/manifest/trustFile.ts';
import type { CertificatesOnRecord } from '../../src/store/certificatesOnRecord.ts';
import { makePki } from '../support/authority.ts';
import { firstEpoch, makeKey } from '../support/sealing.ts';

const { privateKey: _privateKey, ...logKey } = makeKey('ed25519', 'eu');
const { privateKey: _otherKey, ...otherKey } = makeKey('ed25519', 'eu');
const identity = {
  environment: 'test',
  logOrigin: 'seal.example.com/test/2026',
};
const epochs = [
  firstEpoch([logKey], { from: 5000, timestamps: 'required' }),
  firstEpoch([otherKey], { from: 9000, quorum: { needed: 1, regions: ['eu'] } }),
];
const [own, other, before, acme] = [await makePki(), await makePki(), await makePki(), await makePki()];

const dir = t.testdir({
  installed: {
    'eu_timestamp.pem': pem(own.certificate, own.root),
    'us_timestamp.pem': pem(own.certificate, own.root),
    'ap_timestamp.pem': pem(other.certificate, other.root),
    retired: { 'eu_timestamp-0123456789abcdef.pem': pem(before.certificate, before.root) },
  },
  'acme.pem': pem(acme.root, acme.root),
});

function pem(...certificates: Certificate[]): string {
  return certificates.map(({ der }) => encodePem('CERTIFICATE', der)).join('');
}

function configOf(authorities: string[], certificates: string, extra = ''): Config {
  const token = (list: string, region: string, label: string) => `
[[${list}]]
region = "${region}"
module = "/usr/lib/hsm.so"
token_label = "token"
key_label = "${label}"
pin_file = "pin"`;
  const regions = ['eu', 'us', 'ap'];
  const text = `
environment = "test"
state_dir = "state"
[log]
origin = "${identity.logOrigin}"
[timestamp]
authorities = ${JSON.stringify(authorities)}
${extra}
${token('kms.partitions', 'eu', 'log')}
${regions.map((region) => token('timestamp.keys', region, 'timestamp')).join('\n')}`;
  return { ...parseConfig(text, join(dir, 'test.toml')), certificatesDir: join(dir, certificates) };
}

/** Audit records name these. */
const onRecord = recordOf(own, other, before);

function recordOf(...authorities: { root: Certificate }[]) {
  return new Map(authorities.map(({ root }, index) => [toHex(sha256(root.der)), index + 1]));
}

function rootsOf(config: Config, record: CertificatesOnRecord = onRecord): [string, Uint8Array][] {
  return trustOf(identity, epochs, config, record).timestampAuthorities.map(({ name, root }) => [
    name,
    root.der,
  ]);
}

const REMOTE = '[timestamp.remotes.acme]\nurl = "http://127.0.0.1:1/tsa"\nroots_file = "acme.pem"';

t.test('each root of ours and of other authorities is in the trust file once', async (t) => {
  const ours = [own, other, before].map(({ root }) => ['built-in', root.der]);
  const config = configOf(['acme', 'built-in'], 'installed', REMOTE);
  t.strictSame(rootsOf(config), [...ours, ['acme', acme.root.der]]);
  t.match(trustOf(identity, epochs, config, onRecord), {
    logs: [
      {
        epochs: [
          { notBefore: 5000, notAfter: 8999, timestamps: 'required', quorum: { needed: 1 }, keys: [logKey] },
          { notBefore: 9000, timestamps: 'none', quorum: { regions: ['eu'] }, keys: [otherKey] },
        ],
      },
    ],
  });
});

t.test(
  'a root in the folder of certificates that no epoch and no audit record names is not trusted',
  async (t) => {
    const config = configOf(['acme', 'built-in'], 'installed', REMOTE);
    t.strictSame(rootsOf(config, new Map()), [['acme', acme.root.der]]);
    t.strictSame(rootsOf(config, recordOf(own)), [
      ['built-in', own.root.der],
      ['acme', acme.root.der],
    ]);
    const [installed, retired] = [other, before].map(({ root }) => toHex(sha256(root.der)));
    t.match(strangers(epochs, config, recordOf(own)), [
      new RegExp(`has the root .* \\(SHA-256 ${installed}\\), which no epoch and no audit record names`),
      new RegExp(`SHA-256 ${retired}`),
    ]);
    t.strictSame(strangers(epochs, config, onRecord), []);
    const roots = [other, before].map(({ root }) => ({ name: 'built-in', root: toBase64(root.der) }));
    t.strictSame(strangers([firstEpoch([logKey], { roots })], config, recordOf(own)), []);
  },
);

t.test('a root that is no longer used stays trusted, as old receipts need it', async (t) => {
  t.equal(rootsOf(configOf(['acme'], 'installed', REMOTE)).length, 4);
  const none = configOf([], 'installed', REMOTE);
  t.equal(rootsOf(none).length, 4);
});

t.test('a missing certificate is an error only if its authority is used', async (t) => {
  t.strictSame(rootsOf(configOf([], 'nowhere')), []);
  t.throws(() => rootsOf(configOf(['built-in'], 'nowhere')), {
    name: OperatorError.name,
    message: /install-certificate/,
  });
  const lost = REMOTE.replace('acme.pem', 'lost.pem');
  t.throws(() => rootsOf(configOf(['acme'], 'installed', lost)), {
    name: OperatorError.name,
    message: /lost\.pem/,
  });
});

t.test('the witnesses of the configuration are in the trust file', async (t) => {
  const policy = join(t.testdir({ policy: 'quorum none\n' }), 'policy');
  const withPolicy = configOf([], 'installed', `[witness]\npolicy = "${policy}"`);
  const trust = trustOf(identity, epochs, withPolicy, onRecord);
  t.equal(trust.logs[0]?.witnessPolicy, 'quorum none\n');
  const written = encodeTrust({ ...trust, timestampAuthorities: [{ name: 'built-in', root: own.root }] });
  t.equal(parseTrust(written).logs[0]?.witnessPolicy, 'quorum none\n');
  t.throws(() => parseTrust(written.replace('quorum none', 'quorum x')), {
    constructor: OperatorError,
    message: /witness_policy of seal\.example\.com\/test\/2026: line 1: "x" is not a witness or group/,
  });
  const self = encodeVkey(identity.logOrigin, makeKey('mldsa44', 'eu'));
  t.throws(() => parseTrust(written.replace('quorum none', `witness w ${self}\\nquorum w`)), {
    message: /witness_policy of .*: line 1: the key of a witness has the name of the log/,
  });
  t.equal(trustOf(identity, epochs, configOf([], 'installed'), onRecord).logs[0]?.witnessPolicy, undefined);
});
