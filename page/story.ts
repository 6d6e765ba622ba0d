/** Explains a verdict in sentences, which state only what is proven. */
import type { Verdict } from 'pdfseald/verify';
import type { Proven } from '../dist/prove/verify/proven.js';
import { emphasis, type Text } from './text.ts';
import { utcTime, type Words } from './words.ts';

export interface Story {
  /** The headline. */
  lead: Text;
  more: Text[];
  /** The reader's remedy for a verdict that is not good. */
  remedy?: string;
}

export type Check = Verdict['checks'][number];

/** Environments whose seals are for testing. */
const TEST_ENVIRONMENT = /^env_(sandbox|test|testing|staging|dev|development|demo)$/;

/** The failed check with the most significance comes first: if something is not from the log, other checks do not matter. */
const WEIGHT: readonly Check['name'][] = [
  'trust',
  'bundle',
  'receipt',
  'proof',
  'leaf',
  'checkpoint',
  'quorum',
  'time-stamp',
  'epoch',
  'revocation',
  'times',
  'manifest',
  'seal',
  'document',
  'witnesses',
  'evidence-record',
];

export function tell(verdict: Verdict, proven: Proven | undefined, words: Words): Story {
  if (verdict.outcome === 'good' && proven?.time) return tellGood(verdict, proven, words);
  const wanted = verdict.outcome === 'bad' ? 'failed' : 'unknown';
  const wrong = verdict.checks.filter(({ outcome }) => outcome === wanted).map(({ name }) => name);
  const name = WEIGHT.find((one) => wrong.includes(one)) ?? 'receipt';
  const fault = name === 'evidence-record' ? verdict.evidence?.fault : undefined;
  const code = verdict.checks.find((check) => check.name === name)?.code ?? name;
  const key = name === 'manifest' && isCanary(proven) ? 'canary' : (fault ?? code);
  const troubles = verdict.outcome === 'bad' ? words.bad : words.unknown;
  const trouble = troubles[key] ?? troubles[name] ?? words.unknown.receipt;
  return {
    lead: [trouble?.lead ?? ''],
    more: proven ? tellRest(verdict, proven, wrong, words) : [],
    ...(trouble && { remedy: trouble.remedy }),
  };
}

/** The sentences that a receipt proves on its own. Undefined unless only its document is missing. */
export function tellReceipt(
  { checks }: Verdict,
  proven: Proven | undefined,
  words: Words,
): Story | undefined {
  const isAlone = checks.every(
    ({ name, outcome }) => (name === 'document') !== (outcome === 'passed' || outcome === 'not_shown'),
  );
  if (!isAlone || proven?.time === undefined) return undefined;
  return {
    lead: words.lead.receipt(whenOf(proven, words), by(proven)),
    more: caveatsOf(proven, words),
    remedy: words.receiptOnly.remedy,
  };
}

/** One check in a plain sentence. */
export function tellCheck(
  { name, outcome }: Check,
  verdict: Verdict,
  proven: Proven | undefined,
  words: Words,
) {
  const { words: plain, ...special } = words.checks;
  if (name === 'document' && outcome === 'passed' && verdict.matches === 'sealed_document')
    return special.copy;
  if (name === 'time-stamp' && outcome === 'passed' && proven?.time)
    return proven.time.stamps.length > 0 ? special.stamped : special.ownWord;
  if (name === 'manifest' && outcome === 'failed' && isCanary(proven)) return special.canary;
  const isProof = verdict.checks.some((one) => one.name === 'proof');
  if (name === 'manifest' && outcome === 'passed' && isProof) return special.ofProof;
  return plain[name]?.[outcome] ?? name;
}

/** The earliest confirmed time, or the service's own statement, in milliseconds since the Unix epoch; undefined while it is undecided. */
export function sealedAt(proven: Proven | undefined): { at: number; accuracyMs?: number } | undefined {
  if (proven?.time === undefined) return undefined;
  const [first] = proven.time.stamps
    .map(({ timestamp }) => timestamp)
    .sort((one, other) => one.genTime - other.genTime);
  if (first === undefined) return { at: Date.parse(proven.statement.sealedAt) };
  return { at: first.genTime, ...(first.accuracyMs !== undefined && { accuracyMs: first.accuracyMs }) };
}

function tellGood(verdict: Verdict, proven: Proven, words: Words): Story {
  const { lead } = words;
  const { source } = proven.statement;
  const isCopy = verdict.matches === 'sealed_document';
  const isSealedPdf = verdict.checks.some(({ name }) => name === 'seal');
  const sentence = isCopy ? lead.copy : source === 'audit' ? lead.audit : lead.sealed;
  return {
    lead: sentence(whenOf(proven, words), by(proven)),
    more: [
      [isCopy ? lead.copyUnchanged : lead.unchanged],
      ...(isSealedPdf ? [[lead.attached]] : []),
      ...caveatsOf(proven, words),
    ],
  };
}

/** Aspects that are weaker than they could be. */
function caveatsOf({ statement, time, keys }: Proven, { lead }: Words): Text[] {
  const { source, scan, environment } = statement;
  const scanned = source === 'audit' ? undefined : lead.scan[scan.verdict ?? ''];
  return [
    ...(scanned === undefined ? [] : [[scanned]]),
    ...(time?.stamps.length === 0 ? [[lead.ownWord]] : []),
    ...(TEST_ENVIRONMENT.test(environment) ? [lead.test([emphasis(environment.slice(4))])] : []),
    ...(keys.some(({ software }) => software) ? [[lead.software]] : []),
  ];
}

/** The facts proven despite the verdict. */
function tellRest({ outcome, matches }: Verdict, proven: Proven, wrong: string[], { lead, ...words }: Words) {
  if (isCanary(proven)) return [];
  if (outcome === 'unknown') return [(matches ? lead.isInLog : lead.logOnly)(by(proven))];
  const isOther = wrong.length === 1 && wrong[0] === 'document' && proven.time !== undefined;
  return isOther ? [lead.sealedOther(whenOf(proven, { lead, ...words }), by(proven))] : [];
}

function whenOf(proven: Proven, words: Words): Text {
  const { at, accuracyMs } = sealedAt(proven) ?? { at: 0 };
  const within = accuracyMs === undefined ? '' : ` (${words.lead.within(String(accuracyMs / 1000))})`;
  return [emphasis(utcTime(at, words)), within];
}

function by({ origin }: Proven): Text {
  return [emphasis(origin)];
}

function isCanary(proven: Proven | undefined): boolean {
  return proven?.statement.source === 'canary';
}
