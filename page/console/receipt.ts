/** The script of a receipt's page: verifies the receipt like the page for auditors, with data from the service. */
import '../withoutEval.ts';
import { sha256 } from '@noble/hashes/sha2.js';
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils.js';
import { verifyReceiptText } from 'pdfseald/verify';
import { claimedDigests, provenBy } from '../../dist/prove/verify/proven.js';
import { unfoldOnPaper } from '../browser.ts';
import { element, fill, find, section, sign, value } from '../dom.ts';
import { checksOf, headline, type Result, signersOf, storyOf } from '../resultView.ts';
import type { Part, Role } from '../roles.ts';
import { type Story, tellReceipt } from '../story.ts';
import { trustOf } from '../trustView.ts';
import { wordsFor } from '../words.ts';
import { type Hashed, takeFiles } from './fileDrop.ts';
import { remember, remembered } from './lastFile.ts';

const words = wordsFor(navigator.languages);
const FETCH_MS_MAX = 30_000;
const TONES = { good: 'good', bad: 'bad', unknown: 'warning' } as const;
const verdictBox = find('#verdict', HTMLElement);
const report = find('#report', HTMLElement);

/** The data from the service. */
const texts = Promise.all([
  fetchText(verdictBox.dataset.receipt ?? ''),
  fetchText(verdictBox.dataset.trust ?? ''),
]);

void start();
offerPrint();
unfoldOnPaper(report);
// Registered at once: otherwise the browser would open a file dropped before the data has arrived.
takeFiles(async (hashed) => {
  remember(hashed);
  await texts.then(
    ([receipt, trust]) => show(receipt, trust, hashed),
    () => {}, // already reported
  );
  verdictBox.scrollIntoView({ block: 'nearest' });
});

async function start(): Promise<void> {
  try {
    const [receipt, trust] = await texts;
    const last = remembered();
    show(receipt, trust, last && claimedDigests(receipt).includes(last.sha256) ? last : undefined);
  } catch {
    const { failed = '', failedHow = '' } = verdictBox.dataset;
    verdictBox.classList.add('warning');
    const said = element('div', {}, element('p', { class: 'lead' }, failed), element('p', {}, failedHow));
    verdictBox.replaceChildren(element('div', { class: 'verdict' }, sign('unknown'), said));
  }
}

/** Shows what follows from the receipt, and from the document if there is one. */
function show(receiptText: string, trustText: string, hashed: Hashed | undefined): void {
  const seal = hashed?.attached && sealOf(hashed.attached, receiptText);
  const verdict = verifyReceiptText(receiptText, trustText, hashed, seal && { seal });
  const proven = provenBy(receiptText, trustText, verdict);
  const result: Result = {
    receipt: partOf('receipt', receiptText),
    verdict,
    ...(hashed && { document: { ...partOf('document', '', hashed.name), digests: hashed } }),
    ...(proven && { proven }),
  };
  // Without its document a verdict is never good, although nothing is wrong.
  const alone = hashed === undefined ? tellReceipt(verdict, proven, words) : undefined;
  const name =
    hashed && element('p', { class: 'small' }, `${words.slots.document.name}: `, value(hashed.name));
  const checks = section(words.checks.title, checksOf(result, words));
  const signers = proven && section(words.signers.title, ...signersOf(proven, words));
  const details = element('div', { class: 'columns' }, signers, checks);
  const onDoubt = (doubt: Story | undefined) => {
    const outcome = doubt ? 'unknown' : verdict.outcome;
    const isPlain = alone !== undefined && doubt === undefined;
    const said = isPlain
      ? headline('good', words.receiptOnly.label, alone, words)
      : headline(outcome, words.outcomes[outcome], doubt ?? storyOf(result, words), words);
    verdictBox.className = `health ${isPlain ? 'plain' : TONES[outcome]}`;
    fill(verdictBox, element('div', { class: 'verdict' }, ...said), name);
    details.hidden = doubt !== undefined;
  };
  report.replaceChildren(details, trustOf(partOf('trust', trustText), words, onDoubt));
}

/** The finding about a PDF that holds its receipt is about that receipt, which need not be the one of this page. */
function sealOf({ receiptSha256, seal }: NonNullable<Hashed['attached']>, receiptText: string) {
  const isOwn = receiptSha256 === bytesToHex(sha256(utf8ToBytes(receiptText)));
  return isOwn
    ? seal
    : { outcome: 'unknown' as const, detail: 'it holds another receipt than that of this page' };
}

function partOf(role: Role, text: string, name = `${role}.json`): Part {
  const file = new File([text], name);
  return { file, role, roles: [role], text, sha256: bytesToHex(sha256(utf8ToBytes(text))) };
}

async function fetchText(url: string): Promise<string> {
  const response = await fetch(url, { signal: AbortSignal.timeout(FETCH_MS_MAX) });
  if (!response.ok) throw new Error(`${url}: ${response.status}`);
  return response.text();
}

function offerPrint(): void {
  const button = find('#print', HTMLButtonElement);
  button.hidden = false;
  button.addEventListener('click', () => print());
}
