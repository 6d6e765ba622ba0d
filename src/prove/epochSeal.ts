import { setImmediate as nextTurn } from 'node:timers/promises';
import { BrokenInvariant } from '../base/assert.ts';
import { toRfc3339 } from '../base/clock.ts';
import { takingTurns } from '../base/inTurn.ts';
import { isReceived, type Job } from '../job/job.ts';
import { type Epochs, termAt } from '../log/epochs.ts';
import { describeQuorum, meetsQuorum } from '../log/quorum.ts';
import { openCheckpoint, signersOf } from '../log/signedCheckpoint.ts';
import {
  auditDigest,
  auditReference,
  followsRecord,
  isAboutEpochs,
  parseAuditRecord,
  parseAuditReference,
} from '../manifest/auditRecord.ts';
import { sealedForms } from '../manifest/sealedForm.ts';
import { type CertificatesOnRecord, noteCertificates } from '../store/certificatesOnRecord.ts';
import type { Store } from '../store/store.ts';
import { AUDIT_CLIENT, type TrailEntry } from '../store/trail.ts';
import { altered, type Head, openHead, ProvenLeaves } from './provenLeaves.ts';
import {
  deriveEpochs,
  type EpochAct,
  EpochContradiction,
  requireStored,
  type SealedEpochs,
} from './sealedEpochs.ts';

/** The epochs of a store that agree with what its log sealed. */
export interface ProvenEpochs {
  epochs: Epochs;
  sealed: SealedEpochs;
  /** The number of the newest audit record that the log had sealed when it was first read; 0 if it had none. All before it are proven too. */
  sealedUntil: number;
  /** The certificates that the records read so far name. */
  certificates: CertificatesOnRecord;
}

/** A record about epochs, with the job that seals it. */
interface Kept extends EpochAct {
  entry: TrailEntry;
}

/** The newest leaf that seals an audit record, and the number of that record; only the number 0 where the log has none. */
interface NewestSealed {
  number: number;
  leaf?: { index: number; job: Job };
}

/** Leaves from the first on that a caller has read and proven, so that they are not read again. */
export interface ReadLeaves {
  size: number;
  /** The newest of them that seals an audit record; -1 if none does. */
  newestRecord: number;
}

const PAGE = 500;

/**
 * Reads the epochs of a store, and holds them to the records that the log sealed. What is proven stays proven: a later call reads only the
 * records that are new. Every record of the trail is read, since each names the one before it: so the newest record that the log sealed
 * proves all before it. That one is looked for once, from the end of the log back. What is sealed later must follow the records read here:
 * see {@link requireRecord}.
 */
export class EpochSeal {
  readonly #store: Pick<Store, 'identity' | 'epochs' | 'trail' | 'jobs' | 'log'>;
  readonly #onLeaves: ((leaves: number) => void) | undefined;
  readonly #read: ReadLeaves | undefined;
  #newestSealed: NewestSealed | undefined;
  #last: TrailEntry | undefined;
  /** Whether the trail, as far as it was read, has the newest record that the log sealed. */
  #reachesEnd = false;
  /** The records after the newest that the log had sealed, by the job of each. */
  readonly #open = new Map<string, { number: number; digest: string }>();
  readonly #kept: Kept[] = [];
  readonly #certificates = new Map<string, number>();
  #proven: ProvenEpochs | undefined;
  readonly #leaves: ProvenLeaves;
  readonly #inTurn = takingTurns();

  /** `onLeaves` is told again and again how many leaves were read to find the newest sealed record: some 15,000 a second. */
  constructor(
    store: Pick<Store, 'identity' | 'epochs' | 'trail' | 'jobs' | 'log'>,
    { onLeaves, read }: { onLeaves?: (leaves: number) => void; read?: ReadLeaves } = {},
  ) {
    this.#store = store;
    this.#leaves = new ProvenLeaves(store);
    this.#onLeaves = onLeaves;
    this.#read = read;
  }

  /** The epochs as they are in the store, once they are proven. Costs next to nothing where they did not change. */
  async newest(): Promise<Epochs> {
    const { revision } = await this.#store.epochs.newest();
    if (this.#proven?.epochs.revision === revision) return this.#proven.epochs;
    return (await this.read()).epochs;
  }

  /** The epochs of the store, and the records they follow from. Throws {@link EpochContradiction}. */
  read(): Promise<ProvenEpochs> {
    return this.#inTurn(async () => {
      const { head, ...proven } = await this.#derive();
      const { epochs, sealed } = proven;
      requireStored(sealedForms(this.#store.identity.logOrigin, epochs.list), sealed);
      if (head !== undefined) requireSigned(head, epochs);
      this.#proven = proven;
      return proven;
    });
  }

  /**
   * The epochs as the sealed records have them, whatever list the store has. Throws
   * {@link EpochContradiction} where the records contradict each other, or where the log has not sealed one of those that shape the list.
   */
  derived(): Promise<Epochs> {
    return this.#inTurn(async () => {
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
   * Must pass before a job of the audit trail is sealed. Otherwise somebody could have records sealed that do not follow those before
   * them, and put these in their place. Throws {@link EpochContradiction}.
   */
  requireRecord(job: Job): Promise<void> {
    return this.#inTurn(async () => {
      if (!this.#open.has(job.id)) await this.#derive();
      const record = this.#open.get(job.id);
      if (record !== undefined && sealsRecord(job, record.number, record.digest)) return;
      throw new EpochContradiction(
        `${job.id} waits to seal ${job.customerReference}, but the trail has no such record to seal: somebody else put that job into the store, or altered the trail`,
      );
    });
  }

  /** What the store says of the epochs and what the records do, as of one moment. */
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
      // Another process may change the epochs meanwhile.
      const sealedUntil = this.#newestSealed.number;
      if ((await this.#store.epochs.newest()).revision === epochs.revision)
        return { epochs, sealed, sealedUntil, certificates: this.#certificates, head };
    }
  }

  /** Reads the records that are new. Each has the digest of the one before it. */
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
        if (isAboutEpochs(text)) this.#keep(entry);
        noteCertificates(this.#certificates, entry);
        this.#place(entry);
        this.#last = entry;
      }
      await nextTurn();
    }
  }

  #keep(entry: TrailEntry): void {
    const record = parseAuditRecord(entry.text);
    if (record === undefined || record.number !== entry.number)
      throw new EpochContradiction(`audit record ${entry.number} cannot be read`);
    this.#kept.push({ entry, record });
  }

  /** Finds out between which batches a record was sealed, if it is sealed under that head. */
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
    // Times are proven leaf by leaf. What the store says of the bounds of batches is not, but these two leaves prove them.
    const first = await this.#leaves.prove(firstLeaf, head);
    if (first.batch.treeSize !== own.batch.treeSize) throw altered();
    kept.after = firstLeaf === 0 ? -Infinity : (await this.#leaves.prove(firstLeaf - 1, head)).batch.sealedAt;
  }

  /** From the end of the log back: the daemon seals records in their order. */
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

  /** Remembers what a record is to the newest one that the log sealed. */
  #place({ number, jobId, text }: TrailEntry): void {
    const newest = this.#newestSealed;
    if (newest === undefined || number < newest.number) return;
    if (number > newest.number) this.#open.set(jobId, { number, digest: auditDigest(text) });
    else
      this.#reachesEnd = newest.leaf !== undefined && sealsRecord(newest.leaf.job, number, auditDigest(text));
  }

  /** The newest record that the log sealed must be in the trail, with everything before it, and all of that must be sealed. */
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
 * {@link EpochSeal.read} for a report: what contradicts the epochs, and which records are void, in lines. Throws
 * OperatorError where that cannot be told, since the log itself is damaged.
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

/** The keys of the epoch in force must have signed the newest checkpoint: they vouch for all that is under it. */
function requireSigned({ batch, checkpoint: { origin } }: Head, epochs: Epochs): void {
  const { epoch } = termAt(epochs, batch.sealedAt);
  const note = openCheckpoint(batch.checkpoint)?.note;
  const keys = note === undefined ? [] : signersOf(note, origin, epoch.keys).keys;
  if (meetsQuorum(epoch.quorum, keys)) return;
  throw new EpochContradiction(
    `the newest checkpoint, of size ${batch.treeSize}, is not signed as the epoch from ${toRfc3339(epoch.from)} on requires: ${describeQuorum(epoch.quorum, keys)}`,
  );
}

/** Whether a job seals the record with that number and digest, and nobody but the service asked for it. */
export function sealsRecord(job: Job, number: number, digest: string): boolean {
  return (
    job.source === 'audit' &&
    job.clientId === AUDIT_CLIENT &&
    job.customerReference === auditReference(number) &&
    isReceived(job) &&
    job.content.document.sha256 === digest
  );
}
