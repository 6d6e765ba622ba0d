/** Shows the findings about one receipt. */
import type { Verdict } from 'pdfseald/verify';
import { encodeQuorum } from '../dist/log/quorum.js';
import type { Proven } from '../dist/prove/verify/proven.js';
import {
  type Child,
  definitions,
  digest,
  element,
  section,
  sentence,
  sign,
  table,
  value,
  wideSection,
} from './dom.ts';
import type { Digests } from './hashing.ts';
import type { Part } from './roles.ts';
import { type Check, type Story, tell, tellCheck, tellReceipt } from './story.ts';
import { visible } from './text.ts';
import { formatCount, localTime, utcTime, type Words } from './words.ts';

/** A receipt, its document, and what follows from both. */
export interface Result {
  /** Absent for a document without one. */
  receipt?: Part;
  /** The digests are those of the document that was sealed. */
  document?: Part & { digests?: Digests };
  /** Whether the document is a PDF that holds the receipt: then both are parts of one file. */
  isSealedPdf?: true;
  record?: Part;
  verdict: Verdict;
  proven?: Proven;
}

/** How long a browser may take to begin with a copy. */
const SAVE_MS = 60_000;

type Evidence = NonNullable<Verdict['evidence']>;

const SIGNS = { passed: 'good', failed: 'bad', unknown: 'unknown', not_shown: 'unknown' } as const;

/** What is said of a result: without its document, as much as the receipt proves on its own. */
export function storyOf({ document, verdict, proven }: Result, words: Words): Story {
  const alone = document === undefined ? tellReceipt(verdict, proven, words) : undefined;
  return alone ?? tell(verdict, proven, words);
}

/** A verdict with its sentences and the remedy. `tag`: of the label, which is the heading if the whole page is about this verdict. */
export function headline(
  outcome: Verdict['outcome'],
  label: string,
  { lead, more, remedy }: Story,
  words: Words,
  tag: 'h1' | 'p' = 'p',
): Child[] {
  const box = element(
    'div',
    { class: 'said' },
    element(tag, { class: 'label' }, label),
    element('p', { class: 'lead' }, sentence(lead)),
    ...more.map((text) => element('p', {}, sentence(text))),
    remedy === undefined
      ? undefined
      : element('p', { class: 'remedy' }, element('b', {}, `${words.whatToDo}: `), remedy),
  );
  return [sign(outcome), box];
}

/** All details of the verdict, section by section. */
export function detailsOf(result: Result, words: Words): Child[] {
  const { proven, verdict } = result;
  const { evidence } = verdict;
  const record = evidence && wideSection(words.record.title, ...renewalsOf(evidence, words));
  const checks = [words.checks.title, checksOf(result, words)] as const;
  const files = wideSection(words.files.title, filesOf(result, words));
  if (proven === undefined) return [wideSection(...checks), record, files];
  const signers = section(words.signers.title, ...signersOf(proven, words));
  return [
    section(words.statement.title, ...statementOf(proven, words)),
    element('div', { class: 'column' }, signers, section(...checks)),
    record,
    files,
  ];
}

/** In UTC, and in local time, on one line if there is room. */
export function bothTimes(at: number, words: Words): HTMLElement {
  const iso = new Date(at).toISOString();
  const local = localTime(at, words);
  return element(
    'span',
    {},
    element('time', { datetime: iso }, utcTime(at, words)),
    ...(local === undefined ? [] : [' ', element('span', { class: 'quiet' }, local)]),
  );
}

function statementOf({ statement, origin, time, ...rest }: Proven, words: Words): Child[] {
  const { statement: names } = words;
  const { scan, document, copy } = statement;
  const known = (table: Record<string, string>, key: string | undefined) =>
    key === undefined ? undefined : Object.hasOwn(table, key) ? table[key] : value(key);
  const optional = (text: string | undefined) => (text === undefined ? undefined : value(text));
  const size = (bytes: number) => words.bytes(formatCount(bytes, words));
  const times = (text: string | undefined): Child => {
    const at = Date.parse(text ?? '');
    return Number.isNaN(at) ? undefined : bothTimes(at, words);
  };
  return [
    element('p', { class: 'quiet' }, names.note),
    definitions([
      [names.sealedAt, time ? times(statement.sealedAt) : names.unproven],
      [names.acceptedAt, time && times(statement.acceptedAt)],
      [names.log, value(origin)],
      [names.environment, value(statement.environment.replace(/^env_/, ''))],
      [names.reference, optional(statement.reference)],
      [names.purpose, optional(statement.purpose)],
      [names.visibility, known(names.visibilities, statement.visibility)],
      [names.source, known(names.sources, statement.source)],
      [names.scan, known(names.scans, scan.verdict)],
      [names.engine, optional(scan.engine)],
      [names.signatures, optional(scan.signatures)],
      [copy ? names.received : names.sealedDocument, [size(document.bytes), digest(document.sha256)]],
      [names.copy, copy ? [size(copy.bytes), digest(copy.sha256)] : []],
      [names.job, digest(visible(statement.jobId))],
      [names.leaf, names.leafOf(formatCount(rest.leafIndex, words), formatCount(rest.treeSize, words))],
    ]),
  ];
}

export function signersOf({ keys, quorum, time, witnesses }: Proven, words: Words): Child[] {
  const { signers: names } = words;
  const columns = [names.partition, names.key, names.algorithm, names.kept];
  const rows = keys.map((key) => [
    value(key.region),
    value(key.keyLabel),
    names.algorithms[key.algorithm] ?? key.algorithm,
    key.software ? names.software : names.hsm,
  ]);
  const stamps = time?.stamps.map(({ name, timestamp }) =>
    element('span', {}, value(name), ' (', value(timestamp.authority), ')'),
  );
  const seen = witnesses.map((one) =>
    element('span', {}, value(one.label), `: ${utcTime(one.time * 1000, words)}`),
  );
  return [
    table(names.keys(keys.length), columns, rows),
    element('p', { class: 'quiet' }, names.rule(String(encodeQuorum(quorum)))),
    definitions([
      [names.stamps, stamps === undefined ? [] : stamps.length > 0 ? stamps : names.noStamps],
      [names.witnesses, seen.length > 0 ? seen : names.noWitnesses],
    ]),
  ];
}

export function checksOf({ verdict, proven }: Result, words: Words): HTMLElement {
  const item = (check: Check) => {
    const { name, outcome, code } = check;
    const said = element('span', {}, tellCheck(check, verdict, proven, words));
    return element(
      'li',
      { class: 'check', 'data-check': name, 'data-outcome': outcome, 'data-code': code },
      folded(outcome, said, detailLine(words.checks.names[name], check.detail), words),
    );
  };
  return element('ul', { class: 'checks' }, ...verdict.checks.map(item));
}

/** A line for each time-stamp, oldest first, and until when they are valid. */
function renewalsOf({ lines, holdsUntil }: Evidence, words: Words): Child[] {
  const { record: names } = words;
  const item = ({ kind, outcome, time, digest, authority, detail }: Evidence['lines'][number]) => {
    const isProven = outcome === 'passed' && time !== undefined;
    const plain = names.lines[kind](names.digests[digest ?? ''] ?? '');
    const said = isProven
      ? [bothTimes(Date.parse(time), words), ` – ${plain} (`, value(authority ?? ''), ')']
      : [names.notProven];
    const line = detailLine(names.title, detail);
    return element('li', {}, folded(outcome, element('span', {}, ...said), line, words));
  };
  const end = holdsUntil === undefined ? undefined : utcTime(Date.parse(holdsUntil), words);
  return [
    end === undefined || lines.length === 1 ? undefined : element('p', { class: 'quiet' }, names.note),
    element('ol', { class: 'checks renewals' }, ...lines.map(item)),
    end === undefined ? undefined : element('p', { id: 'holds' }, names.until(end)),
  ];
}

/** A statement in one line with its symbol; below it, the verifier's finding. It is open unless all is well. */
function folded(outcome: Check['outcome'], said: Node, found: Node, words: Words): HTMLElement {
  const summary = element(
    'summary',
    {},
    sign(SIGNS[outcome]),
    said,
    element('span', { class: 'hidden' }, ` (${words.checks.outcomes[outcome]})`),
  );
  return element('details', { open: outcome !== 'passed' }, summary, found);
}

function detailLine(name: string, detail: string): HTMLElement {
  return element('p', { class: 'detail' }, element('b', {}, name), ': ', value(detail));
}

function filesOf(result: Result, words: Words): HTMLElement {
  const { receipt, document, record, isSealedPdf } = result;
  const { files: names } = words;
  const size = (bytes: number) => words.bytes(formatCount(bytes, words));
  const one = (part: Part, ...more: [string, Child][]) =>
    element(
      'div',
      {},
      element('h3', {}, words.slots[part.role].name),
      definitions([[names.name, value(part.file.name)], [names.size, size(part.file.size)], ...more]),
    );
  const hex = (text: string | undefined) => (text === undefined ? undefined : digest(text));
  const digests = document?.digests;
  return element(
    'div',
    { class: 'files' },
    document &&
      one(
        document,
        [names.beginning, isSealedPdf && digests && size(digests.bytes)],
        [names.sha256, hex(digests?.sha256)],
        [names.sha512, hex(digests?.sha512)],
      ),
    receipt && (isSealedPdf ? originalOf(result, words) : one(receipt, [names.sha256, hex(receipt.sha256)])),
    record && one(record, [names.sha256, hex(record.sha256)]),
  );
}

/** The receipt in a PDF, and, if the verdict is good, the document without it. */
function originalOf({ receipt, document, verdict }: Result, words: Words): HTMLElement {
  const { files: names } = words;
  const button = element('button', { type: 'button', class: 'strong' }, names.save);
  button.addEventListener('click', () => {
    const { file, digests } = document ?? {};
    if (file && digests) save(file.slice(0, digests.bytes, 'application/pdf'), originalName(file.name));
  });
  return element(
    'div',
    {},
    element('h3', {}, words.slots.receipt.name),
    definitions([
      [names.name, names.attached],
      [names.sha256, receipt?.sha256 === undefined ? undefined : digest(receipt.sha256)],
    ]),
    verdict.outcome === 'good' ? button : undefined,
  );
}

function originalName(name: string): string {
  return `${name.replace(/\.pdf$/i, '').replace(/\.sealed$/i, '')}.original.pdf`;
}

/** The browser copies it from the file, without reading it into memory. */
function save(content: Blob, name: string): void {
  const href = URL.createObjectURL(content);
  element('a', { href, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(href), SAVE_MS);
}
