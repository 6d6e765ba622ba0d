/**
 * The promises of the daemon, each as a function of a history and of how the daemon was left. A promise returns what speaks
 * against it, in words; an empty list is a promise kept. Nothing here asks the daemon or reads a file. Trees are hashed here, not by the
 * code under test.
 */
import { createHash } from 'node:crypto';
import { parseTimestampToken } from '../../src/asn1/timestampToken.ts';
import { encodeCanonical } from '../../src/manifest/jcs.ts';
import type { Receipt } from '../../src/manifest/receipt.ts';
import type { FinalState, History, Terms, Try } from './history.ts';

type Promised = (history: History, final: FinalState, terms: Terms) => string[];

export const PROMISES = {
  'every answer is one of the API': ({ faults }) => faults,

  'no error is internal': ({ internalErrors }, _, { callsFail = false }) =>
    internalErrors
      .filter(({ isUndisturbed }) => isUndisturbed || !callsFail)
      .map(({ request }) => `${request} was answered with 500`),

  // Creates that were refused or not answered are repeated in the end.
  'a healthy daemon serves': ({ tries }) => {
    const isServed = ({ answer }: Try) => answer?.jobId !== undefined || answer?.code === 'quota_exceeded';
    const keyed = tries.filter(({ key }) => key !== undefined);
    return [...Map.groupBy(keyed, ({ document }) => document).values()]
      .filter((all) => !all.some(isServed))
      .map(([{ key } = {}]) => `${key} was never served`);
  },

  'nothing acknowledged is lost': ({ tries }, { jobs, late }) => {
    const byId = new Map(jobs.map((job) => [job.id, job]));
    return tries.flatMap(({ client, document, answer }) => {
      if (answer?.jobId === undefined) return [];
      const job = byId.get(answer.jobId);
      if (job === undefined) return [`${answer.jobId} was acknowledged and is gone`];
      if (job.client !== client || job.document !== document) return [`${job.id} is another document`];
      return job.outcome === 'sealed' || late.includes(job.id)
        ? []
        : [`${job.id} was acknowledged and is ${job.outcome}`];
    });
  },

  'a sealed PDF is its document and its receipt': ({ tries }, { jobs, receipts, sealedPdfs }) => {
    const sealed = new Set(jobs.filter(({ outcome }) => outcome === 'sealed').map(({ id }) => id));
    return tries.flatMap(({ attaches, document, answer: { jobId = '' } = { status: 0 } }) => {
      if (!attaches || !sealed.has(jobId)) return [];
      const pdf = sealedPdfs[jobId];
      if (pdf === undefined) return [`${jobId} has no sealed PDF`];
      const isIts = pdf.document === document && pdf.receipt === receipts[jobId];
      return pdf.isWhole && isIts ? [] : [`the sealed PDF of ${jobId} is damaged, or another`];
    });
  },

  'every job is sealed once': (_, { jobs, leaves, receipts }) => {
    const places = Map.groupBy(leaves.keys(), (index) => leaves[index]?.jobId ?? '');
    const sealed = jobs.filter(({ outcome }) => outcome === 'sealed');
    const isSealed = new Set(sealed.map(({ id }) => id));
    const strays = leaves.filter(({ jobId }) => !isSealed.has(jobId)).map(({ jobId }) => jobId);
    return [
      ...strays.map((id) => `the log has a leaf of ${id}, which is not sealed`),
      ...sealed.flatMap(({ id, leafIndex }) => {
        const [index, ...others] = places.get(id) ?? [];
        if (index === undefined || others.length > 0)
          return [`${id} has ${others.length + 1} leaves, or none`];
        const text = receipts[id];
        const isThere = text === undefined || leafOf(text) === leaves[index]?.data;
        return index === leafIndex && isThere ? [] : [`leaf ${index} is not that of ${id}`];
      }),
    ];
  },

  'a receipt never changes': ({ receipts }, final, terms) => [
    ...receipts
      .filter(({ jobId, text }) => final.receipts[jobId] !== text)
      .map(({ jobId }) => `${jobId}: another receipt`),
    ...final.unverified.map((jobId) => `${jobId}: its receipt does not verify`),
    ...final.jobs
      .filter(
        ({ id, client, outcome }) => outcome === 'sealed' && isClient(client, terms) && !final.receipts[id],
      )
      .map(({ id }) => `${id}: it is sealed, and the API has no receipt of it`),
  ],

  // A verifier passes over a wrong signature where enough others are right.
  'no wrong signature is released': (_, { wrongSignatures }) => wrongSignatures,

  // A clock may go back, by a leap second or because somebody set it. The log does not.
  'the time of the log never goes back': (_, { jobs, receipts }) => {
    const inOrder = jobs
      .flatMap(({ id, leafIndex, outcome }) => {
        const text = receipts[id];
        return outcome === 'sealed' && text ? [{ id, leafIndex: leafIndex ?? 0, times: timesIn(text) }] : [];
      })
      .sort((one, other) => one.leafIndex - other.leafIndex);
    return inOrder.flatMap(({ id, times }, index) => {
      const before = inOrder[index - 1]?.times;
      const back = Object.entries(times).filter(
        ([what, time]) => time < (before?.[what as keyof Times] ?? 0),
      );
      return back.map(([what, time]) => `${id}: ${what} goes back to ${new Date(time).toISOString()}`);
    });
  },

  'every date is true': (_, { receipts, readAt }, { vouchedFrom }) => {
    if (vouchedFrom === undefined) return [];
    return Object.entries(receipts).flatMap(([id, text]) =>
      Object.entries(timesIn(text))
        .filter(([, time]) => time < vouchedFrom || time > readAt)
        .map(([what, time]) => `${id}: ${what} is ${new Date(time).toISOString()}`),
    );
  },

  'the log only grows': ({ checkpoints, receipts }, final) => {
    const roots = rootsOf(final.leaves.map(({ data }) => Buffer.from(data, 'hex')));
    const notes = [
      final.checkpoint,
      ...(final.witness?.held ? [final.witness.held] : []),
      ...checkpoints,
      ...[...receipts.map(({ text }) => text), ...Object.values(final.receipts)].map(
        (text) => (JSON.parse(text) as { evidence: { checkpoint: string } }).evidence.checkpoint,
      ),
    ];
    return [...new Set(notes)].flatMap((note) => {
      const [, size = '', root] = note.split('\n');
      return roots[Number(size)] === root ? [] : [`a checkpoint of ${size} leaves is not of this log`];
    });
  },

  'the witness never refuses the log': ({ tries }, { witness }) => {
    if (witness === undefined) return [];
    const alarms = tries.filter(({ answer }) => answer?.code === 'fork_alarm');
    return [
      ...witness.refusals,
      ...alarms.map(({ document }) => `the create of ${document} met the fork alarm`),
      ...(witness.held ? [] : ['the witness holds nothing']),
    ];
  },

  'a key names one job': ({ tries }, { jobs }) => {
    const made = Map.groupBy(jobs, ({ document }) => document);
    return [...Map.groupBy(tries, ({ document }) => document)].flatMap(([document, all]) => {
      const ids = new Set(all.flatMap(({ answer }) => answer?.jobId ?? []));
      const count = made.get(document)?.length ?? 0;
      const [{ key } = {}] = all;
      if (key !== undefined && (ids.size > 1 || count > 1))
        return [`${key} names ${Math.max(ids.size, count)} jobs`];
      return count > all.length ? [`${all.length} creates made ${count} jobs of ${document}`] : [];
    });
  },

  'no webhook is lost': ({ messages, told: toldBefore }, { jobs, late }, { listener }) => {
    const told = Map.groupBy(messages, ({ webhookId }) => webhookId);
    const due = jobs.filter(({ client, outcome }) => client === listener && outcome !== 'waiting');
    const known = new Set(due.map(({ id }) => messageOf(id)));
    return [
      ...due
        .filter(({ id }) => !told.has(messageOf(id)) && !late.includes(id))
        .filter(({ id }) => !toldBefore.includes(messageOf(id)))
        .map(({ id }) => `nobody was told of ${id}`),
      ...[...told].flatMap(([id, copies]) => {
        if (!known.has(id)) return [`${id} is of no job`];
        return new Set(copies.map(({ body }) => body)).size > 1
          ? [`${id} changed from one try to the next`]
          : [];
      }),
    ];
  },

  // Each window of a quota counts for itself. The newest was used until it was refused.
  'quotas are exact': (_, { jobs, quotaCounts }, { limited }) => {
    const own = jobs.filter(({ client, window }) => client === limited.client && window !== undefined);
    const used = Map.groupBy(own, ({ window = 0 }) => window);
    const newest = Math.max(...used.keys());
    const counts = new Map(
      quotaCounts.filter(({ client }) => client === limited.client).map(({ window, jobs }) => [window, jobs]),
    );
    return [...used, ...(used.size === 0 ? [[newest, []] as const] : [])].flatMap(([window, { length }]) => {
      const counted = counts.get(window) ?? (window === newest ? 0 : length); // those that are over are swept
      const isUsed = window === newest ? length === limited.jobs : length <= limited.jobs;
      return isUsed && counted === length
        ? []
        : [`${limited.client} has ${length} jobs of ${limited.jobs}, and the count says ${counted}`];
    });
  },

  'the audit trail is complete': ({ acts }, { trail, jobs, late }) => {
    const sealed = new Set(jobs.filter(({ outcome }) => outcome === 'sealed').map(({ id }) => id));
    const left = trail.map(({ text }) => text);
    const missing = acts.filter(({ act, word }) => {
      const index = left.findIndex((text) => text.includes(`"${act}"`) && text.includes(word));
      if (index >= 0) left.splice(index, 1); // each act has a record of its own
      return index < 0;
    });
    return [
      ...missing.map(({ act, word }) => `no record of ${act} (${word})`),
      // The record of the stop is sealed after the next start.
      ...trail.flatMap(({ number, jobId }, index) => {
        const isSealed = sealed.has(jobId) || late.includes(jobId) || index === trail.length - 1;
        return number === index + 1 && isSealed ? [] : [`record ${number} is out of place, or is not sealed`];
      }),
    ];
  },

  'an epoch begins once, at its time': ({ epochs }, { receipts, trail }) => {
    const begun = trail.filter(({ text }) => text.includes('"epoch.begin"'));
    const problems = epochs.flatMap(({ from }) => {
      const count = begun.filter(({ text }) => text.includes(toSeconds(from))).length;
      return count === 1 ? [] : [`${count} records say that an epoch begins at ${toSeconds(from)}`];
    });
    const wrong = Object.entries(receipts).filter(([, text]) => {
      const receipt = JSON.parse(text) as { kms_key_id: string; sealed_at: string };
      const own = epochs.filter(({ from }) => from <= Date.parse(receipt.sealed_at)).at(-1);
      const suffixes = own ? [own.suffix] : epochs.map(({ suffix }) => suffix);
      return suffixes.some((suffix) => receipt.kms_key_id?.endsWith(`-${suffix}`)) !== (own !== undefined);
    });
    return epochs.length === 0
      ? []
      : [...problems, ...wrong.map(([id]) => `${id} has the key of another epoch`)];
  },

  'a backup has everything': ({ backups }, { backup, leaves }) => {
    const newest = backups.at(-1);
    if (newest === undefined) return [];
    if (backup === undefined) return ['the newest backup is gone'];
    const { jobs, check } = backup;
    const outcomes = new Map(jobs.map(({ id, outcome }) => [id, outcome]));
    const missing = newest.acknowledged.filter(({ jobId, phase }) =>
      phase === 'completed' ? outcomes.get(jobId) !== 'sealed' : !outcomes.has(jobId),
    );
    return [
      ...missing.map(({ jobId, phase }) => `${jobId} was ${phase} before the backup and is not so in it`),
      ...backup.leaves.flatMap(({ data }, index) =>
        data === leaves[index]?.data ? [] : [`leaf ${index} of the backup is not that of the log`],
      ),
      ...(check.status === 0 ? [] : [`its check ended with ${check.status}: ${check.output}`]),
    ];
  },

  'the check is good': (_, { check }) =>
    check.status === 0 ? [] : [`pdfseal check ended with ${check.status}: ${check.output}`],
} satisfies Record<string, Promised>;

export type PromiseName = keyof typeof PROMISES;

/** What was broken, by promise; empty when all were kept. */
export function brokenPromises(
  history: History,
  final: FinalState,
  terms: Terms,
): Partial<Record<PromiseName, string[]>> {
  const all = Object.entries(PROMISES).map(([name, holds]) => [name, holds(history, final, terms)] as const);
  return Object.fromEntries(all.filter(([, against]) => against.length > 0));
}

function isClient(client: string, { listener, limited }: Terms): boolean {
  return client === listener || client === limited.client;
}

interface Times {
  sealed_at: number;
  /** Of the time-stamp, where there is one. */
  genTime?: number;
}

function timesIn(text: string): Times {
  const { sealed_at, evidence } = JSON.parse(text) as Pick<Receipt, 'sealed_at' | 'evidence'>;
  const [stamp] = evidence.timestamps;
  return {
    sealed_at: Date.parse(sealed_at),
    ...(stamp && { genTime: parseTimestampToken(Buffer.from(stamp.token, 'base64')).info.genTime }),
  };
}

/** As dates of epochs are written, without the zone. */
function toSeconds(time: number): string {
  return new Date(time).toISOString().slice(0, -'.000Z'.length);
}

function messageOf(jobId: string): string {
  return jobId.replace('job_', 'msg_');
}

/** Leaf data, in hex: SHA-512 of the canonical manifest. */
function leafOf(receipt: string): string {
  const { manifest } = JSON.parse(receipt) as { manifest: object };
  return createHash('sha512').update(encodeCanonical(manifest)).digest('hex');
}

/** The root of every tree from 0 leaves to all, in base64 (RFC 6962, section 2.1). */
export function rootsOf(leaves: readonly Uint8Array[]): string[] {
  const hash = (...parts: (number[] | Uint8Array)[]) =>
    createHash('sha256')
      .update(Buffer.concat(parts.map((part) => Buffer.from(part))))
      .digest();
  const roots = [hash().toString('base64')];
  // Whole subtrees, the largest first.
  const peaks: { leaves: number; root: Buffer }[] = [];
  for (const data of leaves) {
    let last = { leaves: 1, root: hash([0], data) };
    while (peaks.at(-1)?.leaves === last.leaves) {
      const left = peaks.pop() ?? last;
      last = { leaves: 2 * last.leaves, root: hash([1], left.root, last.root) };
    }
    peaks.push(last);
    roots.push(
      peaks
        .map(({ root }) => root)
        .reduceRight((right, left) => hash([1], left, right))
        .toString('base64'),
    );
  }
  return roots;
}
