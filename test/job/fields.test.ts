import assert from 'node:assert/strict';
import t from 'tap';
import { ServiceError } from '../../src/base/errors.ts';
import { type CreateRequest, FormFields, fingerprint, parseJsonCreate } from '../../src/job/fields.ts';
import { fc, tries } from '../support/seed.ts';

const SHA256 = 'aB'.repeat(32);
const JSON_CREATE = {
  source_url: 'https://example.com/a.pdf',
  checksum_sha256: SHA256,
  visibility: 'private',
};

function collect(...entries: [string, string][]): CreateRequest {
  const fields = new FormFields();
  for (const [name, text] of entries) fields.add(name, text);
  return fields.finish();
}

t.test('a multipart create with only the required fields gets the defaults', async (t) => {
  t.same(collect(['visibility', 'private']), {
    visibility: 'private',
    mode: 'async',
    preserveMetadata: false,
  });
});

t.test('a multipart create can have all fields', async (t) => {
  const request = collect(
    ['customer_reference', ' Ä\r\n\u0001e\u0301 '],
    ['mode', 'blocking'],
    ['visibility', 'partner'],
    ['purpose', 'invoices'],
    ['preserve_metadata', 'true'],
    ['checksum_sha256', SHA256],
  );
  t.same(request, {
    visibility: 'partner',
    mode: 'blocking',
    preserveMetadata: true,
    purpose: 'invoices',
    customerReference: ' Ä\r\n\u0001e\u0301 ',
    checksumSha256: SHA256.toLowerCase(),
  });
});

t.test('a JSON create can have all fields', async (t) => {
  const body = {
    ...JSON_CREATE,
    purpose: 'p',
    customer_reference: '😀'.repeat(512),
    preserve_metadata: false,
    mode: 'async',
  };
  t.same(parseJsonCreate(body), {
    visibility: 'private',
    mode: 'async',
    preserveMetadata: false,
    purpose: 'p',
    customerReference: '😀'.repeat(512),
    checksumSha256: SHA256.toLowerCase(),
    sourceUrl: JSON_CREATE.source_url,
  });
});

t.test('lengths are counted in code points', async (t) => {
  for (const [name, max] of [
    ['purpose', 128],
    ['customer_reference', 512],
  ] as const) {
    for (const character of ['a', 'é', '😀']) {
      collect(['visibility', 'private'], [name, character]);
      collect(['visibility', 'private'], [name, character.repeat(max)]);
      const tooLong = () => collect([name, character.repeat(max + 1)]);
      t.throws(tooLong, { code: 'invalid_parameter', parameter: name }, `${name} of ${character}`);
    }
  }
});

for (const [name, text] of [
  ['visibility', ''],
  ['visibility', 'Private'],
  ['visibility', 'private '],
  ['visibility', 'public'],
  ['mode', 'sync'],
  ['mode', 'ASYNC'],
  ['preserve_metadata', ''],
  ['preserve_metadata', 'True'],
  ['preserve_metadata', '1'],
  ['preserve_metadata', 'on'],
  ['preserve_metadata', ' true'],
  ['purpose', ''],
  ['purpose', 'nul\0'],
  ['customer_reference', ''],
  ['customer_reference', '\ud800'],
  ['customer_reference', 'a\udc00b'],
  ['checksum_sha256', ''],
  ['checksum_sha256', 'a'.repeat(63)],
  ['checksum_sha256', 'a'.repeat(65)],
  ['checksum_sha256', `${'a'.repeat(64)}\n`],
  ['checksum_sha256', 'g'.repeat(64)],
  ['source_url', 'not a URL'],
  ['source_url', '/relative.pdf'],
  ['source_url', 'file:///etc/passwd'],
  ['source_url', `https://example.com/${'a'.repeat(2048)}`],
] as const) {
  t.test(`${name} = ${JSON.stringify(text).slice(0, 40)} is refused at once`, async (t) => {
    const fields = new FormFields();
    const fault = { code: 'invalid_parameter', parameter: name, message: new RegExp(`^${name} must `) };
    t.throws(() => fields.add(name, text), fault);
    t.throws(() => parseJsonCreate({ ...JSON_CREATE, [name]: text }), fault);
  });
}

for (const [name, values] of Object.entries({
  visibility: [null, 1, ['private'], { toString: 'private' }],
  mode: [null, true],
  preserve_metadata: [null, 'true', 'false', 0, 1, []],
  purpose: [null, 1, ['a'], {}],
  customer_reference: [null, 1, false],
  checksum_sha256: [null, 1, [SHA256]],
  source_url: [null, 1, {}],
})) {
  t.test(`JSON ${name} of another type is refused`, async (t) => {
    for (const value of values) {
      const parse = () => parseJsonCreate({ ...JSON_CREATE, [name]: value });
      t.throws(parse, { code: 'invalid_parameter', parameter: name }, JSON.stringify(value));
    }
  });
}

t.test('a missing required field is named', async (t) => {
  t.throws(() => collect(['mode', 'async']), { code: 'missing_parameter', parameter: 'visibility' });
  for (const name of Object.keys(JSON_CREATE)) {
    const parse = () => parseJsonCreate({ ...JSON_CREATE, [name]: undefined });
    const absent = Object.fromEntries(Object.entries(JSON_CREATE).filter(([key]) => key !== name));
    t.throws(parse, { code: 'invalid_parameter', parameter: name });
    t.throws(() => parseJsonCreate(absent), { code: 'missing_parameter', parameter: name });
  }
});

t.test('repeated fields are refused, even with the same value', async (t) => {
  const fields = new FormFields();
  fields.add('preserve_metadata', 'false');
  t.throws(() => fields.add('preserve_metadata', 'false'), {
    code: 'duplicate_parameter',
    parameter: 'preserve_metadata',
  });
});

t.test('unknown fields are refused, even those that every object inherits', async (t) => {
  for (const name of [
    'preserve_metdata',
    'Visibility',
    '',
    '__proto__',
    'constructor',
    'toString',
    'hasOwnProperty',
  ]) {
    t.throws(() => collect([name, 'x']), { code: 'unknown_parameter', parameter: name }, name);
    const body = JSON.parse(`{${JSON.stringify(name)}: "x"}`);
    t.throws(() => parseJsonCreate(body), { code: 'unknown_parameter', parameter: name }, name);
  }
  t.throws(() => collect(['x'.repeat(5000), '']), {
    code: 'unknown_parameter',
    parameter: `${'x'.repeat(64)}…`,
  });
});

t.test('a JSON body must be an object', async (t) => {
  for (const body of [undefined, null, 1, 'x', [], [JSON_CREATE], true]) {
    t.throws(() => parseJsonCreate(body), { code: 'malformed_json' });
  }
});

t.test('any input gives a request or a ServiceError', async (t) => {
  const names = fc.oneof(
    fc.constantFrom('visibility', 'mode', 'purpose', 'preserve_metadata'),
    fc.string({ unit: 'binary' }),
  );
  const property = fc.property(
    fc.array(fc.tuple(names, fc.string({ unit: 'binary' })), { maxLength: 5 }),
    (entries) => {
      try {
        collect(...entries);
      } catch (error) {
        assert(error instanceof ServiceError && error.message.isWellFormed());
      }
    },
  );
  t.doesNotThrow(() => fc.assert(property, { numRuns: tries(200) }));
});

t.test('the fingerprint depends on every field and on the document', async (t) => {
  const base: CreateRequest = { visibility: 'private', mode: 'async', preserveMetadata: false };
  const requests: CreateRequest[] = [
    base,
    { ...base, visibility: 'partner' },
    { ...base, mode: 'blocking' },
    { ...base, preserveMetadata: true },
    { ...base, purpose: 'x' },
    { ...base, customerReference: 'x' },
    { ...base, customerReference: 'X' },
    { ...base, checksumSha256: SHA256.toLowerCase() },
  ];
  const prints = ['00', '01'].flatMap((document) =>
    requests.map((request) => fingerprint(request, document)),
  );
  t.equal(new Set(prints).size, prints.length);
  t.equal(fingerprint({ preserveMetadata: false, mode: 'async', visibility: 'private' }, '00'), prints[0]);
  t.match(prints[0], /^[0-9a-f]{64}$/);
});

t.test('the fingerprint has not changed, as stored ones are compared for 48 hours', async (t) => {
  const request = collect(['visibility', 'private'], ['customer_reference', 'Ä 1']);
  // sha256sum of {"customer_reference":"Ä 1","document_sha256":"00","mode":"async","preserve_metadata":false,"visibility":"private"}
  t.equal(fingerprint(request, '00'), 'c8c152858753211eaadb83951d5a0525152431d278c90fa6230840de3ba7014c');
});
