/** Shows several receipts in a table. Each row can be opened to show all details. */
import type { Verdict } from 'pdfseald/verify';
import { bodyRow, type Child, element, headRow, sign, value, wideSection } from './dom.ts';
import { detailsOf, headline, type Result, verdictOf } from './resultView.ts';
import type { Part } from './roles.ts';
import { type Story, sealedAt } from './story.ts';
import { quoteName, shorten } from './text.ts';
import { utcTime, type Words } from './words.ts';

/** A document without a receipt gets a row too, so that it does not look as if it were verified. */
export interface Several {
  results: Result[];
  alone: Part[];
}

export function outcomeOf({ results, alone }: Several): Verdict['outcome'] {
  const outcomes = results.map(({ verdict }) => verdict.outcome);
  if (outcomes.includes('bad')) return 'bad';
  return outcomes.includes('unknown') || alone.length > 0 ? 'unknown' : 'good';
}

export function overviewOf(several: Several, words: Words): Child[] {
  const outcome = outcomeOf(several);
  return headline(outcome, words.outcomes[outcome], storyOf(several, words), words);
}

export function tableOf({ results, alone }: Several, words: Words): HTMLElement {
  const { several: names } = words;
  const columns = [
    names.verdict,
    names.document,
    names.receipt,
    names.sealed,
    names.reference,
    names.details,
  ];
  const rows = [
    ...results.flatMap((result, n) => rowsOf(result, `details-${n}`, columns, words)),
    ...alone.map(({ file }) =>
      bodyRow(columns, [verdictCell('unknown', words), value(file.name), names.noReceipt, '–', '–', '']),
    ),
  ];
  const table = element(
    'table',
    { class: 'several' },
    element('caption', { class: 'hidden' }, names.title),
    element('thead', {}, headRow(columns)),
    element('tbody', {}, ...rows),
  );
  return wideSection(names.title, table);
}

function storyOf({ results, alone }: Several, { several: names }: Words): Story {
  const count = (outcome: Verdict['outcome']) =>
    results.filter(({ verdict }) => verdict.outcome === outcome).length;
  const all = results.length + alone.length;
  const [good, bad, unknown] = [count('good'), count('bad'), count('unknown') + alone.length];
  if (good === all) return { lead: [names.all(all)], more: [] };
  const lead = good === 0 ? names.none(all) : names.some(good, all);
  const more = [...(bad > 0 ? [[names.bad(bad)]] : []), ...(unknown > 0 ? [[names.unknown(unknown)]] : [])];
  return { lead: [lead], more, remedy: names.remedy };
}

/** The row, and the hidden one with its details. */
function rowsOf(result: Result, id: string, columns: readonly string[], words: Words): HTMLElement[] {
  const { several: names } = words;
  const { verdict, proven, document, receipt } = result;
  const sealed = sealedAt(proven);
  const reference = proven?.statement.reference;
  const isNamed = verdict.outcome !== 'bad';
  const button = element(
    'button',
    {
      type: 'button',
      'aria-expanded': 'false',
      'aria-controls': id,
      'aria-label': names.detailsOf(quoteName(receipt.file.name)),
    },
    names.details,
  );
  const cell = element(
    'td',
    { colspan: String(columns.length) },
    element('div', { class: 'verdict' }, ...verdictOf(result, words)),
    element('div', { class: 'report' }, ...detailsOf(result, words)),
  );
  const details = element('tr', { id, class: 'details', hidden: true }, cell);
  button.addEventListener('click', () => {
    details.hidden = !details.hidden;
    button.setAttribute('aria-expanded', String(!details.hidden));
  });
  const row = bodyRow(columns, [
    verdictCell(verdict.outcome, words),
    document ? value(document.file.name) : names.noDocument,
    value(receipt.file.name),
    isNamed && sealed ? utcTime(sealed.at, words) : '–',
    isNamed && reference !== undefined ? value(shorten(reference)) : '–',
    button,
  ]);
  row.dataset.outcome = verdict.outcome;
  return [row, details];
}

function verdictCell(outcome: Verdict['outcome'], words: Words): HTMLElement {
  return element('span', { class: `tag ${outcome}` }, sign(outcome), words.outcomes[outcome]);
}
