import './withoutEval.ts';
import { sha256, sha512 } from '@noble/hashes/sha2.js';
import { bytesToHex } from '@noble/hashes/utils.js';
import { RECEIPT_LENGTH_MAX, type Verdict, verifyReceiptText } from 'pdfseald/verify';

type Name = 'document' | 'receipt' | 'trust';

const WORDS = { good: 'Good', bad: 'Bad', unknown: 'Could not tell' };

const WORDS_OF_COPY = 'Good: the copy without XMP metadata, not the document as it was received';

/** A code unit of UTF-16 takes 3 bytes of UTF-8 at most. */
const TEXT_BYTES_MAX = 3 * RECEIPT_LENGTH_MAX;

const form = find('form', HTMLFormElement);
const outcome = find('#outcome', HTMLElement);
const table = find('table', HTMLTableElement);
const rows = find('tbody', HTMLTableSectionElement);

/** Which choice of files is being verified: an older one must not answer for a newer one. */
let attempt = 0;

form.addEventListener('change', () => void verifyChosen());
document.addEventListener('dragover', (event) => event.preventDefault());
document.addEventListener('drop', (event) => {
  event.preventDefault();
  void takeDropped(Array.from(event.dataTransfer?.files ?? []));
});

async function verifyChosen(): Promise<void> {
  attempt += 1;
  const current = attempt;
  show('', '');
  const [pdf, receipt, trust] = (['document', 'receipt', 'trust'] as const).map(
    (name) => inputOf(name).files?.[0],
  );
  if (pdf === undefined || receipt === undefined || trust === undefined) return;
  try {
    const texts = await Promise.all([readText(receipt), readText(trust)]);
    const digests = await digest(pdf, (share) => {
      if (current === attempt) show('', `Hashing the document: ${Math.floor(share * 100)} %`);
    });
    const verdict = verifyReceiptText(...texts, digests);
    if (current === attempt) showVerdict(verdict);
  } catch (error) {
    if (current === attempt) show('unknown', `${WORDS.unknown}: ${String(error)}`);
  }
}

/** Tells a receipt and a trust file by what is in them; anything else is the document. */
async function takeDropped(files: File[]): Promise<void> {
  attempt += 1;
  show('', '');
  for (const file of files) {
    const text = file.size <= TEXT_BYTES_MAX ? await file.text() : '';
    const name: Name = /"pdfseal-trust\//.test(text)
      ? 'trust'
      : /"receipt_sha512"/.test(text)
        ? 'receipt'
        : 'document';
    const transfer = new DataTransfer();
    transfer.items.add(file);
    inputOf(name).files = transfer.files;
  }
  await verifyChosen();
}

async function readText(file: File): Promise<string> {
  if (file.size > TEXT_BYTES_MAX) throw new Error(`${file.name} is too long`);
  // As `pdfseal verify` does; file.text() would pass over a byte order mark.
  return new TextDecoder('utf-8', { ignoreBOM: true }).decode(await file.arrayBuffer());
}

async function digest(file: File, progress: (share: number) => void) {
  const [short, long] = [sha256.create(), sha512.create()];
  let bytes = 0;
  const reader = file.stream().getReader();
  for (let read = await reader.read(); !read.done; read = await reader.read()) {
    short.update(read.value);
    long.update(read.value);
    bytes += read.value.length;
    progress(bytes / file.size);
  }
  return { sha256: bytesToHex(short.digest()), sha512: bytesToHex(long.digest()), bytes };
}

function showVerdict(verdict: Verdict): void {
  const isCopy = verdict.outcome === 'good' && verdict.matches === 'sealed_document';
  show(verdict.outcome, isCopy ? WORDS_OF_COPY : WORDS[verdict.outcome]);
  table.hidden = false;
  for (const { name, outcome, detail } of verdict.checks) {
    const row = rows.insertRow();
    row.className = outcome;
    for (const text of [name, outcome, detail]) row.insertCell().textContent = text;
  }
}

function show(className: string, text: string): void {
  outcome.className = className;
  outcome.textContent = text;
  table.hidden = true;
  rows.replaceChildren();
}

function inputOf(name: Name): HTMLInputElement {
  return find(`input[name=${name}]`, HTMLInputElement);
}

function find<Kind extends HTMLElement>(selector: string, kind: new () => Kind): Kind {
  const found = document.querySelector(selector);
  if (!(found instanceof kind)) throw new Error(`no ${selector}`);
  return found;
}
