import { createHash } from 'node:crypto';
import { bytesEqual } from '../../src/base/bytes.ts';
import { isOfClient, isReceived, JOB_PHASES, type JobPhase, type Outcome } from '../../src/job/job.ts';
import { parseCheckpoint } from '../../src/log/checkpoint.ts';
import { termAt } from '../../src/log/epochs.ts';
import { parseNote } from '../../src/log/note.ts';
import { meetsQuorum } from '../../src/log/quorum.ts';
import { noteKeyId } from '../../src/log/verifierKey.ts';
import { parseAuditReference } from '../../src/manifest/auditRecord.ts';
import { leafData, manifestOf } from '../../src/manifest/manifest.ts';
import type { Sealer } from '../../src/seal/sealer.ts';
import type { SealedBatch } from '../../src/store/store.ts';
import { signatureOf, tokenOf, type WitnessModel } from './devices.ts';
import { ENVIRONMENT, nameOf, ORIGIN, type StoreModel } from './storeModel.ts';
import { Broken, type World } from './world.ts';

/** A job fails no earlier, in milliseconds of service time. */
export const GIVE_UP_MS = 20_000;

/** What the service promises, held against what is durable. Throws {@link Broken} with the promise that does not hold. */
export class Checker {
  readonly #world: World;
  readonly #store: StoreModel;
  readonly #witness: WitnessModel | undefined;
  readonly #acknowledged = new Set<string>();
  readonly #refused = new Set<string>();
  readonly #mayFail = new Set<string>();
  readonly #phases = new Map<string, JobPhase>();
  /** From when an epoch is, and the number of the record that planned it. */
  readonly #plans: { from: number; record: number }[] = [];
  /** Whether a witness has raised the fork alarm. */
  isForked = false;
  #records = 0;
  #broken: Broken | undefined;

  constructor(world: World, store: StoreModel, witness: WitnessModel | undefined) {
    this.#world = world;
    this.#store = store;
    this.#witness = witness;
  }

  /** The answer said that the job is durable. */
  acknowledged(jobId: string): void {
    this.#acknowledged.add(jobId);
    this.#hold(this.#store.jobs.has(jobId), `${nameOf(jobId)} was acknowledged and is not durable`);
    this.#hold(!this.#refused.has(jobId), `${nameOf(jobId)} was refused, and then acknowledged`);
  }

  /** The answer said that there is no such job. */
  refused(jobId: string): void {
    this.#refused.add(jobId);
    this.#hold(!this.#store.jobs.has(jobId), `${nameOf(jobId)} was refused and is durable`);
  }

  /** The answer was this outcome. */
  answered(jobId: string, outcome: Outcome): void {
    const durable = this.#store.jobs.get(jobId)?.outcome;
    this.#hold(
      JSON.stringify(durable) === JSON.stringify(outcome),
      `${nameOf(jobId)} was answered with an outcome that is not durable`,
    );
    this.#acknowledged.add(jobId);
    this.#world.progress.reported(jobId);
  }

  /** Its document cannot be fetched. */
  mayFail(jobId: string): void {
    this.#mayFail.add(jobId);
  }

  planned(from: number, record: number): void {
    this.#plans.push({ from, record });
  }

  /** A batch is about to become a part of the log. */
  committing(): void {
    this.#hold(!this.isForked, 'a batch was committed while the fork alarm was on');
  }

  /** A batch has become durable. */
  committed(batch: SealedBatch): void {
    const { epochs, leaves, batches, jobs } = this.#store;
    const note = parseNote(batch.checkpoint);
    const checkpoint = note && parseCheckpoint(note.text);
    const { epoch, end } = termAt(epochs, batch.sealedAt);
    this.#hold(checkpoint?.treeSize === leaves.length, 'a checkpoint is of another size than its log');
    const root = rootOf(leaves.map(({ data }) => hash(Buffer.of(0), data)));
    this.#hold(
      root.equals(checkpoint?.root ?? new Uint8Array()),
      'a checkpoint has another root than its log',
    );
    this.#hold((batches.at(-2)?.sealedAt ?? 0) <= batch.sealedAt, 'the time of the log went back');
    this.#hold(batch.sealedAt >= epoch.from && batch.sealedAt < end, 'a batch is of no epoch');
    const text = Buffer.from(note?.text ?? '');
    const signers = epoch.keys.filter((key) =>
      note?.signatures.some(
        ({ keyId, signature }) =>
          bytesEqual(keyId, noteKeyId(ORIGIN, key)) && signatureOf(key, text).equals(signature),
      ),
    );
    this.#hold(meetsQuorum(epoch.quorum, signers), 'a batch was committed below its quorum');
    const isStamped = epoch.timestamps === 'none' || batch.timestamp?.token === tokenOf(batch.checkpoint);
    this.#hold(isStamped, 'a batch has no time-stamp of its own, and its epoch requires one');
    const witness = this.#witness;
    this.#hold(witness === undefined || witness.size === batch.treeSize, 'a batch was committed unwitnessed');
    for (const { jobId, data } of batch.leaves) {
      const job = jobs.get(jobId)?.job;
      const isOwn =
        job && isReceived(job) && bytesEqual(data, leafData(manifestOf(job, ENVIRONMENT, batch.sealedAt)));
      this.#hold(isOwn === true, `the leaf of ${nameOf(jobId)} is not of its manifest`);
      const number = parseAuditReference(jobs.get(jobId)?.job.customerReference);
      if (number === undefined) continue;
      this.#hold(number === this.#records + 1, `audit record ${number} was sealed after ${this.#records}`);
      this.#records = number;
    }
    for (const { from, record } of this.#plans) {
      if (batch.sealedAt >= from)
        this.#hold(this.#records >= record, 'something was sealed in an epoch before the record of its plan');
    }
  }

  /** The phase of no job goes back, whatever happens to the daemon. */
  phases(sealer: Pick<Sealer, 'phase'>): void {
    for (const [id, record] of this.#store.jobs) {
      if (!isOfClient(record.job)) continue;
      const phase = sealer.phase(record);
      const before = this.#phases.get(id) ?? phase;
      const isOver = before === 'completed' || before === 'failed';
      const isBack = isOver ? phase !== before : JOB_PHASES.indexOf(phase) < JOB_PHASES.indexOf(before);
      this.#hold(!isBack, `${nameOf(id)} was ${before} and is ${phase}`);
      this.#phases.set(id, phase);
    }
  }

  /** A document that was being hashed is fetched again by the next daemon. */
  restarted(): void {
    for (const [id, phase] of this.#phases) if (phase === 'hashing') this.#phases.delete(id);
  }

  /** Everything that was promised has come true. */
  ended(): void {
    const { jobs, leaves } = this.#store;
    for (const id of this.#acknowledged)
      this.#hold(jobs.has(id), `${nameOf(id)} was acknowledged and is lost`);
    for (const id of this.#refused) this.#hold(!jobs.has(id), `${nameOf(id)} was refused and is durable`);
    const sealed = new Set(leaves.map(({ jobId }) => jobId));
    this.#hold(sealed.size === leaves.length, 'a job was sealed twice');
    for (const [id, { job, outcome }] of jobs) {
      const waited = this.#store.failedAfterMs.get(id) ?? GIVE_UP_MS;
      this.#hold(outcome !== undefined, `${nameOf(id)} has no outcome`);
      this.#hold(
        waited >= GIVE_UP_MS || this.#mayFail.has(id),
        `${nameOf(id)} failed ${waited} ms after its acceptance`,
      );
      this.#hold(
        outcome?.kind !== 'failed' || job.source !== 'audit',
        `${nameOf(id)} is a record and failed`,
      );
    }
    this.rested();
  }

  rested(): void {
    const { fault } = this.#world.progress;
    this.#hold(fault === undefined, `${fault}`);
    this.#hold(this.#witness?.fork === undefined, `the witness raises the alarm: ${this.#witness?.fork}`);
    if (this.#broken !== undefined) throw this.#broken;
  }

  /** Kept until {@link rested}, so that no promise of the daemon swallows it. */
  #hold(isSo: boolean, promise: string): void {
    if (!isSo) this.#broken ??= new Broken(promise);
  }
}

function hash(...parts: readonly Uint8Array[]): Buffer {
  const state = createHash('sha256');
  for (const part of parts) state.update(part);
  return state.digest();
}

/** The tree head as RFC 6962, section 2.1, defines it. */
function rootOf(hashes: readonly Buffer[]): Buffer {
  if (hashes.length === 0) return hash();
  if (hashes.length === 1) return hashes[0] as Buffer;
  const left = 2 ** Math.floor(Math.log2(hashes.length - 1));
  return hash(Buffer.of(1), rootOf(hashes.slice(0, left)), rootOf(hashes.slice(left)));
}
