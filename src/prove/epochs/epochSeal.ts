import { setImmediate as nextTurn } from 'node:timers/promises';
import { BrokenInvariant } from '../../base/assert.ts';
import { toRfc3339 } from '../../base/clock.ts';
import { oneAtATime } from '../../base/serially.ts';
import { isReceived, type Job } from '../../job/job.ts';
import { type Epochs, termAt } from '../../log/epochs.ts';
import { describeQuorum, meetsQuorum } from '../../log/quorum.ts';
import { openCheckpoint, signersOf } from '../../log/signedCheckpoint.ts';
import {
  auditDigest,
  auditReference,
  followsRecord,
  isAboutEpochs,
  parseAuditRecord,
  parseAuditReference,
} from '../../manifest/auditRecord.ts';
import { sealedForms } from '../../manifest/sealedForm.ts';
import { type CertificatesOnRecord, noteCertificates } from '../../store/certificatesOnRecord.ts';
import type { Store } from '../../store/store.ts';
import { AUDIT_CLIENT, type TrailEntry } from '../../store/trail.ts';
import { altered, type Head, openHead, ProvenLeaves } from './provenLeaves.ts';
import {
  deriveEpochs,
  type EpochAct,
  EpochContradiction,
  requireStored,
  type SealedEpochs,
} from './sealedEpochs.ts';

/** The epochs of a store, in agreement with the log's sealed records. */
export interface ProvenEpochs {
  epochs: Epochs;
  sealed: SealedEpochs;
  /**
   * The number of the newest audit record sealed in the log when it was first read; 0 if there was none. All records before it are proven
   * too.
   */
  sealedUntil: number;
  /** The certificates named in the records read so far. */
  certificates: CertificatesOnRecord;
  /** Whether a record says that jobs without a MAC were taken over: from then on, each needs one. */
  isTakenOver: boolean;
}

/** A record about epochs, as it is in the trail. */
type Kept = EpochAct & { entry: TrailEntry };

/** The newest leaf that seals an audit record, and the number of that record; only the number 0 if the log has none. */
interface NewestSealed {
  number: number;
  leaf?: { index: number; job: Job };
}

/** Leaves, from the first one on, that a caller has already read and proven, so that they are not read again. */
export interface ReadLeaves {
  size: number;
  /** The newest of these leaves that seals an audit record; -1 if none does. */
  newestRecord: number;
}

const PAGE = 500;

/**
 * Reads the epochs of a store, and checks them against the records sealed in the log. Results stay proven: a later call reads only new
 * records. Every record of the trail is read, because each names the one before it: the newest sealed record therefore proves all earlier
 * ones. It is searched for once, backward from the end of the log. Records sealed later must follow the records read here: see {@link
 * requireRecord}.
 */
export class EpochSeal {
  readonly #store: Pick<Store, 'identity' | 'epochs' | 'trail' | 'jobs' | 'log'>;
  readonly #onLeaves: ((leaves: number) => void) | undefined;
  readonly #read: ReadLeaves | undefined;
  #newestSealed: NewestSealed | undefined;
  #last: TrailEntry | undefined;
  /** Whether the part of the trail read so far contains the newest record sealed in the log. */
  #reachesEnd = false;
  /** The records after the newest sealed one, by the job of each. */
  readonly #open = new Map<string, { number: number; digest: string }>();
  readonly #kept: Kept[] = [];
  readonly #certificates = new Map<string, number>();
  #isTakenOver = false;
  #proven: ProvenEpochs | undefined;
  readonly #leaves: ProvenLeaves;
  readonly #serially = oneAtATime();

  /** `onLeaves` is called repeatedly with the number of leaves read in search of the newest sealed record: some 15,000 a second. */
  constructor(
    store: Pick<Store, 'identity' | 'epochs' | 'trail' | 'jobs' | 'log'>,
    { onLeaves, read }: { onLeaves?: (leaves: number) => void; read?: ReadLeaves } = {},
  ) {
    this.#store = store;
    this.#leaves = new ProvenLeaves(store);
    this.#onLeaves = onLeaves;
    this.#read = read;
  }

  /** The epochs in the store, once they are proven. Costs almost nothing if they have not changed. */
  async newest(): Promise<Epochs> {
    const { revision } = await this.#store.epochs.newest();
    if (this.#proven?.epochs.revision === revision) return this.#proven.epochs;
    return (await this.read()).epochs;
  }

  /** The epochs in the store, and the records they follow from. Throws {@link EpochContradiction}. */
  read(): Promise<ProvenEpochs> {
    return this.#serially(async () => {
      const { head, ...proven } = await this.#derive();
      const { epochs, sealed } = proven;
      requireStored(sealedForms(this.#store.identity.logOrigin, epochs.list), sealed);
      if (head !== undefined) requireSigned(head, epochs);
      this.#proven = proven;
      return proven;
    });
  }

  /**
   * The epochs according to the sealed records, regardless of the list in the store. Throws {@link EpochContradiction} if the records
   * contradict each other, or if a record that shapes the list is not sealed in the log.
   */
  derived(): Promise<Epochs> {
    return this.#serially(async () => {
      const { epochs, sealed, head } = await this.#derive();
      const [unsealed] = sealed.unsealed;
      if (unsealed !== undefined)
        throw new EpochContradiction(
          `the log has not sealed audit record ${unsealed}, which changes the epochs: nobody can tell whether an administrator wrote it`,
        );
      const derived = { revision: epochs.revision, list: sealed.list.map(({ epoch }) => epoch) };
      if (head !== undefined) requireSigned(head, derived);
      return derived;
    });
  }

  /**
   * Must succeed before a job of the audit trail is sealed. Otherwise an attacker could have records sealed that do not follow the earlier
   * ones, and substitute them. Throws {@link EpochContradiction}.
   */
  requireRecord(job: Job): Promise<void> {
    return this.#serially(async () => {
      if (!this.#open.has(job.id)) await this.#derive();
      const record = this.#open.get(job.id);
      if (record !== undefined && sealsRecord(job, record.number, record.digest)) return;
      throw new EpochContradiction(
        `${job.id} waits to seal ${job.customerReference}, but the trail has no such record to seal: somebody else put that job into the store, or altered the trail`,
      );
    });
  }

  /** The epochs according to the store and according to the records, as of the same moment. */
  async #derive(): Promise<ProvenEpochs & { head: Head | undefined }> {
    for (;;) {
      const epochs = await this.#store.epochs.newest();
      const head = await openHead(this.#store);
      if (head !== undefined) await this.#leaves.prove(head.batch.treeSize - 1, head);
      this.#newestSealed ??= await this.#findNewestSealed(head);
      await this.#readTrail();
      for (const kept of this.#kept) if (kept.after === undefined) await this.#seal(kept, head);
      this.#requireEnd(this.#newestSealed);
      const sealed = deriveEpochs(this.#store.identity.logOrigin, this.#kept, head?.batch.sealedAt);
      // Another process may change the epochs during this call.
      const sealedUntil = this.#newestSealed.number;
      if ((await this.#store.epochs.newest()).revision === epochs.revision)
        return {
          ...{ epochs, sealed, sealedUntil, head },
          certificates: this.#certificates,
          isTakenOver: this.#isTakenOver,
        };
    }
  }

  /** Reads the new records. Each contains the digest of the one before it. */
  async #readTrail(): Promise<void> {
    const { trail } = this.#store;
    for (;;) {
      const entries = await trail.entries(this.#last?.number ?? 0, PAGE);
      if (entries.length === 0) return;
      for (const entry of entries) {
        const { number, text } = entry;
        const expected = (this.#last?.number ?? 0) + 1;
        if (number !== expected) throw new EpochContradiction(`audit record ${expected} is missing`);
        if (this.#last !== undefined && !followsRecord(text, this.#last.text))
          throw new EpochContradiction(
            `audit record ${number} was not written after record ${number - 1}: one of the two was altered`,
          );
        if (isAboutEpochs(text)) {
          const record = parseAuditRecord(text);
          if (record?.number !== number)
            throw new EpochContradiction(`audit record ${number} cannot be read`);
          this.#kept.push({ entry, record });
        }
        noteCertificates(this.#certificates, entry);
        this.#isTakenOver ||= text.startsWith('{"act":"jobs.take_over"');
        this.#place(entry);
        this.#last = entry;
      }
      await nextTurn();
    }
  }

  /** Finds the batches between which a record was sealed, if it is sealed under that head. */
  async #seal(kept: Kept, head: Head | undefined): Promise<void> {
    const { number, jobId, text } = kept.entry;
    const record = await this.#store.jobs.get(jobId);
    if (record === undefined || !sealsRecord(record.job, number, auditDigest(text)))
      throw new EpochContradiction(`audit record ${number} is not what ${jobId} seals: it was altered`);
    const { outcome } = record;
    if (head === undefined || outcome?.kind !== 'sealed' || outcome.leafIndex >= head.batch.treeSize) return;
    const own = await this.#leaves.prove(outcome.leafIndex, head);
    if (own.job.id !== jobId) throw altered();
    const { firstLeaf } = own.batch;
    // Times are proven leaf by leaf. The batch bounds from the store are not, but these two leaves prove them.
    const first = await this.#leaves.prove(firstLeaf, head);
    if (first.batch.treeSize !== own.batch.treeSize) throw altered();
    kept.after = firstLeaf === 0 ? -Infinity : (await this.#leaves.prove(firstLeaf - 1, head)).batch.sealedAt;
  }

  /** Searches backward from the end of the log, because the daemon seals records in their order. */
  async #findNewestSealed(head: Head | undefined): Promise<NewestSealed> {
    const treeSize = head?.batch.treeSize ?? 0;
    const { size, newestRecord } = this.#read ?? { size: 0, newestRecord: -1 };
    for (let index = treeSize - 1; head !== undefined; index--) {
      if (index < size) index = Math.min(index, newestRecord);
      if (index < 0) break;
      const { job } = await this.#leaves.prove(index, head);
      if (job.source === 'audit')
        return { number: parseAuditReference(job.customerReference) ?? 0, leaf: { index, job } };
      if (index % PAGE !== 0) continue;
      this.#onLeaves?.(treeSize - index);
      await nextTurn();
    }
    return { number: 0 };
  }

  /** Notes how a record relates to the newest one sealed in the log. */
  #place({ number, jobId, text }: TrailEntry): void {
    const newest = this.#newestSealed;
    if (newest === undefined || number < newest.number) return;
    if (number > newest.number) this.#open.set(jobId, { number, digest: auditDigest(text) });
    else
      this.#reachesEnd = newest.leaf !== undefined && sealsRecord(newest.leaf.job, number, auditDigest(text));
  }

  /** The trail must contain the newest record sealed in the log and everything before it, and all of these must be sealed. */
  #requireEnd({ number, leaf }: NewestSealed): void {
    if (leaf === undefined) return;
    if (!this.#reachesEnd)
      throw new EpochContradiction(
        `leaf ${leaf.index} of the log is audit record ${number}, which the trail does not have: the end of the trail was cut`,
      );
    const unsealed = this.#kept.find(({ record, after }) => after === undefined && record.number <= number);
    if (unsealed !== undefined)
      throw new EpochContradiction(
        `audit record ${unsealed.record.number} is not sealed, but record ${number} is: the job of one of the two was altered`,
      );
  }
}

/**
 * {@link EpochSeal.read} for a report: contradictions of the epochs, and void records, as lines. Throws OperatorError if these cannot be
 * determined because the log itself is damaged.
 */
export async function examineEpochs(
  store: ConstructorParameters<typeof EpochSeal>[0],
  epochSeal = new EpochSeal(store),
): Promise<{ problems: string[]; void: string[] }> {
  try {
    const { sealed } = await epochSeal.read();
    return { problems: [], void: sealed.void };
  } catch (error) {
    if (!(error instanceof EpochContradiction || error instanceof BrokenInvariant)) throw error;
    return { problems: error.message.split('\n'), void: [] };
  }
}

/** The keys of the epoch in force must have signed the newest checkpoint, because they vouch for everything under it. */
function requireSigned({ batch, checkpoint: { origin } }: Head, epochs: Epochs): void {
  const { epoch } = termAt(epochs, batch.sealedAt);
  const note = openCheckpoint(batch.checkpoint)?.note;
  const keys = note === undefined ? [] : signersOf(note, origin, epoch.keys).keys;
  if (meetsQuorum(epoch.quorum, keys)) return;
  throw new EpochContradiction(
    `the newest checkpoint, of size ${batch.treeSize}, is not signed as the epoch from ${toRfc3339(epoch.from)} on requires: ${describeQuorum(epoch.quorum, keys)}`,
  );
}

/** Whether a job seals the record with that number and digest, and was requested by the service itself. */
export function sealsRecord(job: Job, number: number, digest: string): boolean {
  return (
    job.source === 'audit' &&
    job.clientId === AUDIT_CLIENT &&
    job.customerReference === auditReference(number) &&
    isReceived(job) &&
    job.content.document.sha256 === digest
  );
}
