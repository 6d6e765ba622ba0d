import t from 'tap';
import { toBase64 } from '../../src/base/bytes.ts';
import { OperatorError } from '../../src/base/errors.ts';
import { encodeVkey } from '../../src/log/verifierKey.ts';
import { encodeTrust, epochOf, parseTrust, type TrustFile } from '../../src/manifest/trustFile.ts';
import { issueRevocationList } from '../../src/tsa/pki.ts';
import { DAY_MS, makePki, NOON } from '../support/authority.ts';
import { makeKey } from '../support/sealing.ts';
import { fc, tries } from '../support/seed.ts';

const origin = 'seal.example.com/sandbox/2026';
const { privateKey: _one, ...one } = makeKey('ed25519', 'eu-1');
const { privateKey: _two, ...two } = makeKey('ecdsa-p256', 'eu-2');
const { root, rootKey } = await makePki();
const stranger = await makePki();
const listTerms = { thisUpdate: NOON, nextUpdate: NOON + DAY_MS, number: 1, revoked: [] };
const list = await issueRevocationList({ ...listTerms, issuer: root }, rootKey);
const foreign = await issueRevocationList({ ...listTerms, issuer: stranger.root }, stranger.rootKey);

const trust: TrustFile = {
  timestampAuthorities: [
    { name: 'built-in', root, notBefore: Date.parse('2026-01-01T00:00:00.000Z') },
    { name: 'acme', root, notAfter: 1_900_000_000_000 },
  ],
  logs: [
    {
      origin,
      environment: 'env_sandbox',
      epochs: [
        {
          notBefore: Date.parse('2026-01-01T00:00:00.000Z'),
          notAfter: Date.parse('2026-12-31T23:59:59.999Z'),
          quorum: { needed: 1 },
          timestamps: 'none',
          keys: [one],
        },
        {
          notBefore: Date.parse('2027-01-01T00:00:00.000Z'),
          quorum: { needed: 2, regions: ['eu-1', 'eu-2'] },
          timestamps: 'required',
          keys: [one, two],
        },
      ],
    },
  ],
};

t.test('an exported trust file reads back', async (t) => {
  t.strictSame(parseTrust(encodeTrust(trust)), trust);
  t.match(JSON.parse(encodeTrust(trust)), {
    schema: 'pdfseal-trust/1',
    timestamp_authorities: [
      { name: 'built-in', root: toBase64(root.der), not_before: '2026-01-01T00:00:00.000Z' },
      { name: 'acme', not_after: '2030-03-17T17:46:40.000Z' },
    ],
    logs: [
      {
        origin,
        epochs: [
          {
            not_before: '2026-01-01T00:00:00.000Z',
            not_after: '2026-12-31T23:59:59.999Z',
            quorum: 1,
            timestamps: 'none',
            keys: [{ vkey: encodeVkey(origin, one), region: 'eu-1', key_label: 'log' }],
          },
          { not_before: '2027-01-01T00:00:00.000Z', quorum: '2 of eu-1, eu-2', timestamps: 'required' },
        ],
      },
    ],
  });
});

t.test('revocation lists of the roots read back, and a file without one has no such member', async (t) => {
  const listed = { ...trust, revocationLists: [list] };
  t.strictSame(parseTrust(encodeTrust(listed)), listed);
  t.match(JSON.parse(encodeTrust(listed)), { revocation_lists: [toBase64(list.der)] });
  t.notOk('revocation_lists' in JSON.parse(encodeTrust(trust)), 'older verifiers refuse the member');
  t.throws(() => encodeTrust({ ...trust, revocationLists: [foreign] }), OperatorError);
});

t.test('an epoch lasts from its first millisecond to its last', async (t) => {
  const [log] = trust.logs;
  const needed = (time: string) => log && epochOf(log, Date.parse(time))?.quorum.needed;
  t.equal(needed('2025-12-31T23:59:59.999Z'), undefined);
  t.equal(needed('2026-01-01T00:00:00.000Z'), 1);
  t.equal(needed('2026-12-31T23:59:59.999Z'), 1);
  t.equal(needed('2027-01-01T00:00:00.000Z'), 2);
  t.equal(log && epochOf(log, Number.NaN), undefined);
});

const wire = JSON.parse(encodeTrust(trust));
const log = wire.logs[0];
const [first, second] = log.epochs;
const [key] = first.keys;
const withEpochs = (...epochs: object[]) => ({ ...wire, logs: [{ ...log, epochs }] });
const withEpoch = (change: object) => withEpochs({ ...first, ...change });
const withKey = (change: object) => withEpoch({ keys: [{ ...key, ...change }] });
const withRoot = (root: unknown) => ({ ...wire, timestamp_authorities: [{ name: 'acme', root }] });
const withLists = (...lists: string[]) => ({ ...wire, revocation_lists: lists });
const refused: Record<string, [unknown, RegExp]> = {
  'a later schema': [{ ...wire, schema: 'pdfseal-trust/2' }, /schema/],
  'an unknown member': [{ ...wire, root: 1 }, /root/],
  'an unknown member of an epoch': [withEpoch({ quorums: 1 }), /quorums/],
  'a log without epochs': [withEpochs(), /epochs/],
  'no logs': [{ ...wire, logs: [] }, /logs/],
  'an epoch without keys': [withEpoch({ keys: [] }), /keys/],
  'a log twice': [{ ...wire, logs: [log, log] }, /logs.*twice/],
  'a key twice': [withEpoch({ keys: [key, { ...key, region: 'us-1' }] }), /keys of .*twice/],
  'a key under two labels': [withEpoch({ keys: [key, { ...key, key_label: 'other' }] }), /keys of .*twice/],
  'a quorum of none': [withEpoch({ quorum: 0 }), /quorum/],
  'a quorum in words': [withEpoch({ quorum: 'both' }), /quorum.*2 of eu, us, ap/],
  'a quorum of a region without a key': [withEpoch({ quorum: '1 of us-1' }), /region us-1 has no key/],
  'an epoch that overlaps': [
    withEpochs(first, { ...second, not_before: first.not_after }),
    /must begin after/,
  ],
  'an epoch after one without an end': [
    withEpochs({ ...first, not_after: undefined }, second),
    /must begin after/,
  ],
  'epochs in the wrong order': [withEpochs(second, first), /must begin after/],
  'an epoch without a beginning': [withEpoch({ not_before: undefined }), /not_before/],
  'time-stamps perhaps': [withEpoch({ timestamps: 'optional' }), /timestamps/],
  'a quorum no one can reach': [withEpoch({ quorum: 3 }), /quorum/],
  'an environment without env_': [{ ...wire, logs: [{ ...log, environment: 'sandbox' }] }, /environment/],
  'no environment': [{ ...wire, logs: [{ ...log, environment: undefined }] }, /environment/],
  'a vkey that is none': [withKey({ vkey: `${key.vkey}A` }), /vkey/],
  'a key of another name': [withKey({ vkey: encodeVkey('other.example.com', one) }), /origin/],
  'a date that is none': [withEpoch({ not_after: '2026-02-30T00:00:00Z' }), /not_after/],
  'a validity that ends before it begins': [
    withEpoch({ not_after: '2025-01-01T00:00:00Z' }),
    /not_before is later/,
  ],
  'time-stamps required of nobody': [{ ...wire, timestamp_authorities: [] }, /timestamps: required, but/],
  'an authority without a root': [withRoot(undefined), /timestamp_authorities\.0\.root/],
  'a root that is no Base64': [withRoot('-----BEGIN'), /root of acme: is not Base64/],
  'a root that is no certificate': [withRoot('AA=='), /root of acme: is not a certificate/],
  'a revocation list that is no Base64': [withLists('-'), /revocation_lists\.0: is not Base64/],
  'a revocation list that is none': [withLists('AA=='), /revocation_lists\.0: cannot be used/],
  'a revocation list of another root': [
    withLists(toBase64(list.der), toBase64(foreign.der)),
    /revocation_lists\.1: is signed by none of the roots/,
  ],
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

t.test('refused: text that is not JSON, or has duplicate members', async (t) => {
  t.throws(() => parseTrust(''), OperatorError);
  t.throws(
    () => parseTrust(encodeTrust(trust).replace('"quorum": 1', '"quorum": 2, "quorum": 1')),
    OperatorError,
  );
});

t.test('a changed trust file is read or refused with a message, and reads back if read', async (t) => {
  const value = fc.oneof(
    fc.jsonValue({ maxDepth: 1 }),
    fc.constantFrom('2 of eu-1, eu-2', '2027-01-01T00:00:00.000Z', first, second, key, [first], [], 0, 1, 2),
  );
  const places = pathsOf(wire);
  fc.assert(
    fc.property(fc.constantFrom(...places), value, (path, by) => {
      const text = JSON.stringify(withValue(wire, path, by));
      try {
        const read = parseTrust(text);
        t.strictSame(parseTrust(encodeTrust(read)), read);
      } catch (error) {
        if (!(error instanceof OperatorError)) t.fail(`${text}: ${error}`);
      }
    }),
    { numRuns: tries(3000) },
  );
});

function pathsOf(value: unknown, path: string[] = []): string[][] {
  if (typeof value !== 'object' || value === null) return [path];
  return [path, ...Object.entries(value).flatMap(([name, member]) => pathsOf(member, [...path, name]))];
}

function withValue(value: unknown, [name, ...rest]: string[], by: unknown): unknown {
  if (name === undefined) return by;
  const copy = Array.isArray(value) ? [...value] : { ...Object(value) };
  copy[name] = withValue(copy[name], rest, by);
  return copy;
}

t.test('a file that would be refused is not written', async (t) => {
  t.throws(() => encodeTrust({ ...trust, logs: [] }), OperatorError);
});
