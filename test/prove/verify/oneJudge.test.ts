/** The verdict on a receipt is the same, check by check, whoever gives it; and the pages have words for each. */
import { readFileSync } from 'node:fs';
import t, { type Test } from 'tap';
import { BAD, CHECKS, UNKNOWN } from '../../../page/englishVerdicts.ts';
import { type CheckName, REASONS, type Reason } from '../../../src/prove/verify/finding.ts';
import { type Verdict, verifyReceiptText, verifySealedPdf } from '../../../src/prove/verify/verify.ts';
import { pdfseal, runProgram } from '../../support/commands.ts';
import { digestsOf, makeFixtures } from '../../support/receipts.ts';
import { makeSealedPdfs, SEALED_TRUST } from '../../support/sealedPdfs.ts';
import { type Asked, type AskedPdf, blobReader } from './judgeAsked.ts';

/** One receipt of an earlier version stands for all. */
const fixtures = (await makeFixtures()).filter(({ name }) => !/^installation.* [2-9]$/.test(name));
const asked = fixtures.map(
  ({ receipt, trust, document }): Asked => ({ receipt, trust, digests: digestsOf(document) }),
);
const own = asked.map(({ receipt, trust, digests }) => verifyReceiptText(receipt, trust, digests));

const sealedPdfs = await makeSealedPdfs();
const ownOfPdfs: Verdict[] = [];
for (const { pdf } of sealedPdfs)
  ownOfPdfs.push((await verifySealedPdf(blobReader(pdf), SEALED_TRUST)).verdict);

/** What each judge must say alike. */
function linesOf({ outcome, checks }: Pick<Verdict, 'outcome' | 'checks'>) {
  return { outcome, checks: checks.map(({ name, outcome, code }) => [name, outcome, code]) };
}

type Said = readonly Pick<Verdict, 'outcome' | 'checks'>[];

function alike(t: Test, verdicts: Said, of: { name: string; outcome: string }[] = fixtures, by = own): void {
  t.equal(verdicts.length, of.length);
  for (const [n, { name, outcome }] of of.entries()) {
    const [said, expected] = [verdicts[n], by[n]];
    if (said === undefined || expected === undefined) throw new Error(name);
    t.equal(said.outcome, outcome, name);
    t.strictSame(linesOf(said), linesOf(expected), name);
  }
}

t.test('the command says what the library says', async (t) => {
  const verdicts: Verdict[] = [];
  for (const { document, receipt, trust } of fixtures) {
    const dir = t.testdir({ document, receipt, trust });
    const args = ['verify', 'document', 'receipt', '--trust', 'trust', '--json'];
    const { status, stdout } = await pdfseal(args, { cwd: dir });
    const verdict = JSON.parse(stdout);
    t.equal(status, { good: 0, bad: 1, unknown: 2 }[verdict.outcome as Verdict['outcome']]);
    verdicts.push(verdict);
  }
  alike(t, verdicts);
});

t.test('the library says the same as it is exported, and as a browser runs it', async (t) => {
  const exported = await import('pdfseald/verify');
  const judge = ({ receipt, trust, digests }: Asked) => exported.verifyReceiptText(receipt, trust, digests);
  alike(t, asked.map(judge));
  const { BUNDLE_LENGTH_MAX, RECEIPT_LENGTH_MAX, RECEIPT_BYTES_MAX, parseReceiptJson } = exported;
  t.strictSame(
    [BUNDLE_LENGTH_MAX, RECEIPT_LENGTH_MAX, RECEIPT_BYTES_MAX],
    [2 ** 23, 2 ** 20, 3 * 2 ** 20],
    'with the bounds of what a program must read',
  );
  t.equal(parseReceiptJson(`{"a":${' '.repeat(RECEIPT_LENGTH_MAX)}1}`), undefined);
  const preload = ['--disable-warning=ExperimentalWarning', '--import=./test/prove/verify/asBrowser.ts'];
  const program = [process.execPath, ...preload, 'test/prove/verify/judgeAsked.ts'];
  const { stdout, stderr } = await runProgram(program, { input: JSON.stringify(asked) });
  t.ok(stdout.startsWith('['), stderr);
  alike(t, JSON.parse(stdout));
});

t.test('a PDF that holds its receipt gets one verdict from command, library, browser and page', async (t) => {
  const verdicts: Record<'command' | 'exported' | 'page', Verdict[]> = {
    command: [],
    exported: [],
    page: [],
  };
  const exported = await import('pdfseald/verify');
  const { judgeAll } = await pageJudge();
  for (const { name, pdf, original } of sealedPdfs) {
    const cwd = t.testdir({ 'sealed.pdf': pdf, 'trust.json': SEALED_TRUST });
    const args = ['verify', 'sealed.pdf', '--trust', 'trust.json', '--original', 'original.pdf', '--json'];
    const verdict: Verdict = JSON.parse((await pdfseal(args, { cwd })).stdout);
    verdicts.command.push(verdict);
    if (original !== undefined) t.strictSame(readFileSync(`${cwd}/original.pdf`), original, name);
    verdicts.exported.push((await exported.verifySealedPdf(blobReader(pdf), SEALED_TRUST)).verdict);
    const parts = [{ role: 'document', file: new File([Uint8Array.from(pdf)], 'sealed.pdf') }];
    const [result, more] = await judgeAll({ parts, records: new Map() }, SEALED_TRUST, () => true);
    t.equal(more, undefined);
    if (result) verdicts.page.push(result.verdict);
  }
  for (const each of Object.values(verdicts)) alike(t, each, sealedPdfs, ownOfPdfs);
  const preload = ['--disable-warning=ExperimentalWarning', '--import=./test/prove/verify/asBrowser.ts'];
  const program = [process.execPath, ...preload, 'test/prove/verify/judgeAsked.ts'];
  const input = sealedPdfs.map(({ pdf }): AskedPdf => ({ pdf: pdf.toString('base64'), trust: SEALED_TRUST }));
  const { stdout, stderr } = await runProgram(program, { input: JSON.stringify(input) });
  t.ok(stdout.startsWith('['), stderr);
  alike(t, JSON.parse(stdout), sealedPdfs, ownOfPdfs);
});

const PAGE = new URL('../../../page/', import.meta.url);

/** `judgeAll` of the page; its types are those of a browser. */
interface PageJudge {
  judgeAll(given: object, trust: string, progress: () => boolean): Promise<{ verdict: Verdict }[]>;
}

async function pageJudge(): Promise<PageJudge> {
  return import(new URL('judge.ts', PAGE).href);
}

t.test('the page judges as the library does, and the page of the console asks the same judge', async (t) => {
  const { judgeAll } = await pageJudge();
  const verdicts: Verdict[] = [];
  for (const { document, receipt, trust } of fixtures) {
    const parts = [
      { role: 'document', file: new File([document], 'document.pdf') },
      { role: 'receipt', file: new File([receipt], 'receipt.json'), text: receipt },
    ];
    const results = await judgeAll({ parts, records: new Map() }, trust, () => true);
    verdicts.push(...results.map(({ verdict }) => verdict));
  }
  alike(t, verdicts);
  const console = readFileSync(new URL('console/receipt.ts', PAGE), 'utf8');
  t.match(console, /^import \{ verifyReceiptText \} from 'pdfseald\/verify';$/m);
  t.match(
    console,
    /const verdict = verifyReceiptText\(receiptText, trustText, hashed, seal && \{ seal \}\);/,
  );
});

/** The checks that can be open for each reason. */
const CHECKS_OF: Record<Reason, readonly CheckName[]> = {
  accepted_after_sealed: ['times'],
  authority_unknown: ['time-stamp'],
  below_policy: ['witnesses'],
  below_quorum: ['quorum', 'witnesses'],
  bundle_newer: ['bundle'],
  certificate_expired: ['renewal', 'evidence-record'],
  cosigned_before_sealed: ['times'],
  document_missing: ['document'],
  epoch_unknown: ['quorum', 'epoch', 'witnesses'],
  in_the_future: ['times'],
  log_forked: ['witnesses'],
  log_unknown: ['checkpoint', 'quorum', 'epoch'],
  no_witness_policy: ['witnesses'],
  own_word: ['time-stamp'],
  proof_wrong: ['witnesses'],
  receipt_missing: ['seal'],
  receipt_newer: ['receipt'],
  revocation_not_shown: ['revocation'],
  revoked: ['revocation'],
  revoked_since: ['revocation'],
  signature_wrong: ['quorum', 'witnesses'],
  stamped_before_sealed: ['times'],
  timestamp_missing: ['time-stamp'],
  witnesses_not_shown: ['witnesses'],
};

t.test('the pages have words for every check that is open, whatever its reason', async (t) => {
  const docs = readFileSync(new URL('../../../docs/verify.md', import.meta.url), 'utf8');
  for (const reason of REASONS) {
    const [, outcomes = ''] = new RegExp(`^\\| \`${reason}\` \\| ([^|]+) \\|`, 'm').exec(docs) ?? [];
    t.match(outcomes, /failed|unknown|not shown|passed/, reason);
    for (const name of CHECKS_OF[reason]) {
      const words = CHECKS[name];
      if (outcomes.includes('failed')) t.ok(words.failed && (BAD[reason] ?? BAD[name]), `${reason}: ${name}`);
      if (/^unknown/.test(outcomes))
        t.ok(words.unknown && (UNKNOWN[reason] ?? UNKNOWN[name]), `${reason}: ${name}`);
      if (outcomes.includes('not shown')) t.ok(words.not_shown, `${reason}: ${name}`);
      if (outcomes.includes('passed')) t.ok(words.passed, `${reason}: ${name}`);
    }
  }
  for (const { checks } of own)
    for (const { name, outcome, code } of checks) {
      t.ok(CHECKS[name][outcome], `${name}: ${outcome}`);
      t.ok(
        code === `${name}_${outcome}`.replaceAll('-', '_') || CHECKS_OF[code as Reason].includes(name),
        `${name}: ${code}`,
      );
    }
});
