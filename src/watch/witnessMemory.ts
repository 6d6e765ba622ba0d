import type { Logger } from 'pino';
import { cosignaturesIn, encodeCosigner } from '../log/cosignature.ts';
import type { NoteSignature } from '../log/note.ts';
import { parseNote } from '../log/note.ts';
import { type PolicyWitness, satisfiesPolicy, type WitnessPolicy } from '../log/witnessPolicy.ts';
import type { CosignedCheckpoint, WitnessRecord, WitnessStore } from '../store/witnessStore.ts';
import { addLine } from './cosignatureLines.ts';

export interface WitnessMemoryOptions {
  policy: WitnessPolicy;
  store: { witnessing: WitnessStore };
  logger: Logger;
}

/** A witness of the policy, and its last statement. */
export interface KnownWitness {
  witness: PolicyWitness;
  vkey: string;
  record: WitnessRecord;
}

/** A checkpoint with all known lines, and whether they meet the quorum. */
export interface Gathered {
  cosigned: CosignedCheckpoint;
  isMet: boolean;
}

/** Maximum checkpoints that wait for carried answers; the smallest are given up first. */
const CARRIED_MAX = 16;

/** The statements of witnesses about the log, as kept by the store. */
export class WitnessMemory {
  readonly witnesses: readonly KnownWitness[];
  readonly #options: WitnessMemoryOptions;
  #cosigned: CosignedCheckpoint | undefined;
  #witnessed: CosignedCheckpoint | undefined;
  #carried: CosignedCheckpoint[];

  private constructor(options: WitnessMemoryOptions, known: Awaited<ReturnType<WitnessStore['get']>>) {
    this.#options = options;
    this.witnesses = options.policy.witnesses.map((witness) => {
      const vkey = encodeCosigner(witness);
      return { witness, vkey, record: known.witnesses[vkey] ?? { treeSize: 0 } };
    });
    this.#cosigned = known.cosigned;
    this.#witnessed = known.witnessed;
    this.#carried = known.carried ?? [];
    for (const one of this.witnesses)
      if (one.record.contradiction !== undefined) this.#alarm(one, one.record.contradiction.detail);
  }

  /** Removes, durably, records of witnesses that are not in the policy: this ends their fork alarm. */
  static async open(options: WitnessMemoryOptions): Promise<WitnessMemory> {
    const known = await options.store.witnessing.get();
    const memory = new WitnessMemory(options, known);
    const named = new Set(memory.witnesses.map(({ vkey }) => vkey));
    if (Object.keys(known.witnesses).some((vkey) => !named.has(vkey))) await memory.keep();
    return memory;
  }

  /** Whether a witness of the policy holds another history of the log. */
  get isForked(): boolean {
    return this.witnesses.some(({ record }) => record.contradiction !== undefined);
  }

  /** The newest checkpoint that the quorum has cosigned. */
  get witnessed(): CosignedCheckpoint | undefined {
    return this.#witnessed;
  }

  /** The checkpoints given out to be carried to witnesses, newest first. */
  get carried(): readonly CosignedCheckpoint[] {
    return this.#carried;
  }

  /** Keeps a checkpoint until its answers arrive. */
  carry(checkpoint: CosignedCheckpoint): void {
    const { treeSize } = checkpoint;
    if (this.#carried.some((one) => one.treeSize === treeSize)) return;
    // A witness never cosigns a smaller tree than it holds.
    const awaited = this.#carried.filter((one) =>
      this.witnesses.some(({ record }) => record.treeSize <= one.treeSize),
    );
    const known = this.#cosigned?.treeSize === treeSize ? this.#cosigned : checkpoint;
    const newestFirst = [known, ...awaited].sort((a, b) => b.treeSize - a.treeSize);
    this.#carried = newestFirst.slice(0, CARRIED_MAX);
  }

  /** Adds a line to the known lines of a checkpoint. `text`: its note, with all lines of the log. */
  gather(text: string, treeSize: number, line: NoteSignature, before?: CosignedCheckpoint): Gathered {
    const { policy } = this.#options;
    const known = [before, this.#cosigned, ...this.#carried].filter((one) => one?.treeSize === treeSize);
    const had = known.flatMap((one) => parseNote(one?.checkpoint ?? '')?.signatures ?? []);
    const checkpoint = addLine(text, [line, ...had], policy.witnesses);
    const note = parseNote(checkpoint);
    const cosigners = note ? cosignaturesIn(note, policy.witnesses) : [];
    const labels = new Set(cosigners.map(({ cosigner }) => cosigner.label));
    return { cosigned: { treeSize, checkpoint }, isMet: satisfiesPolicy(policy, labels) };
  }

  /** Publishes the gathered lines of a checkpoint that is part of the log, unless a newer one is already published. */
  publish({ cosigned, isMet }: Gathered): void {
    const { treeSize } = cosigned;
    if (treeSize >= (this.#cosigned?.treeSize ?? 0)) this.#cosigned = cosigned;
    if (isMet && treeSize >= (this.#witnessed?.treeSize ?? 0)) this.#witnessed = cosigned;
    this.#carried = this.#carried.map((one) => (one.treeSize === treeSize ? cosigned : one));
  }

  /** The witness has cosigned that tree, at that Unix time in seconds. A fork alarm that was raised in the meantime stays on. */
  acknowledge(known: KnownWitness, treeSize: number, cosignedAt: number): void {
    const { contradiction } = known.record;
    known.record = { treeSize, cosignedAt, contradiction };
  }

  /** The witness holds another history of the log. `at`: milliseconds since the Unix epoch. */
  contradict(known: KnownWitness, detail: string, at: number): void {
    known.record = { ...known.record, contradiction: { detail, at } };
    this.#alarm(known, detail);
  }

  #alarm({ witness: { label } }: KnownWitness, detail: string): void {
    const fields = { event: 'fork_alarm', witness: label };
    this.#options.logger.error(
      fields,
      `the witness ${label} holds another history of the log: ${detail}; nothing is sealed`,
    );
  }

  /** Makes the state durable. If we stop before, the witnesses are asked again, and report what they hold. */
  async keep(): Promise<void> {
    await this.#options.store.witnessing.put({
      witnesses: Object.fromEntries(this.witnesses.map(({ vkey, record }) => [vkey, record])),
      cosigned: this.#cosigned,
      witnessed: this.#witnessed,
      ...(this.#carried.length > 0 && { carried: this.#carried }),
    });
  }
}
