/** Which file is which, for every order in which a forger's files can come among genuine ones. */
import t from 'tap';
import { english } from '../../page/english.ts';
import { type Assignment, assignRoles, type Role, readContent } from '../../page/roles.ts';
import { quoteName } from '../../page/text.ts';

const PDF = '%PDF-1.7 …';
const RECEIPT = '{"receipt_sha512": "00"}';
const TRUST = '{"schema": "pdfseal-trust/1"}';

async function assign(
  ...files: [name: string, content: string | Uint8Array<ArrayBuffer>, stated?: Role | undefined][]
) {
  const given = files.map(([name, content, statedRole]) => {
    const file = new File([content], name);
    return { file, content: readContent(file), ...(statedRole && { statedRole }) };
  });
  return plain(await assignRoles(given, english));
}

/** Without the marks that set names apart. */
function plain({ parts, faults, missing }: Assignment) {
  return {
    roles: parts.map(({ file, role }) => `${file.name}: ${role}`),
    faults: faults.map((fault) => fault.replace(/[\u2068\u2069]/g, '')),
    missing,
  };
}

function permutations<Item>(items: Item[]): Item[][] {
  if (items.length < 2) return [items];
  return items.flatMap((item) =>
    permutations(items.filter((other) => other !== item)).map((rest) => [item, ...rest]),
  );
}

t.test('each file gets its role from its content', async (t) => {
  for (const order of permutations<[string, string]>([
    ['a', PDF],
    ['b', RECEIPT],
    ['c', TRUST],
  ])) {
    const { roles, ...rest } = await assign(...order);
    t.strictSame(roles.toSorted(), ['a: document', 'b: receipt', 'c: trust']);
    t.strictSame(rest, { faults: [], missing: [] });
  }
  t.strictSame(await assign(['audit record.json', '{"schema": "pdfseal-audit/1"}'], ['b', RECEIPT]), {
    roles: ['audit record.json: document', 'b: receipt'],
    faults: [],
    missing: ['trust'],
  });
});

t.test('a forger’s files get no role, in whatever order they come', async (t) => {
  for (const order of permutations<[string, string]>([
    ['a.pdf', PDF],
    ['b.json', RECEIPT],
    ['c.json', TRUST],
    ['d.json', `${RECEIPT} `],
    ['Anhang 3.pdf', `${TRUST} `],
  ])) {
    const trusts = order.filter(([, content]) => content.startsWith(TRUST)).map(([name]) => `“${name}”`);
    t.strictSame((await assign(...order)).faults, [
      '“Anhang 3.pdf” is named as a PDF, but is a trust file',
      `2 files for one trust file: ${trusts.join(', ')}`,
    ]);
  }
});

t.test('a file that is given twice is named, whatever its role', async (t) => {
  for (const [content, ...more] of [
    [PDF],
    [RECEIPT],
    [TRUST, '2 files for one trust file: “a”, “b”'],
    ['neither'],
  ] as const)
    t.strictSame((await assign(['a', content], ['b', content])).faults, [
      '“a” and “b” are the same file, given twice: remove one',
      ...more,
    ]);
  t.strictSame((await assign(['a', PDF], ['b', `${PDF} `], ['c', RECEIPT], ['d', `${RECEIPT} `])).faults, []);
});

t.test('a file that can be read in two ways is refused', async (t) => {
  for (const [content, fault] of [
    ['{"receipt_sha512": "00", "schema": "pdfseal-trust/1"}', 'as a receipt and as a trust file'],
    ['{"name": "%PDF-1.4", "schema": "pdfseal-trust/1"}', 'as a document and as a trust file'],
    ['{"name": "%PDF-1.4", "receipt_sha512": 1}', 'as a document and as a receipt'],
    [
      '{"schema": "pdfseal-trust/1", "schema": "pdfseal-trust/2", "receipt_sha512": 1}',
      'as a receipt and as a trust file',
    ],
  ] as const) {
    for (const stated of [undefined, 'trust'] as const)
      t.strictSame((await assign(['x', content, stated])).faults, [`“x” can be read ${fault}`], content);
  }
});

t.test('a file whose name or chosen role contradicts its content is refused', async (t) => {
  for (const [name, content, stated, fault] of [
    ['x.pdf', RECEIPT, undefined, 'is named as a PDF, but is a receipt'],
    ['x.json.PDF', TRUST, undefined, 'is named as a PDF, but is a trust file'],
    ['x.pdf\u3164\u2800', TRUST, undefined, 'is named as a PDF, but is a trust file'],
    ['x.pdf\u200b ', TRUST, undefined, 'is named as a PDF, but is a trust file'],
    ['x.json', PDF, undefined, 'is named as JSON, but is a PDF'],
    ['x.ers', 'broken', undefined, 'is named as an evidence record, but is not one'],
    ['x.ers', PDF, undefined, 'is named as an evidence record, but is not one'],
    ['x', TRUST, 'document', 'was chosen as the document, but is a trust file'],
    ['x', RECEIPT, 'trust', 'was chosen as the trust file, but is a receipt'],
    ['x', PDF, 'trust', 'was chosen as the trust file, but is a document'],
    ['x', new Uint8Array(8_388_609), 'trust', 'is too long for a trust file'],
    ['x', new Uint8Array(8_388_609), 'record', 'is too long for an evidence record'],
  ] as const) {
    const { faults } = await assign([name, content, stated]);
    t.equal(faults.length, 1, name);
    t.ok(faults[0]?.endsWith(fault), fault);
  }
  t.strictSame((await assign(['x.json', '{}', 'trust'])).faults, [], 'what it is, the verifier says');
  t.strictSame((await assign(['x.ers', 'broken', 'record'])).faults, []);
});

t.test('what is left of a receipt or a trust file is taken for one', async (t) => {
  for (const [name, content, role] of [
    ['x', '{"job_id": "job_1", "receipt_sha512": "00", "evid', 'receipt'],
    ['x', '{"schema": "pdfseal-bundle/1", "rec', 'receipt'],
    ['x', '{"job_id": "job_1", "manifest": {}, "evidence": {}}', 'receipt'],
    ['invoice.pdf.receipt.json', '\0\0\0', 'receipt'],
    ['invoice.pdf.BUNDLE.json', 'x', 'receipt'],
    ['invoice.pdf.tlog-proof', 'x', 'receipt'],
    ['x', '{"schema": "pdfseal-trust/1", "logs', 'trust'],
    ['x', '{"schema": "pdfseal-audit/1", "a', 'document'],
    ['letter', 'The receipt_sha512 is a member of receipts.', 'document'],
  ] as const)
    t.match(await assign([name, content]), { roles: [`${name}: ${role}`], faults: [] }, content);
  const both = '{"receipt_sha512": "00", "schema": "pdfseal-trust/1"';
  t.strictSame((await assign(['x', both])).faults, ['“x” can be read as a receipt and as a trust file']);
  const pdf = '%PDF-1.7 {"receipt_sha512": "00", "schema": "pdfseal-trust/1"';
  t.match(await assign(['x.pdf', pdf]), { roles: ['x.pdf: document'], faults: [] }, 'in a PDF it is text');
  const named = await assign(['x.receipt.json', PDF]);
  t.strictSame(named.faults, ['“x.receipt.json” is named as JSON, but is a PDF']);
});

t.test('a receipt and a trust file are enough to check what can be checked', async (t) => {
  t.strictSame((await assign(['b', RECEIPT], ['c', TRUST])).missing, []);
  t.strictSame((await assign(['b', RECEIPT])).missing, ['trust']);
  t.strictSame((await assign(['c', TRUST])).missing, ['document', 'receipt']);
});

t.test('an evidence record is recognized by its first octets, and is optional', async (t) => {
  const record = (...octets: number[]) => new Uint8Array(octets);
  const rest = [0x02, 0x01, 0x01, 0x30, 0x00];
  for (const head of [
    [0x30, 0x05],
    [0x30, 0x81, 0x05],
    [0x30, 0x82, 0x00, 0x05],
  ])
    t.strictSame((await assign(['a', record(...head, ...rest)])).roles, ['a: record'], head.join(' '));
  for (const octets of [[], [0x30], [0x30, 0x05, 0x02, 0x01, 0x02, 0x30], [0x31, 0x05, ...rest]])
    t.strictSame((await assign(['a', record(...octets)])).roles, ['a: document'], octets.join(' '));
  t.strictSame((await assign()).missing, ['document', 'receipt', 'trust']);
  const longest = new Uint8Array(4_194_304);
  longest.set([0x30, 0x83, 0x3f, 0xff, 0xfb, ...rest]);
  t.match(await assign(['a.ers', longest]), { roles: ['a.ers: record'], faults: [] });
});

t.test('only the beginning of a huge file is read', async (t) => {
  const read: number[] = [];
  class Huge extends File {
    override slice(start?: number, end?: number) {
      read.push(end ?? Infinity);
      return super.slice(start, end);
    }
    override arrayBuffer(): Promise<ArrayBuffer> {
      throw new Error('all of it was read');
    }
  }
  const content = await readContent(new Huge([PDF, new Uint8Array(8_400_000)], 'x'));
  t.strictSame(content, { roles: ['document'] });
  t.strictSame(read, [1024]);
});

t.test('the digest is over the bytes, including a byte order mark', async (t) => {
  const content = await readContent(new File(['\ufeff', TRUST], 'x'));
  t.strictSame(content.roles, []);
  t.match(content, { text: `\ufeff${TRUST}`, sha256: /^[0-9a-f]{64}$/ });
});

t.test('a file name cannot disguise the text around it', async (t) => {
  t.equal(
    quoteName('a\u202eb\u0007\n\u2028<b>\u{e0041}'),
    '“\u2068a\\u{202e}b\\u{7}\\u{a}\\u{2028}<b>\\u{e0041}\u2069”',
  );
  t.equal(quoteName(`${'x'.repeat(1000)}.pdf`), `“\u2068${'x'.repeat(50)}…${'x'.repeat(46)}.pdf\u2069”`);
  t.equal(quoteName('صورة.pdf'), '“\u2068صورة.pdf\u2069”');
});
