import { ACCURACY_MAX_MS } from '../../asn1/stamping.ts';
import { toBase64, toHex } from '../../base/bytes.ts';
import { toRfc3339 } from '../../base/clock.ts';
import { sha256 } from '../../base/crypto.ts';
import { OperatorError } from '../../base/errors.ts';
import type { Epoch } from '../../log/epochs.ts';
import type { AuditRecord } from '../../manifest/auditRecord.ts';
import { FORM_MEMBERS, parseForm, readForm, type SealedForm, sealedForm } from '../../manifest/sealedForm.ts';
import type { TrustedLog, TrustFile } from '../../manifest/trustFile.ts';

/** An audit record about epochs: `log.create`, or one of `epoch.*`. */
export interface EpochAct {
  record: Pick<AuditRecord, 'number' | 'act' | 'at' | 'object'>;
  /**
   * `sealed_at` of the last batch before the one that sealed the record, milliseconds since the Unix epoch; `-Infinity` if there is none.
   * Absent until the record is sealed.
   */
  after?: number;
}

/** An epoch according to the records. */
export interface SealedEpoch {
  form: SealedForm;
  epoch: Epoch;
  /** The number of the record that defines the epoch. */
  record: number;
  /** Whether that record is sealed. */
  isSealed: boolean;
  /** Whether a record other than the plan states that the epoch began. */
  isBegun: boolean;
}

/** The epochs according to the records of a trail. */
export interface SealedEpochs {
  /** In chronological order. The first is that of `log.create`, which is the first record of a trail. */
  list: SealedEpoch[];
  /** Describes records after the first that came too late, or do not fit: they have no effect. */
  void: string[];
  /**
   * The numbers of records that shape the list but are not sealed in the log: anyone with write access to the store can have written them.
   */
  unsealed: number[];
}

/** The epochs in the store differ from those sealed in the log. `code` is permanent. */
export class EpochContradiction extends OperatorError {
  constructor(message: string) {
    super(message, {
      code: 'epochs_contradicted',
      remedy:
        'nothing is signed or exported; see "Forged epochs" in the manual, recovery.html, and `pdfseal epochs repair --help`',
    });
  }
}

/**
 * The epochs of the log with that origin, from its records in order. An epoch can be planned or cancelled only before it begins, so no
 * record changes the rules by which an earlier receipt is judged. Therefore an epoch begins after the last batch before its record; for a
 * record that is not sealed yet, after the newest batch, at `headSealedAt`. A record that breaks a rule is void: otherwise one forged
 * record would end the log. Throws {@link EpochContradiction} if the record that the list would start from is void.
 */
export function deriveEpochs(
  origin: string,
  acts: readonly EpochAct[],
  headSealedAt = -Infinity,
): SealedEpochs {
  const found: SealedEpochs = { list: [], void: [], unsealed: [] };
  for (const act of acts) {
    const { record, after = headSealedAt } = act;
    try {
      apply(found, origin, act, after);
    } catch (error) {
      if (!(error instanceof Misfit)) throw error;
      const name = `audit record ${record.number} (${record.act})`;
      if (found.list.length === 0) throw new EpochContradiction(`${name}: ${error.message}`);
      found.void.push(`${name} has no effect: ${error.message}`);
    }
  }
  if (found.list.length === 0) throw new EpochContradiction('no audit record says what the first epoch is');
  return found;
}

/** Why a record does not fit the earlier ones. */
class Misfit extends Error {}

function apply(
  found: SealedEpochs,
  origin: string,
  { record, after: sealed }: EpochAct,
  after: number,
): void {
  const { number, act, object } = record;
  const { list } = found;
  const form = readForm(object);
  const entry = (form: SealedForm, isBegun: boolean): SealedEpoch => {
    const epoch = parseForm(origin, form);
    if (epoch === undefined) throw new Misfit('what it says is not an epoch of this log');
    return { form, epoch, record: number, isSealed: sealed !== undefined, isBegun };
  };
  if (act === 'log.create' && number !== 1) {
    throw new Misfit('a log is created by the first record');
  } else if (act !== 'log.create' && list.length === 0) {
    throw new Misfit('no record before it says what the first epoch is');
  } else if (form === undefined) {
    throw new Misfit('it does not say what the epoch is');
  } else if (act === 'epoch.begin') {
    const begun = list.find((epoch) => epoch.form.from === form.from);
    requireSame(begun, form);
    begun.isBegun = true;
  } else {
    if (Date.parse(form.from) <= after)
      throw new Misfit(
        `the epoch begins at ${form.from}, but the log has a batch of ${toRfc3339(after)} already, from before the record was sealed`,
      );
    if (act === 'log.create') {
      list.push(entry(form, true));
    } else if (act === 'epoch.plan') {
      const last = list.at(-1)?.form.from ?? '';
      if (form.from <= last) throw new Misfit(`the epoch begins at ${form.from}, before the one of ${last}`);
      list.push(entry(form, false));
    } else {
      requireSame(list.length > 1 ? list.at(-1) : undefined, form);
      list.pop();
    }
  }
  if (sealed === undefined && act !== 'epoch.begin') found.unsealed.push(number);
}

function requireSame(epoch: SealedEpoch | undefined, form: SealedForm): asserts epoch {
  if (epoch === undefined) throw new Misfit(`no epoch from ${form.from} on can be meant`);
  const [difference] = formDifferences(form, epoch);
  if (difference !== undefined) throw new Misfit(difference);
}

/** Throws {@link EpochContradiction} with every difference between the epochs in a store and those derived from the records. */
export function requireStored(stored: readonly SealedForm[], sealed: SealedEpochs): void {
  const { list } = sealed;
  const differences = Array.from({ length: Math.max(stored.length, list.length) }, (_, index) => {
    const [kept, sealed] = [stored[index], list[index]];
    if (kept === undefined) return [`audit record ${sealed?.record} has it, the store does not`];
    if (sealed === undefined) return [`the store has it from ${kept.from} on, but no audit record does`];
    return formDifferences(kept, sealed);
  }).flatMap((lines, index) => lines.map((line) => `epoch ${index + 1}: ${line}`));
  if (differences.length === 0) return;
  const lines = [...differences, ...sealed.void];
  throw new EpochContradiction(
    `the epochs in the store are not those that the log sealed:\n${lines.join('\n')}`,
  );
}

/**
 * Differences between a trust file's statements on a log and the sealed records, as lines. The file may be older than the newest records,
 * see {@link laterEpochs}, and may end an epoch before the next begins. But none of its epochs may reach into one that requires
 * post-quantum signatures, which an old file does not ask for.
 */
export function trustDifferences({ origin, epochs }: TrustedLog, { list }: SealedEpochs): string[] {
  return epochs.flatMap(({ notBefore, notAfter = Infinity, ...epoch }) => {
    const from = toRfc3339(notBefore);
    const sealed = list.find(({ form }) => form.from === from);
    if (sealed === undefined)
      return [`the trust file has an epoch from ${from} on, but no audit record does`];
    const next = followerOf(sealed, list);
    const isMissing = next !== undefined && next.epoch.from <= notAfter;
    const isOpen = notAfter === Infinity;
    // A trust file contains neither the partitions nor the roots of each epoch.
    const keys = epoch.keys.map((key) => ({ ...key, partition: '' }));
    const { partitions, timestamp_roots } = sealed.form;
    const form = sealedForm(origin, { ...epoch, from: notBefore, keys, roots: [] });
    const own = { ...form, partitions, timestamp_roots };
    const lines = formDifferences(own, sealed);
    const found = lines.map((line) => `the trust file, epoch from ${from} on: ${line}`);
    if (isMissing && isOpen && next.epoch.quorum.postQuantum)
      found.push(
        `the trust file lacks the epoch from ${next.form.from} on, which asks for post-quantum signatures: get the newest trust file`,
      );
    if (isMissing && !isOpen)
      found.push(
        `the trust file, epoch from ${from} on: it reaches beyond ${next.form.from}, when the next epoch began`,
      );
    return found;
  });
}

/** The next epoch, if it is sealed and has begun. */
function followerOf(sealed: SealedEpoch, list: readonly SealedEpoch[]): SealedEpoch | undefined {
  const next = list[list.indexOf(sealed) + 1];
  return next?.isSealed && next.isBegun ? next : undefined;
}

/**
 * Describes the epoch after the last one of a trust file, if the log has begun it. The file accepts the keys of its last epoch for longer
 * than it should.
 */
export function laterEpochs(
  { epochs }: Pick<TrustedLog, 'epochs'>,
  { list }: Pick<SealedEpochs, 'list'>,
): string[] {
  const last = epochs.at(-1);
  const sealed = last?.notAfter === undefined && list.find(({ epoch }) => epoch.from === last?.notBefore);
  const next = sealed && followerOf(sealed, list);
  return next ? [`the trust file lacks the epoch from ${next.form.from} on: get the newest trust file`] : [];
}

/** Recorded facts, in addition to the epochs, that a trust file is checked against. */
export interface SealedTrust {
  /** SHA-256 of the certificates that `hsm certify` and `hsm install-certificate` installed, in lower-case hex. */
  certificates: ReadonlySet<string>;
  /** Whether `pdfseal trust export` wrote exactly this file: the configuration of that time is then on record with it. */
  isExported: boolean;
}

/**
 * Members of a trust file, in addition to those of {@link trustDifferences}, that differ from the sealed records, as lines. Each root must
 * belong to an epoch that the file contains too, or to a certificate on record. A root of another authority can come from the
 * configuration: then the export is on record. A file may require more than the log does, but not less.
 */
export function authorityDifferences(
  { timestampAuthorities }: Pick<TrustFile, 'timestampAuthorities'>,
  { epochs }: Pick<TrustedLog, 'epochs'>,
  { list }: Pick<SealedEpochs, 'list'>,
  { certificates, isExported }: SealedTrust,
): string[] {
  const begins = new Set(epochs.map(({ notBefore }) => notBefore));
  const roots = list
    .filter(({ epoch, isSealed }) => isSealed && begins.has(epoch.from))
    .flatMap(({ epoch }) => epoch.roots.map(({ name, root }) => `${name} ${root}`));
  return timestampAuthorities.flatMap(({ name, root, accuracyMaxMs = 0 }) => {
    const digest = toHex(sha256(root.der));
    const isSealed =
      roots.includes(`${name} ${toBase64(root.der)}`) ||
      (name === 'built-in' ? certificates.has(digest) : isExported);
    const found: string[] = [];
    if (!isSealed)
      found.push(
        `the trust file has the root ${digest} of ${name}, which no sealed record of its epochs names: take a trust file of \`pdfseal trust export\`, which is on record, and compare`,
      );
    if (accuracyMaxMs > ACCURACY_MAX_MS)
      found.push(
        `the trust file accepts an accuracy of ${accuracyMaxMs} ms from ${name}: more than ${ACCURACY_MAX_MS}`,
      );
    return found;
  });
}

function formDifferences(stored: SealedForm, { form, record }: SealedEpoch): string[] {
  return FORM_MEMBERS.flatMap((member) => {
    const [kept, sealed] = [stored[member] ?? [], form[member] ?? []];
    if (JSON.stringify(kept) === JSON.stringify(sealed)) return [];
    if (!Array.isArray(kept) || !Array.isArray(sealed))
      return [`${member}: ${kept}, but audit record ${record} says ${sealed}`];
    const added = kept.filter((one) => !sealed.includes(one));
    const missing = sealed.filter((one) => !kept.includes(one));
    if (added.length + missing.length === 0) return [`${member}: not in the order of audit record ${record}`];
    return [
      ...added.map((one) => `${member}: ${one} is not in audit record ${record}`),
      ...missing.map((one) => `${member}: ${one} is missing, audit record ${record} has it`),
    ];
  });
}
