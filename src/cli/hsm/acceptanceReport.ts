import { AUTHORITY_ALGORITHMS } from '../../asn1/signatureAlgorithm.ts';
import { formatDuration } from '../../base/units.ts';
import type { AlgorithmTrial, DeviceAcceptance, RateTrial, TrialOutcome } from '../../kms/acceptance.ts';
import { CLASSICAL_ALGORITHMS, SIGNATURE_ALGORITHMS } from '../../log/verifierKey.ts';

/** Where and with what the device was tried. */
export interface Circumstances {
  /** Version and commit of pdfseald. */
  pdfseald: string;
  /** RFC 3339. */
  date: string;
  /** Operating system, its version and the processor. */
  machine: string;
  module: { file: string; sha256?: string };
  /** A line of the person who tried it. */
  remark?: string;
}

/** The report as JSON. `docs/hsm/modules` has one file of it for each module. */
export interface AcceptanceReport extends Omit<Circumstances, 'module'> {
  schema: 'pdfseal-acceptance/1';
  outcome: TrialOutcome;
  module: Circumstances['module'] & Partial<NonNullable<DeviceAcceptance['device']>['module']>;
  token?: NonNullable<DeviceAcceptance['device']>['token'];
  mechanisms?: string[];
  trials: DeviceAcceptance['trials'];
  algorithms: (Omit<AlgorithmTrial, 'generateMs' | 'wasAlwaysInside' | 'rates'> & {
    generate_ms?: number;
    always_inside?: boolean;
    rates: WireRate[];
  })[];
  /** What it means for the configuration. */
  meaning: string[];
  left_behind: string[];
  /** What the module printed. */
  output: string[];
}

type WireRate = Pick<RateTrial, 'sessions' | 'outcome' | 'detail'> & {
  per_second?: number;
  median_ms?: number;
  slowest_ms?: number;
};

export function reportOf(
  acceptance: DeviceAcceptance,
  { module, ...where }: Circumstances,
): AcceptanceReport {
  const { device, trials, algorithms, leftBehind, output } = acceptance;
  return {
    schema: 'pdfseal-acceptance/1',
    outcome: overall(acceptance),
    ...where,
    module: { ...module, ...device?.module },
    ...(device && { token: device.token, mechanisms: device.mechanisms }),
    trials,
    algorithms: algorithms.map(({ generateMs, wasAlwaysInside, rates, ...trial }) => ({
      ...trial,
      ...(generateMs !== undefined && { generate_ms: generateMs }),
      ...(wasAlwaysInside !== undefined && { always_inside: wasAlwaysInside }),
      rates: rates.map(wireRate),
    })),
    meaning: meaningOf(acceptance),
    left_behind: leftBehind,
    output,
  };
}

function wireRate({ perSecond, medianMs, slowestMs, ...trial }: RateTrial): WireRate {
  return perSecond === undefined || medianMs === undefined || slowestMs === undefined
    ? trial
    : { ...trial, per_second: perSecond, median_ms: medianMs, slowest_ms: slowestMs };
}

/** A device works if all trials do, and if it can hold a log key of some algorithm. */
function overall({ trials, algorithms }: DeviceAcceptance): TrialOutcome {
  const log = algorithms.filter(({ algorithm }) => isOneOf(SIGNATURE_ALGORITHMS, algorithm));
  const canSign = log.some(({ outcome }) => outcome === 'works');
  const outcomes = [...trials, ...(canSign ? [] : log)].map(({ outcome }) => outcome);
  return (['does not work', 'could not tell'] as const).find((one) => outcomes.includes(one)) ?? 'works';
}

function isOneOf<Name extends string>(names: readonly Name[], name: string): name is Name {
  return names.some((one) => one === name);
}

const SIGN_TIMEOUT_DEFAULT_MS = 5_000;
/** The time-out must be this many times the slowest signature measured. */
const TIMEOUT_FACTOR = 3;
/** More sessions must bring at least this much. */
const WORTH_IT = 1.1;

function meaningOf({ device, algorithms }: DeviceAcceptance): string[] {
  const working = algorithms.filter(({ outcome }) => outcome === 'works');
  if (working.length === 0) return ['pdfseald cannot use this device: no key can be created in it.'];
  const namesIn = (names: readonly string[]) =>
    working.map(({ algorithm }) => algorithm).filter((name) => names.includes(name));
  const [log, stamps] = [namesIn(CLASSICAL_ALGORITHMS), namesIn(AUTHORITY_ALGORITHMS)];
  const hasPostQuantum = namesIn(['mldsa44']).length > 0;
  const unproven = working.filter(({ wasAlwaysInside }) => !wasAlwaysInside);
  return [
    log.length > 0
      ? `Log keys: init --algorithm ${log.join(' or ')}.`
      : `Log keys: not in this device, which has none of ${CLASSICAL_ALGORITHMS.join(', ')}.`,
    hasPostQuantum
      ? 'Post-quantum log keys: algorithm = "mldsa44".'
      : 'Post-quantum log keys: not in this device; use a software key.',
    stamps.length > 0
      ? `Time-stamping keys: init --timestamp-algorithm ${stamps.join(' or ')}.`
      : 'Time-stamping keys: not in this device; use another one, or time-stamp authorities outside.',
    ...meaningOfRates(working.find(({ algorithm }) => log.includes(algorithm)) ?? working[0]),
    ...(unproven.length > 0
      ? [
          `hsm list says that keys may have been imported (${unproven.map(({ algorithm }) => algorithm).join(', ')}): the token does not report that they were created in it.`,
        ]
      : []),
    ...(device?.token.flags ?? []).flatMap((flag) => MEANING_OF_FLAGS[flag] ?? []),
  ];
}

const MEANING_OF_FLAGS: Readonly<Record<string, string>> = {
  CKF_PROTECTED_AUTHENTICATION_PATH:
    'The token has a PIN pad, and accepted the PIN of the file all the same. Nobody is asked for a PIN when the daemon starts.',
  CKF_USER_PIN_COUNT_LOW: 'A wrong PIN had been presented to the token before this trial.',
  CKF_USER_PIN_TO_BE_CHANGED: 'The PIN must be changed: do it with the vendor’s tool.',
};

function meaningOfRates(trial: AlgorithmTrial | undefined): string[] {
  const measured = trial?.rates.filter(({ perSecond }) => perSecond !== undefined) ?? [];
  const fastest = Math.max(...measured.map(({ perSecond = 0 }) => perSecond));
  const best = measured.find(({ perSecond = 0 }) => perSecond * WORTH_IT >= fastest);
  if (trial === undefined || best === undefined) return [];
  const neededMs = Math.ceil((TIMEOUT_FACTOR * (best.slowestMs ?? 0)) / 1000) * 1000;
  const refused = trial.rates.find(({ outcome }) => outcome === 'does not work');
  const limit = refused === undefined ? '' : ` ${refused.sessions} sessions do not work: ${refused.detail}.`;
  return [
    `kms.sessions = ${best.sessions}: ${best.perSecond} signatures a second with ${trial.algorithm}.${limit}`,
    neededMs <= SIGN_TIMEOUT_DEFAULT_MS
      ? `kms.sign_timeout: the default is enough; the slowest signature took ${best.slowestMs} ms.`
      : `kms.sign_timeout = "${formatDuration(neededMs)}" or more: the slowest signature took ${best.slowestMs} ms.`,
  ];
}

/** Lines that a person fills in by hand. */
const SIGNATURE_LINES = ['Place, date', 'Name', 'Signature'];
const BLANK = '_'.repeat(40);

interface Section {
  title: string;
  head: string[];
  rows: string[][];
}

/** The tables of the report, for both of its forms for people. */
function sectionsOf(report: AcceptanceReport): Section[] {
  const { module, token } = report;
  const facts: [string, string | undefined][] = [
    ['Outcome', report.outcome],
    ['Date', report.date],
    ['Remark', report.remark],
    ['Tried by', `pdfseald ${report.pdfseald}`],
    ['Machine', report.machine],
    ['Module', module.file],
    ['SHA-256 of the module', module.sha256],
    ['Library', joined(module.description, module.version, module.manufacturer)],
    ['PKCS#11', module.cryptoki],
    ['Token', token && joined(token.label, `serial ${token.serial}`)],
    ['Device', token && joined(token.manufacturer, token.model)],
    ['Hardware, firmware', token && `${token.hardware}, ${token.firmware}`],
    ['Flags', token?.flags.join(', ')],
    ['Sessions', token?.sessionsMax === undefined ? undefined : `at most ${token.sessionsMax}`],
  ];
  const rates = report.algorithms.flatMap(({ algorithm, rates }) =>
    rates.map((rate) => [
      algorithm,
      `${rate.sessions}`,
      shown(rate.per_second),
      shown(rate.median_ms),
      shown(rate.slowest_ms),
      rate.per_second === undefined ? `${rate.outcome}: ${rate.detail}` : rate.outcome,
    ]),
  );
  return [
    { title: 'Device', head: [], rows: facts.flatMap(([name, value]) => (value ? [[name, value]] : [])) },
    {
      title: 'Trials',
      head: ['Trial', 'Outcome', 'Detail'],
      rows: report.trials.map(({ name, outcome, detail }) => [name, outcome, detail]),
    },
    {
      title: 'Keys',
      head: ['Algorithm', 'Outcome', 'Created in', 'Detail'],
      rows: report.algorithms.map(({ algorithm, outcome, generate_ms: ms, detail, always_inside }) => [
        algorithm,
        outcome,
        ms === undefined ? '' : `${ms} ms`,
        always_inside ? `${detail}; created in the token, cannot leave it` : detail,
      ]),
    },
    {
      title: 'Rates',
      head: ['Algorithm', 'Sessions', 'Signatures/s', 'Median ms', 'Slowest ms', 'Outcome'],
      rows: rates,
    },
    { title: 'What it means', head: [], rows: report.meaning.map((line) => [line]) },
    { title: 'Left behind', head: [], rows: report.left_behind.map((label) => [label]) },
    { title: 'What the module printed', head: [], rows: report.output.map((line) => [line]) },
  ].filter(({ rows }) => rows.length > 0);
}

function joined(...parts: (string | undefined)[]): string {
  return parts.filter(Boolean).join(', ');
}

function shown(value: number | undefined): string {
  return value === undefined ? '' : String(value);
}

const TITLE = 'Acceptance of a device';

export function acceptanceText(report: AcceptanceReport): string[] {
  const sections = sectionsOf(report).flatMap(({ title, head, rows }) => {
    const table = head.length > 0 ? [head, ...rows] : rows;
    // The last column is as long as it is.
    const widths = head.length > 0 || rows.some((row) => row.length > 1) ? widthsOf(table) : [];
    return [title, ...table.map((row) => `  ${aligned(row, widths)}`), ''];
  });
  const lines = SIGNATURE_LINES.map((name) => `${name.padEnd(12)} ${BLANK}`);
  return [TITLE, '', ...sections, ...lines];
}

function widthsOf(table: readonly string[][]): number[] {
  const columns = Math.max(...table.map((row) => row.length)) - 1;
  return Array.from({ length: columns }, (_, column) =>
    Math.max(...table.map((row) => row[column]?.length ?? 0)),
  );
}

function aligned(row: readonly string[], widths: readonly number[]): string {
  return row
    .map((cell, column) => cell.padEnd(widths[column] ?? 0))
    .join('  ')
    .trimEnd();
}

/** One page without anything from elsewhere. */
export function acceptanceHtml(report: AcceptanceReport): string[] {
  const sections = sectionsOf(report).flatMap(({ title, head, rows }) => [
    `<h2>${escaped(title)}</h2>`,
    '<table>',
    ...(head.length > 0 ? [row(head, 'th')] : []),
    ...rows.map((cells) => row(cells, 'td')),
    '</table>',
  ]);
  return [
    '<!doctype html>',
    `<html lang="en"><head><meta charset="utf-8"><title>${TITLE}</title>`,
    `<style>${STYLE}</style></head><body>`,
    `<h1>${TITLE}</h1>`,
    ...sections,
    '<table class="sign">',
    ...SIGNATURE_LINES.map((name) => row([name, ''], 'td')),
    '</table>',
    '</body></html>',
  ];
}

const STYLE =
  'body{font:11pt/1.4 sans-serif;max-width:60em;margin:2em auto;padding:0 1em}' +
  'table{border-collapse:collapse}td,th{border:1px solid #999;padding:.2em .5em;text-align:left;vertical-align:top}' +
  '.sign{margin-top:3em}.sign td{height:2.5em;min-width:8em}.sign td+td{min-width:25em}';

function row(cells: readonly string[], tag: 'td' | 'th'): string {
  return `<tr>${cells.map((cell) => `<${tag}>${escaped(cell)}</${tag}>`).join('')}</tr>`;
}

function escaped(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;');
}
