import { parseCheckpoint } from '../../src/log/checkpoint.ts';
import { BATCH_STATES, type BatchState } from '../../src/seal/batchStates.ts';

interface SeenBatch {
  size: number;
  state: BatchState;
}

/**
 * The states of batches, as the devices see them: each holds what it is asked against the table of states. A batch is known by the text of
 * its checkpoint.
 */
export class Progress {
  /** The first transition that is not in the table. */
  fault: string | undefined;
  /** All transitions that were seen. */
  readonly seen = new Set<string>();
  readonly #batches = new Map<string, SeenBatch>();
  /** Committed batches by the ids of their jobs. */
  readonly #committed = new Map<string, SeenBatch>();

  /** A device is asked for something, or does something, that only happens to a batch in this state. `note`: its checkpoint, signed or not. */
  reached(note: string, state: BatchState, jobIds: readonly string[] = []): void {
    const text = textOf(note);
    const size = parseCheckpoint(text)?.treeSize ?? 0;
    // A partition that was away can be asked late for the signature of a batch that was abandoned, beside the batch in its place.
    const isAgain = this.#batches.has(text);
    const batch = this.#batches.get(text) ?? { size, state: 'waiting' };
    this.#batches.set(text, batch);
    // The answer of an authority can come after the batch was abandoned.
    const isLate = state === 'stamped' && batch.state !== 'signed';
    if (batch.state === state || isLate) return;
    const others = [...this.#batches.values()].filter((one) => one !== batch && one.state !== 'committed');
    // One tree is drafted on the other, so a batch that is not smaller than a new one, or than the log, was abandoned.
    if (state === 'drafted') this.#return([batch, ...others.filter((one) => !isAgain && one.size >= size)]);
    if (state === 'committed') this.#return(others.filter((one) => one.size <= size));
    this.#move(batch, state);
    for (const id of jobIds) this.#committed.set(id, batch);
    if (state === 'committed') this.#batches.delete(text);
  }

  /** A caller has the outcome of the job. */
  reported(jobId: string): void {
    const batch = this.#committed.get(jobId);
    if (batch?.state === 'committed') this.#move(batch, 'reported');
  }

  /** The daemon has stopped, and the store has this announced checkpoint. */
  stopped(announced: string | undefined): void {
    const kept = [...this.#batches].filter(([, { state }]) => BATCH_STATES[state].afterStop === 'announced');
    if (kept.map(([text]) => text).join() !== (announced === undefined ? '' : textOf(announced)))
      this.fault ??= 'after a stop, the store has another announced batch than the table says';
    this.#batches.clear();
    for (const [text, batch] of kept) this.#batches.set(text, { ...batch, state: 'announced' });
  }

  #return(batches: readonly SeenBatch[]): void {
    for (const one of batches) if (one.state !== 'waiting') this.#move(one, 'waiting');
  }

  #move(batch: SeenBatch, to: BatchState): void {
    const next: readonly BatchState[] = BATCH_STATES[batch.state].next;
    const transition = `${batch.state} → ${to}`;
    if (!next.includes(to)) this.fault ??= `a batch went ${transition}`;
    this.seen.add(transition);
    batch.state = to;
  }
}

function textOf(note: string): string {
  return note.split('\n\n')[0]?.trimEnd().concat('\n') ?? '';
}
