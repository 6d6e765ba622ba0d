/** Shows several receipts in a table, and documents without one, so that they do not look as if they were verified. Each row can be opened to show all details. */
import type { Verdict } from 'pdfseald/verify';
import { bodyRow, element, headRow, sign, value, wideSection } from './dom.ts';
import { detailsOf, headline, type Result, storyOf } from './resultView.ts';
import { type Story, sealedAt } from './story.ts';
import { quoteName, shorten } from './text.ts';
import { utcTime, type Words } from './words.ts';

export function outcomeOf(results: readonly Result[]): Verdict['outcome'] {
  const outcomes = results.map(({ verdict }) => verdict.outcome);
  return outcomes.includes('bad') ? 'bad' : outcomes.includes('unknown') ? 'unknown' : 'good';
}

export function tableOf(results: readonly Result[], words: Words): HTMLElement {
  const { several: names } = words;
  const columns = [
    names.verdict,
    names.document,
    names.receipt,
    names.sealed,
    names.reference,
    names.details,
  ];
  const rows = results.flatMap((result, n) => rowsOf(result, `details-${n}`, columns, words));
  const table = element(
    'table',
    { class: 'several' },
    element('caption', { class: 'hidden' }, names.title),
    element('thead', {}, headRow(columns)),
    element('tbody', {}, ...rows),
  );
  return wideSection(names.title, table);
}

export function storyOfAll(results: readonly Result[], { several: names }: Words): Story {
  const count = (outcome: Verdict['outcome']) =>
    results.filter(({ verdict }) => verdict.outcome === outcome).length;
  const all = results.length;
  const [good, bad, unknown] = [count('good'), count('bad'), count('unknown')];
  if (good === all) return { lead: [names.all(all)], more: [] };
  const lead = good === 0 ? names.none(all) : names.some(good, all);
  const more = [...(bad > 0 ? [[names.bad(bad)]] : []), ...(unknown > 0 ? [[names.unknown(unknown)]] : [])];
  return { lead: [lead], more, remedy: names.remedy };
}

/** The row, and the hidden one with its details. */
function rowsOf(result: Result, id: string, columns: readonly string[], words: Words): HTMLElement[] {
  const { several: names } = words;
  const { verdict, proven, document, receipt, isSealedPdf } = result;
  const sealed = sealedAt(proven);
  const reference = proven?.statement.reference;
  const isNamed = verdict.outcome !== 'bad';
  const button = element(
    'button',
    {
      type: 'button',
      'aria-expanded': 'false',
      'aria-controls': id,
      'aria-label': names.detailsOf(quoteName((receipt ?? document)?.file.name ?? '')),
    },
    names.details,
  );
  const cell = element(
    'td',
    { colspan: String(columns.length) },
    element(
      'div',
      { class: 'verdict' },
      ...headline(verdict.outcome, words.outcomes[verdict.outcome], storyOf(result, words), words),
    ),
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
    receipt === undefined ? names.noReceipt : isSealedPdf ? names.attached : value(receipt.file.name),
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
