import { toRfc3339 } from '../base/clock.ts';
import { digestsOf } from '../manifest/manifest.ts';
import type { Proven } from '../prove/verify/proven.ts';
import type { Requirement, Verdict } from '../prove/verify/verify.ts';
import { EXIT } from './exit.ts';

export const EXIT_OF = { good: EXIT.ok, bad: EXIT.failed, unknown: EXIT.unknown } as const;
export const WORDS = { good: 'good', bad: 'bad', unknown: 'could not tell' } as const;

export interface VerdictReport {
  verdict: Verdict;
  /** The facts that it proves. */
  proven: Proven | undefined;
  required: readonly Requirement[];
  /** Time of the verdict, milliseconds since the Unix epoch. */
  at: number;
  /** Lower-case hex. */
  trustSha256: string;
}

/** The verdict for programs, as docs/verdict.schema.json describes it. Unproven facts are absent. */
export function wireVerdict({ verdict, proven, required, at, trustSha256 }: VerdictReport): object {
  const { evidence, outcome, checks, matches } = verdict;
  return {
    schema: 'pdfseal-verdict/1',
    outcome,
    checks,
    matches,
    required,
    verified_at: toRfc3339(at),
    trust_file_sha256: trustSha256,
    ...(proven && factsOf(proven)),
    ...(evidence && {
      evidence_record: {
        time_stamps: evidence.lines,
        holds_until: evidence.holdsUntil,
      },
    }),
  };
}

function factsOf({ statement, origin, treeSize, leafIndex, keys, time, witnesses }: Proven): object {
  const { jobId, environment, source, document, copy, reference, purpose, visibility } = statement;
  return {
    subject: {
      job_id: jobId,
      environment,
      source,
      document: digestsOf(document),
      ...(copy && { sealed_document: digestsOf(copy) }),
      customer_reference: reference,
      purpose,
      visibility,
    },
    log: { origin, leaf_index: leafIndex, tree_size: treeSize },
    signers: keys.map(({ region, keyLabel, algorithm, software = false }) => ({
      region,
      key_label: keyLabel,
      algorithm,
      software,
    })),
    times: {
      accepted_at: statement.acceptedAt,
      sealed_at: statement.sealedAt,
      time_stamps: (time?.stamps ?? []).map(({ name, until, timestamp }) => ({
        time: toRfc3339(timestamp.genTime),
        accuracy_ms: timestamp.accuracyMs,
        authority: name,
        signer: timestamp.authority,
        valid_until: toRfc3339(until),
      })),
      cosignatures: witnesses.map((one) => ({ witness: one.label, time: toRfc3339(one.time * 1000) })),
    },
  };
}

/** The verdict in one sentence, for a person. */
export function sentenceOf({ verdict, proven }: Pick<VerdictReport, 'verdict' | 'proven'>): string {
  const { outcome, checks, matches } = verdict;
  if (outcome !== 'good') {
    const wanted = outcome === 'bad' ? 'failed' : 'unknown';
    const { name, detail } = checks.find((check) => check.outcome === wanted) ?? { name: '', detail: '' };
    return `${outcome === 'bad' ? 'Do not rely on this receipt' : 'These files do not allow a verdict'}: ${name}: ${detail}.`;
  }
  if (proven?.time === undefined) return 'Sealed, unchanged since.';
  const { stamps } = proven.time;
  const times = stamps.map(({ timestamp }) => timestamp.genTime);
  const at = stamps.length > 0 ? Math.min(...times) : Date.parse(proven.statement.sealedAt);
  const word = stamps.length > 0 ? '' : ' (the time is the service’s own word)';
  const what = matches === 'sealed_document' ? 'The copy without metadata of a document sealed' : 'Sealed';
  const day = new Intl.DateTimeFormat('en-GB', { dateStyle: 'long', timeZone: 'UTC' }).format(at);
  return `${what} on ${day} at ${toRfc3339(at).slice(11, 19)} UTC by ${proven.origin}${word}, unchanged since.`;
}
