import t from 'tap';
import { OperatorError } from '../../src/base/errors.ts';
import { encodeVkey } from '../../src/log/keys.ts';
import { encodeTrust, parseTrust, type TrustFile } from '../../src/manifest/trust.ts';
import { makePki } from '../support/authority.ts';
import { makeKey } from '../support/sealing.ts';

const origin = 'seal.example.com/sandbox/2026';
const { privateKey: _one, ...one } = makeKey('ed25519', 'eu-1');
const { privateKey: _two, ...two } = makeKey('ecdsa-p256', 'eu-2');
const { root } = await makePki();

const trust: TrustFile = {
  timestamps: 'required',
  timestampAuthorities: [
    { name: 'built-in', root },
    { name: 'acme', root },
  ],
  logs: [
    {
      origin,
      environment: 'env_sandbox',
      quorum: 1,
      keys: [
        { ...one, notBefore: Date.parse('2026-01-01T00:00:00.000Z') },
        { ...two, notAfter: 1_900_000_000_000 },
      ],
    },
  ],
};

t.test('what is exported reads back', async (t) => {
  t.strictSame(parseTrust(encodeTrust(trust)), trust);
  t.match(JSON.parse(encodeTrust(trust)), {
    schema: 'pdfseal-trust/1',
    timestamps: 'required',
    timestamp_authorities: [{ name: 'built-in', root: root.der.toString('base64') }, { name: 'acme' }],
    logs: [
      {
        origin,
        keys: [{ vkey: encodeVkey(origin, one), key_label: 'log', not_before: '2026-01-01T00:00:00.000Z' }],
      },
    ],
  });
});

t.test('time-stamps are optional, and nobody may give one, unless the file says otherwise', async (t) => {
  const { timestamps: _, timestamp_authorities: __, ...rest } = JSON.parse(encodeTrust(trust));
  t.match(parseTrust(JSON.stringify(rest)), { timestamps: 'optional', timestampAuthorities: [] });
});

const wire = JSON.parse(encodeTrust(trust));
const log = wire.logs[0];
const key = log.keys[0];
const withKey = (change: object) => ({ ...wire, logs: [{ ...log, keys: [{ ...key, ...change }] }] });
const withRoot = (root: unknown) => ({ ...wire, timestamp_authorities: [{ name: 'acme', root }] });
const refused: Record<string, [unknown, RegExp]> = {
  'a later schema': [{ ...wire, schema: 'pdfseal-trust/2' }, /schema/],
  'an unknown member': [{ ...wire, root: 1 }, /root/],
  'an unknown member of a log': [{ ...wire, logs: [{ ...log, quorums: 1 }] }, /quorums/],
  'no logs': [{ ...wire, logs: [] }, /logs/],
  'a log without keys': [{ ...wire, logs: [{ ...log, keys: [] }] }, /keys/],
  'a log twice': [{ ...wire, logs: [log, log] }, /logs.*twice/],
  'a key twice': [
    { ...wire, logs: [{ ...log, keys: [key, { ...key, region: 'us-1' }] }] },
    /keys of .*twice/,
  ],
  'a quorum of none': [{ ...wire, logs: [{ ...log, quorum: 0 }] }, /quorum/],
  'a quorum no one can reach': [{ ...wire, logs: [{ ...log, quorum: 3 }] }, /quorum/],
  'an environment without env_': [{ ...wire, logs: [{ ...log, environment: 'sandbox' }] }, /environment/],
  'no environment': [{ ...wire, logs: [{ ...log, environment: undefined }] }, /environment/],
  'a vkey that is none': [withKey({ vkey: `${key.vkey}A` }), /vkey/],
  'a key of another name': [withKey({ vkey: encodeVkey('other.example.com', one) }), /origin/],
  'a date that is none': [withKey({ not_after: '2026-02-30T00:00:00Z' }), /not_after/],
  'a validity that ends before it begins': [
    withKey({ not_after: '2025-01-01T00:00:00Z' }),
    /not_before is later/,
  ],
  'time-stamps required of nobody': [{ ...wire, timestamp_authorities: [] }, /timestamps: required, but/],
  'an authority without a root': [withRoot(undefined), /timestamp_authorities\.0\.root/],
  'a root that is no Base64': [withRoot('-----BEGIN'), /root of acme: is not Base64/],
  'a root that is no certificate': [withRoot('AA=='), /root of acme: is no certificate/],
  'an unknown member of an authority': [
    { ...wire, timestamp_authorities: [{ name: 'acme', root: '', until: '2030-01-01' }] },
    /until/,
  ],
  'a list': [[], /file/],
};
for (const [name, [value, message]] of Object.entries(refused)) {
  t.test(`refused: ${name}`, async (t) => {
    t.throws(() => parseTrust(JSON.stringify(value)), { name: OperatorError.name, message });
  });
}

t.test('refused: no JSON, or doubled members', async (t) => {
  t.throws(() => parseTrust(''), OperatorError);
  t.throws(
    () => parseTrust(encodeTrust(trust).replace('"quorum": 1', '"quorum": 2, "quorum": 1')),
    OperatorError,
  );
});

t.test('a file that would be refused is not written', async (t) => {
  t.throws(() => encodeTrust({ ...trust, logs: [] }), OperatorError);
});
