/** Shows the trust file: what it trusts, and how to check that it is the right one. */
import { encodeQuorum } from '../dist/log/quorum.js';
import { describeKey } from '../dist/log/verifierKey.js';
import { parseWitnessPolicy } from '../dist/log/witnessPolicy.js';
import {
  parseTrust,
  type TrustedAuthority,
  type TrustedLog,
  type TrustFile,
} from '../dist/manifest/trustFile.js';
import { type Child, digest, element, table, value, wideSection } from './dom.ts';
import type { Trouble } from './englishVerdicts.ts';
import type { Part } from './roles.ts';
import type { Story } from './story.ts';
import { utcTime, type Words } from './words.ts';

/** The digest that was handed over, as typed: it is kept when the verdict changes. */
let expected = '';

/** `onDoubt` is called at once and after each change: with the reason to doubt every verdict under this file, if there is one. */
export function trustOf(
  { file, text = '', sha256 = '' }: Part,
  words: Words,
  onDoubt: (doubt: Story | undefined) => void,
): HTMLElement {
  const { trust: names } = words;
  const trust = readTrust(text);
  return wideSection(
    names.title,
    element('p', {}, value(file.name)),
    element('p', { id: 'trust' }, 'SHA-256 ', digest(sha256)),
    element('p', {}, `${names.worth} ${names.compare}`),
    comparison(sha256, words, onDoubt),
    trust && contents(trust, words),
  );
}

/** Reports whether a digest that the reader has from another source is that of the file. */
function comparison(
  sha256: string,
  { trust: names }: Words,
  onDoubt: (doubt: Story | undefined) => void,
): HTMLElement {
  const input = element('input', {
    id: 'expected',
    type: 'text',
    spellcheck: 'false',
    autocapitalize: 'off',
    autocomplete: 'off',
    'aria-describedby': 'compared',
  });
  const answer = element('p', { id: 'compared', role: 'status' });
  const doubts: Record<string, Trouble> = { different: names.isOther, partial: names.isIncomplete };
  const compare = () => {
    // As it may have been copied: with its name before it, or in groups.
    const hex = input.value
      .toLowerCase()
      .replace(/^\s*sha-?256\W*/, '')
      .replace(/[\s:-]/g, '');
    const kind =
      hex === '' ? '' : hex.length !== sha256.length ? 'partial' : hex === sha256 ? 'same' : 'different';
    answer.className = kind;
    answer.textContent = kind === '' ? '' : names[kind];
    expected = input.value;
    const doubt = doubts[kind];
    onDoubt(doubt && { lead: [doubt.lead], more: [], remedy: doubt.remedy });
  };
  input.value = expected;
  input.addEventListener('input', compare);
  compare();
  const label = element('label', { for: 'expected' }, names.expected);
  return element('div', { class: 'comparison' }, label, input, answer);
}

function contents({ logs, timestampAuthorities }: TrustFile, words: Words): HTMLElement {
  const { trust: names } = words;
  return element(
    'details',
    {},
    element('summary', {}, names.logs),
    ...logs.flatMap((log) => logOf(log, words)),
    timestampAuthorities.length === 0
      ? element('p', {}, names.noAuthorities)
      : authoritiesOf(timestampAuthorities, words),
  );
}

function logOf(log: TrustedLog, words: Words): Child[] {
  const { trust: names } = words;
  const columns = [names.from, names.until, names.rule, names.keys, names.stamps];
  const rows = log.epochs.map(({ notBefore, notAfter, quorum, keys, timestamps }) => [
    limit(notBefore, words),
    limit(notAfter, words),
    String(encodeQuorum(quorum)),
    element('ul', {}, ...keys.map((key) => element('li', {}, value(describeKey(key))))),
    timestamps === 'required' ? names.required : names.notRequired,
  ]);
  const witnesses = log.witnessPolicy === undefined ? [] : parseWitnessPolicy(log.witnessPolicy).witnesses;
  return [
    element('h3', {}, value(log.origin)),
    table(`${words.statement.environment}: ${log.environment.replace(/^env_/, '')}`, columns, rows),
    ...(witnesses.length === 0
      ? []
      : [
          element('h4', {}, names.witnesses),
          element('ul', {}, ...witnesses.map(({ label }) => element('li', {}, value(label)))),
        ]),
  ];
}

function authoritiesOf(authorities: readonly TrustedAuthority[], words: Words): HTMLElement {
  const { trust: names } = words;
  const columns = [names.authority, names.from, names.until, names.root];
  const rows = authorities.map(({ name, notBefore, notAfter, root }) => [
    value(name),
    limit(notBefore, words),
    limit(notAfter, words),
    `${limit(root.notBefore, words)} – ${limit(root.notAfter, words)}`,
  ]);
  return table(names.authorities, columns, rows);
}

function limit(at: number | undefined, words: Words): string {
  return at === undefined ? words.trust.open : utcTime(at, words);
}

function readTrust(text: string): TrustFile | undefined {
  try {
    return parseTrust(text);
  } catch {
    return undefined; // the verdict states the reason
  }
}
