import { generateKeyPairSync } from 'node:crypto';
import t from 'tap';
import { type Cosigner, encodeCosigner } from '../../src/log/cosignature.ts';
import { encodeVkey } from '../../src/log/verifierKey.ts';
import { parseWitnessPolicy, satisfiesPolicy, WitnessPolicyError } from '../../src/log/witnessPolicy.ts';
import { fc, mutations } from '../support/seed.ts';
import litewitness from '../vectors/witness/litewitness.json' with { type: 'json' };

function witnessKey(name: string, algorithm: Cosigner['algorithm'] = 'ed25519'): string {
  const { publicKey } =
    algorithm === 'ed25519' ? generateKeyPairSync('ed25519') : generateKeyPairSync('ml-dsa-44');
  const key = publicKey
    .export({ format: 'der', type: 'spki' })
    .subarray(algorithm === 'ed25519' ? -32 : -1312);
  return encodeCosigner({ name, algorithm, key });
}

const keys = Object.fromEntries(['a', 'b', 'c', 'd'].map((name) => [name, witnessKey(`${name}.example/w`)]));
const { a, b, c, d } = keys as Record<'a' | 'b' | 'c' | 'd', string>;
const postQuantum = witnessKey('pq.example/w', 'mldsa44');
const postQuantumLog = witnessKey('pq.example/log', 'mldsa44');
const spki = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  .publicKey.export({ format: 'der', type: 'spki' })
  .toString('base64');
const [ecdsa, ecdsaRenamed] = ['example.com/log', 'example.org/log'].map((name) =>
  encodeVkey(name, { algorithm: 'ecdsa-p256', spki }),
);

const text = `# Who cosigns our log
log ${litewitness.log} https://seal.example/v1/log
log ${ecdsa}
log ${postQuantumLog}

witness a ${a} https://a.example/witness/
witness\tb  ${b}   http://10.0.0.7:7380
  # an isolated site
witness c ${c}
witness d ${postQuantum} https://d.example
group near any a b
group far all c d
group both 2 near far
quorum both
`;

t.test('a policy is read with its witnesses and groups', async (t) => {
  const { logs, witnesses, groups, quorum } = parseWitnessPolicy(text);
  t.strictSame(
    logs.map(({ key, url }) => [key.algorithm, url?.href]),
    [
      ['ed25519', 'https://seal.example/v1/log'],
      ['ecdsa-p256', undefined],
      ['mldsa44', undefined],
    ],
  );
  t.strictSame(
    witnesses.map(({ label, name, algorithm, url }) => [label, name, algorithm, url?.href]),
    [
      ['a', 'a.example/w', 'ed25519', 'https://a.example/witness/'],
      ['b', 'b.example/w', 'ed25519', 'http://10.0.0.7:7380/'],
      ['c', 'c.example/w', 'ed25519', undefined],
      ['d', 'pq.example/w', 'mldsa44', 'https://d.example/'],
    ],
  );
  t.strictSame(groups, [
    { name: 'near', needed: 1, members: ['a', 'b'] },
    { name: 'far', needed: 2, members: ['c', 'd'] },
    { name: 'both', needed: 2, members: ['near', 'far'] },
  ]);
  t.equal(quorum, 'both');
});

t.test('the quorum follows from the groups', async (t) => {
  const policy = parseWitnessPolicy(text);
  const met: Record<string, boolean> = {
    '': false,
    a: false,
    'a b': false,
    'c d': false,
    'a c': false,
    'a c d': true,
    'b c d': true,
    'a b c d': true,
    'near far': false,
    both: false,
    'a far': false,
  };
  for (const [names, expected] of Object.entries(met))
    t.equal(satisfiesPolicy(policy, new Set(names.split(' '))), expected, names);
  const none = parseWitnessPolicy('quorum none');
  t.ok(satisfiesPolicy(none, new Set()));
  const one = parseWitnessPolicy(`witness w ${a}\nquorum w\n`);
  t.ok(satisfiesPolicy(one, new Set(['w'])));
  t.notOk(satisfiesPolicy(one, new Set(['W'])));
});

const faults: Record<string, [policy: string, message: RegExp]> = {
  nothing: ['', /^line 1: the policy has no quorum; end it with/],
  'no quorum': [`witness a ${a}\n`, /no quorum/],
  'two quorums': ['quorum none\nquorum none\n', /^line 2: there is a quorum already/],
  'an unknown quorum': ['quorum x\n', /"x" is not a witness or group of a line above/],
  'a quorum of two': [`witness a ${a}\nwitness b ${b}\nquorum a b\n`, /^line 3: write `quorum <name>`/],
  'an unknown keyword': ['\n\nwitnesses a\n', /^line 3: "witnesses" is not a keyword/],
  'another case': ['Quorum none', /"Quorum" is not a keyword/],
  'a log without a key': ['log\nquorum none', /^line 1: write `log <vkey> \[url\]`/],
  'a key that is none': ['log example.com+1234abcd+AAAA\nquorum none', /is not a verifier key of a log/],
  'a witness as a log': [`log ${a}\nquorum none`, /is not a verifier key of a log/],
  'a log as a witness': [`witness a ${litewitness.log}\nquorum none`, /its type is 04 \(Ed25519\) or 06/],
  'a log twice': [
    `log ${litewitness.log}\nlog ${litewitness.log}\nquorum none`,
    /^line 2: the key of this log is there twice/,
  ],
  'the key of a log under two names': [
    `log ${ecdsa}\nlog ${ecdsaRenamed}\nquorum none`,
    /^line 2: the key of this log is there twice/,
  ],
  'too many items': [
    `witness a ${a} https://a.example # ours\nquorum a`,
    /write `witness <name> <vkey> \[url\]`/,
  ],
  'a witness twice': [`witness a ${a}\nwitness a ${b}\nquorum a`, /^line 2: "a" is defined already/],
  'the log as its own witness': [
    `log ${postQuantum}\nwitness self ${postQuantum}\nquorum self`,
    /^line 2: the key of a witness has the name of the log, "pq\.example\/w": a log cannot witness itself/,
  ],
  'the log as its own witness, whose key follows': [
    `witness self ${postQuantum}\nlog ${postQuantum}\nquorum self`,
    /^line 2: the key of a witness has the name of the log/,
  ],
  'a key twice': [`witness a ${a}\nwitness b ${a}\nquorum a`, /another witness has this key/],
  'a key under two names': [
    `witness a ${a}\nwitness b ${renamed(a)}\nquorum a`,
    /^line 2: another witness has this key/,
  ],
  'a reserved name': [`witness none ${a}\nquorum none`, /none is reserved/],
  'a group as a witness': [`witness a ${a}\ngroup a any a\nquorum a`, /"a" is defined already/],
  'an empty group': [`witness a ${a}\ngroup g any\nquorum a`, /^line 2: write `group <name>/],
  'use before definition': [
    `group g any a\nwitness a ${a}\nquorum g`,
    /^line 1: "a" is not a witness or group/,
  ],
  'a group of itself': [`witness a ${a}\ngroup g any g\nquorum g`, /"g" is not a witness or group/],
  'a member twice': [`witness a ${a}\ngroup g 2 a a\nquorum g`, /"a" is in a group already/],
  'a member of two groups': [
    `witness a ${a}\ngroup g any a\ngroup h any a\nquorum g`,
    /^line 3: "a" is in a group/,
  ],
  'more than all': [`witness a ${a}\ngroup g 2 a\nquorum g`, /"2" is not all, any or a number from 1 to 1/],
  'a threshold of zero': [`witness a ${a}\ngroup g 0 a\nquorum g`, /"0" is not all/],
  'a threshold with a sign': [`witness a ${a}\ngroup g +1 a\nquorum g`, /"\+1" is not all/],
  'a URL of another kind': [
    `witness a ${a} file:///etc/passwd\nquorum a`,
    /is not a URL that begins with http/,
  ],
  'a URL with a secret': [
    `witness a ${a} https://u:p@a.example\nquorum a`,
    /has a user, a query or a fragment/,
  ],
  'a URL with a query': [
    `witness a ${a} https://a.example/?x\nquorum a`,
    /has a user, a query or a fragment/,
  ],
  'line ends of Windows': ['quorum none\r\n', /^line 1: the line has the control character "\\r"; remove it/],
  'a control character in a comment': ['# \u0007\nquorum none\n', /^line 1: the line has the control/],
  'a control character in a URL': [
    `witness a ${a} https://a.example\u0000\nquorum a`,
    /^line 1: the line has the control character "\\u0000"/,
  ],
  'too long': [`quorum none\n${'#'.repeat(300_000)}`, /longer than 262144 characters/],
  'too many witnesses': [
    `${Array.from({ length: 33 }, (_, n) => `witness w${n} ${witnessKey('w')}\n`).join('')}quorum w0`,
    /^line 33: a policy has at most 32 witnesses/,
  ],
};

/** The same public key under another name. */
function renamed(vkey: string): string {
  const key = Buffer.from(vkey.split('+').slice(2).join('+'), 'base64').subarray(1);
  return encodeCosigner({ name: 'other.example/w', algorithm: 'ed25519', key });
}

t.test('a log cannot be its own witness, even if no line names it', async (t) => {
  const policy = `witness self ${postQuantum}\nquorum self\n`;
  t.equal(parseWitnessPolicy(policy, 'pq.example/log').witnesses.length, 1);
  t.throws(() => parseWitnessPolicy(policy, 'pq.example/w'), {
    name: 'WitnessPolicyError',
    message: /^line 1: the key of a witness has the name of the log/,
  });
});

for (const [what, [policy, message]] of Object.entries(faults)) {
  t.test(`refused: ${what}`, async (t) => {
    t.throws(() => parseWitnessPolicy(policy), { name: 'WitnessPolicyError', message });
  });
}

t.test('32 witnesses, and names of groups in groups, are read', async (t) => {
  const witnesses = Array.from({ length: 32 }, (_, n) => `witness w${n} ${witnessKey(`w${n}`)}\n`);
  const groups = Array.from(
    { length: 32 },
    (_, n) => `group g${n} all w${n}${n === 0 ? '' : ` g${n - 1}`}\n`,
  );
  const policy = parseWitnessPolicy(`${witnesses.join('')}${groups.join('')}quorum g31\n`);
  const all = Array.from({ length: 32 }, (_, n) => `w${n}`);
  t.ok(satisfiesPolicy(policy, new Set(all)));
  for (const missing of all) t.notOk(satisfiesPolicy(policy, new Set(all.filter((one) => one !== missing))));
});

t.test('any text is read or refused with the number of a line', async (t) => {
  const words = fc.constantFrom(
    ...[
      'log',
      'witness',
      'group',
      'quorum',
      'none',
      'all',
      'any',
      '1',
      '2',
      '#',
      ' ',
      '\t',
      '\n',
      '\r',
      '+',
      'w',
      'g',
    ],
    ...[a, b, c, d, litewitness.log, 'https://a.example', '\u2003', '\u0000'],
  );
  const texts = fc.array(fc.tuple(words, fc.constantFrom('', ' ', '\n')), { maxLength: 40 });
  const outcomes = { read: 0, refused: 0 };
  fc.assert(
    fc.property(texts, (parts) => {
      try {
        parseWitnessPolicy(parts.flat().join(''));
        outcomes.read += 1;
      } catch (error) {
        if (!(error instanceof WitnessPolicyError) || !/^line \d+: ./.test(error.message)) throw error;
        outcomes.refused += 1;
      }
    }),
    { numRuns: mutations(20_000) },
  );
  t.ok(outcomes.refused > mutations(20_000) / 2, JSON.stringify(outcomes));
});

t.test('one changed character of a policy changes who counts, or nothing, or is refused', async (t) => {
  const labels = ['a', 'b', 'c', 'd'];
  const original = parseWitnessPolicy(text);
  fc.assert(
    fc.property(fc.nat(text.length - 1), fc.nat(0x7e), (at, code) => {
      try {
        const changed = parseWitnessPolicy(
          text.slice(0, at) + String.fromCharCode(code) + text.slice(at + 1),
        );
        // A key is changed only together with its id: no witness is ever another.
        for (const { key } of changed.witnesses)
          if (!original.witnesses.some((one) => Buffer.compare(one.key, key) === 0)) return false;
        return (
          satisfiesPolicy(changed, new Set(labels)) ||
          changed.witnesses.some(({ label }) => !labels.includes(label))
        );
      } catch (error) {
        return error instanceof WitnessPolicyError;
      }
    }),
    { numRuns: mutations(20_000) },
  );
  t.pass();
});
