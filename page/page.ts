import './withoutEval.ts';
import { takeDropped, unfoldOnPaper } from './browser.ts';
import { type Child, digest, element, fill, find, sentence, value, wideSection } from './dom.ts';
import { judgeAll } from './judge.ts';
import { bothTimes, detailsOf, headline, type Result, storyOf } from './resultView.ts';
import {
  type Assignment,
  assignRoles,
  type Given,
  type Part,
  ROLES,
  type Role,
  readContent,
  SINGLE,
} from './roles.ts';
import { outcomeOf, storyOfAll, tableOf } from './severalView.ts';
import type { Story } from './story.ts';
import { quoteName } from './text.ts';
import { trustOf } from './trustView.ts';
import { formatCount, wordsFor } from './words.ts';

/** Fifty documents with their receipts, and the trust file: the list stays readable. */
const FILES_MAX = 101;

const words = wordsFor(navigator.languages);
const form = find('form', HTMLFormElement);
const list = find('#files', HTMLUListElement);
const outcome = find('#outcome', HTMLElement);
const bar = find('progress', HTMLProgressElement);
const work = find('#work', HTMLElement);
const workLine = find('#work label', HTMLElement);
const faultList = find('#faults', HTMLUListElement);
const report = find('#report', HTMLElement);
const again = find('button[type=reset]', HTMLButtonElement);

/** All files added and not removed. Later files never replace any of them. */
let given: Given[] = [];

/** Number of added files beyond those listed. */
let surplus = 0;

/** Identifies the set of files being judged: an older result must not be reported for a newer set. */
let generation = 0;

form.addEventListener('change', ({ target }) => {
  if (!(target instanceof HTMLInputElement)) return;
  take(Array.from(target.files ?? []), target.name as Role);
  target.value = '';
});
form.addEventListener('submit', (event) => event.preventDefault());
form.addEventListener('reset', () => {
  given = [];
  surplus = 0;
  void judge();
  keepFocus();
});
takeDropped(document.body, (files) => take(files));
unfoldOnPaper(report);
showTexts();
void judge();

function take(files: File[], statedRole?: Role): void {
  const room = FILES_MAX - given.length;
  surplus += Math.max(0, files.length - room);
  for (const file of files.slice(0, room)) {
    const content = readContent(file);
    content.catch(() => {}); // the judging code gets the rejection
    given.push({ file, content, ...(statedRole && { statedRole }) });
  }
  void judge();
}

/** Reports on the current files; a verdict is given only if the role of each file is clear. */
async function judge(): Promise<void> {
  generation += 1;
  const current = generation;
  const isOld = () => current !== generation;
  const files = [...given];
  showFiles(files);
  show('reading', '');
  showWork(words.reading);
  try {
    const assignment = await assignRoles(files, words);
    const { parts, faults, missing } = assignment;
    if (isOld()) return;
    showFiles(files, parts);
    if (surplus > 0) faults.push(words.faults.surplus(surplus, FILES_MAX));
    if (faults.length > 0) showFaults(faults);
    else if (missing.length > 0) showMissing(missing);
    else {
      const results = await judgeParts(assignment, isOld);
      if (results) showResults(results, parts);
    }
  } catch (error) {
    if (!isOld()) showVerdict('unknown', { lead: [words.failed(String(error))], more: [] });
  }
}

async function judgeParts(assignment: Assignment, isOld: () => boolean): Promise<Result[] | undefined> {
  const { parts } = assignment;
  const documents = parts.filter(({ role }) => role === 'document');
  const bytes = documents.reduce((sum, { file }) => sum + file.size, 0);
  const trust = parts.find(({ role }) => role === 'trust');
  return judgeAll(assignment, trust?.text ?? '', (file, done) => {
    if (isOld()) return false;
    showWork(done < bytes ? words.hashing(quoteName(file.name)) : words.verifying, done, bytes);
    return true;
  });
}

function showResults(results: readonly Result[], parts: readonly Part[]): void {
  const [only, second] = results;
  const isSingle = only !== undefined && second === undefined;
  const details = isSingle ? detailsOf(only, words) : [tableOf(results, words)];
  const trust = parts.find(({ role }) => role === 'trust');
  show('', '');
  const onDoubt = (doubt: Story | undefined) => {
    const story = isSingle ? storyOf(only, words) : storyOfAll(results, words);
    showVerdict(doubt ? 'unknown' : outcomeOf(results), doubt ?? story);
    for (const one of details) if (one instanceof HTMLElement) one.hidden = doubt !== undefined;
  };
  fill(report, ...details, trust && trustOf(trust, words, onDoubt), protocol());
  report.hidden = false;
  outcome.scrollIntoView({ block: 'nearest' });
}

/** When this was checked, with which program, and how to keep the result. */
function protocol(): HTMLElement {
  const { protocol: names } = words;
  const button = element('button', { type: 'button', class: 'strong' }, words.print);
  button.addEventListener('click', () => print());
  return wideSection(
    names.title,
    element('p', {}, `${names.checked}: `, bothTimes(Date.now(), words), ` ${names.clock}`),
    element('p', {}, `${names.program}: ${version()}`),
    button,
  );
}

function showMissing(missing: readonly Role[]): void {
  const names = missing.map((role) => words.roles[role]).join(', ');
  const text = words.missing[missing.length === 1 ? 'one' : 'several'](names);
  const isEmpty = given.length === 0;
  const hint = (role: Role) =>
    element('li', {}, element('b', {}, words.slots[role].name), `: ${words.slots[role].hint}`);
  const box = element(
    'div',
    { class: 'said' },
    element('p', { class: 'lead' }, isEmpty ? `${words.nothingYet} ${text}` : text),
    // Without files, each slot says it.
    isEmpty ? undefined : element('ul', {}, ...missing.map(hint)),
  );
  show('waiting', '', box);
}

function showFaults(faults: string[]): void {
  const story = { lead: [words.refused], more: [], remedy: words.refusedRemedy };
  show('refused', words.outcomes.unknown, ...headline('unknown', words.outcomes.unknown, story, words, 'h1'));
  faultList.replaceChildren(...faults.map((fault) => element('li', {}, fault)));
  faultList.hidden = false;
}

function showFiles(files: Given[], parts: Part[] = []): void {
  const count = (role: string) => parts.filter((part) => part.role === role).length;
  const isContested = count('trust') > 1;
  for (const input of form.querySelectorAll('input'))
    input.disabled = SINGLE.some((role) => role === input.name && count(role) > 0);
  const item = (one: Given) => {
    const part = parts.find(({ file }) => file === one.file);
    const button = element(
      'button',
      { type: 'button', 'aria-label': words.removeFile(quoteName(one.file.name)) },
      words.remove,
    );
    button.addEventListener('click', () => {
      given = given.filter((other) => other !== one);
      void judge();
      keepFocus();
    });
    return element(
      'li',
      {},
      element('span', { class: 'role' }, part ? words.slots[part.role].name : ''),
      value(one.file.name),
      element('span', { class: 'quiet' }, words.bytes(formatCount(one.file.size, words))),
      button,
      isContested && part?.role === 'trust' ? digest(part.sha256 ?? '') : undefined,
    );
  };
  list.replaceChildren(...files.map(item));
  list.hidden = files.length === 0;
  again.hidden = files.length === 0;
}

/** Restores the focus, because the button that had it is gone. */
function keepFocus(): void {
  (again.hidden ? find('input', HTMLInputElement) : again).focus();
}

function showWork(text: string, done?: number, all = 0): void {
  work.hidden = false;
  if (workLine.textContent !== text) workLine.textContent = text;
  if (done === undefined || all === 0) bar.removeAttribute('value');
  else bar.value = done / all;
}

/** Replaces the verdict, and nothing below it. */
function showVerdict(verdict: Result['verdict']['outcome'], story: Story): void {
  const label = words.outcomes[verdict];
  showOutcome(verdict, label, ...headline(verdict, label, story, words, 'h1'));
}

/** A verdict is the heading of the page; without one, its name is. `verdict`: its label, or empty. */
function showOutcome(state: string, verdict: string, ...children: Child[]): void {
  outcome.className = state;
  fill(outcome, ...children);
  outcome.hidden = children.length === 0;
  find('#intro', HTMLElement).hidden = verdict !== '';
  document.title = verdict === '' ? words.title : `${verdict} – ${words.title}`;
  find('#title', HTMLElement).replaceWith(element(verdict === '' ? 'h1' : 'p', { id: 'title' }, words.title));
  work.hidden = true;
}

/** Replaces everything shown. */
function show(state: string, verdict: string, ...children: Child[]): void {
  showOutcome(state, verdict, ...children);
  report.hidden = true;
  report.replaceChildren();
  faultList.hidden = true;
  faultList.replaceChildren();
}

function showTexts(): void {
  document.documentElement.lang = words.locale;
  find('#intro', HTMLElement).textContent = words.intro;
  again.textContent = words.startAgain;
  list.setAttribute('aria-label', words.chosen);
  find('footer', HTMLElement).textContent = version();
  for (const role of ROLES) {
    const { name, hint } = words.slots[role];
    find(`#slot-${role} .name`, HTMLElement).replaceChildren(sentence([name]));
    find(`#slot-${role} .quiet`, HTMLElement).textContent = hint;
    find(`#slot-${role} .choose`, HTMLElement).textContent = words.choose;
  }
}

function version(): string {
  return words.footer(document.documentElement.dataset.version ?? '');
}
