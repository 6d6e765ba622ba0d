import './withoutEval.ts';
import { sha256, sha512 } from '@noble/hashes/sha2.js';
import { bytesToHex } from '@noble/hashes/utils.js';
import { trustFileWords, type Verdict, verifyReceiptText } from 'pdfseald/verify';
import {
  assignRoles,
  type Given,
  type Part,
  quoteName,
  type Role,
  readContent,
  WORDS_OF_ROLE,
} from './roles.ts';

const WORDS = { good: 'Good', bad: 'Bad', unknown: 'Could not tell' };

const WORDS_OF_COPY = 'Good: the copy without XMP metadata, not the document as it was received';

/** Far more than the three that are wanted: the list stays short enough to be read. */
const FILES_MAX = 12;

const form = find('form', HTMLFormElement);
const list = find('#files', HTMLOListElement);
const faultList = find('#faults', HTMLUListElement);
const outcome = find('#outcome', HTMLElement);
const trustLine = find('#trust', HTMLElement);
const table = find('table', HTMLTableElement);
const rows = find('tbody', HTMLTableSectionElement);

/** All that was given and not removed. Nothing in it is ever replaced by what comes later. */
let given: Given[] = [];

/** How many more were given than are listed. */
let surplus = 0;

/** Which change of the files is being judged: an older one must not answer for a newer one. */
let generation = 0;

form.addEventListener('change', ({ target }) => {
  if (!(target instanceof HTMLInputElement)) return;
  take(Array.from(target.files ?? []), target.name as Role);
  target.value = '';
});
form.addEventListener('reset', () => {
  given = [];
  surplus = 0;
  void judge();
});
document.addEventListener('dragover', (event) => event.preventDefault());
document.addEventListener('drop', (event) => {
  event.preventDefault();
  take(Array.from(event.dataTransfer?.files ?? []));
});
void judge();

function take(files: File[], statedRole?: Role): void {
  const room = FILES_MAX - given.length;
  surplus += Math.max(0, files.length - room);
  for (const file of files.slice(0, room)) {
    const content = readContent(file);
    content.catch(() => {}); // whoever judges is told
    given.push({ file, content, ...(statedRole && { statedRole }) });
  }
  void judge();
}

/** Says what is to be said of the files at hand; a verdict only where each role has its one file. */
async function judge(): Promise<void> {
  generation += 1;
  const current = generation;
  const isOld = () => current !== generation;
  const files = [...given];
  showFiles(files);
  show('reading', 'Reading …');
  try {
    const { parts, faults, missing } = await assignRoles(files);
    if (isOld()) return;
    showFiles(files, parts);
    if (surplus > 0) faults.push(`${surplus} more files were given, and are not looked at: start again`);
    const [pdf, receipt, trust] = (['document', 'receipt', 'trust'] as const).map((role) =>
      parts.find((part) => part.role === role),
    );
    if (faults.length > 0) showFaults(faults);
    else if (pdf && receipt && trust) await verify(pdf, receipt, trust, isOld);
    else show('waiting', `Still missing: ${missing.map((role) => WORDS_OF_ROLE[role]).join(', ')}`);
  } catch (error) {
    if (!isOld()) show('unknown', `${WORDS.unknown}: ${String(error)}`);
  }
}

async function verify(pdf: Part, receipt: Part, trust: Part, isOld: () => boolean): Promise<void> {
  const digests = await digest(pdf.file, (share) => {
    if (isOld()) return false;
    show('reading', `Hashing the document: ${Math.floor(share * 100)} %`);
    return true;
  });
  if (digests === undefined || isOld()) return;
  showVerdict(verifyReceiptText(receipt.text ?? '', trust.text ?? '', digests), trust.sha256 ?? '');
}

/** Both digests; undefined when `progress` was told of a share of the file and did not want the rest. */
async function digest(file: File, progress: (share: number) => boolean) {
  const [short, long] = [sha256.create(), sha512.create()];
  let bytes = 0;
  const reader = file.stream().getReader();
  for (let read = await reader.read(); !read.done; read = await reader.read()) {
    short.update(read.value);
    long.update(read.value);
    bytes += read.value.length;
    if (progress(bytes / file.size)) continue;
    await reader.cancel();
    return undefined;
  }
  return { sha256: bytesToHex(short.digest()), sha512: bytesToHex(long.digest()), bytes };
}

function showFiles(files: Given[], parts: Part[] = []): void {
  const rolesHeld = new Set(parts.map(({ role }) => role));
  for (const input of form.querySelectorAll('input')) input.disabled = rolesHeld.has(input.name as Role);
  list.replaceChildren(
    ...files.map((one) => {
      const part = parts.find(({ file }) => file === one.file);
      const item = document.createElement('li');
      const words = part ? `${WORDS_OF_ROLE[part.role]}: ` : '';
      item.append(`${words}${quoteName(one.file.name)}, ${one.file.size} bytes `);
      if (part?.role === 'trust' && part.sha256) item.append(`with SHA-256 ${part.sha256} `);
      item.append(removeButton(one));
      return item;
    }),
  );
}

function removeButton(one: Given): HTMLButtonElement {
  const button = document.createElement('button');
  button.type = 'button';
  button.textContent = 'Remove';
  button.setAttribute('aria-label', `Remove ${quoteName(one.file.name)}`);
  button.addEventListener('click', () => {
    given = given.filter((other) => other !== one);
    void judge();
  });
  return button;
}

function showFaults(faults: string[]): void {
  show('refused', 'Nothing was verified. Remove what does not belong here, or start again.');
  for (const fault of faults) {
    const item = document.createElement('li');
    item.textContent = fault;
    faultList.append(item);
  }
}

function showVerdict(verdict: Verdict, trustSha256: string): void {
  const isCopy = verdict.outcome === 'good' && verdict.matches === 'sealed_document';
  show(verdict.outcome, isCopy ? WORDS_OF_COPY : WORDS[verdict.outcome]);
  trustLine.textContent = trustFileWords(trustSha256);
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
  trustLine.textContent = '';
  table.hidden = true;
  rows.replaceChildren();
  faultList.replaceChildren();
}

function find<Kind extends HTMLElement>(selector: string, kind: new () => Kind): Kind {
  const found = document.querySelector(selector);
  if (!(found instanceof kind)) throw new Error(`no ${selector}`);
  return found;
}
