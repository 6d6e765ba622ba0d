/**
 * The way of a batch into the log: a table of its states, in order. Each transition has one owner, a method of `Pipeline`, which
 * changes the state once the transition has taken effect. A failure returns a batch that was not announced to `waiting`, together with all
 * batches drafted on it.
 *
 * A batch becomes durable in `committed`, once and with everything that belongs to it. Until then, nothing of it leaves the process, except
 * an announced checkpoint, which is durable before a witness sees it.
 */
export const BATCH_STATES = {
  /** Its jobs are in the queue of `PendingJobs`. */
  waiting: { next: ['drafted'], afterStop: 'waiting' },
  /** `#launch`: leaves, tree, and the text of a checkpoint, in memory. */
  drafted: { next: ['signed', 'waiting'], afterStop: 'waiting' },
  /** `#sign`: a quorum of partitions signed the checkpoint. Their signers remember its tree, and follow the next draft from there. */
  signed: { next: ['stamped', 'waiting'], afterStop: 'waiting' },
  /** `#stamp`: an authority time-stamped the signed checkpoint, if its epoch requires this. The batch is now complete. */
  stamped: { next: ['announced', 'committed', 'waiting'], afterStop: 'waiting' },
  /**
   * `#announce`, only if witnesses must cosign: the store says that this batch is the next one. There is no way back, because a witness
   * would report another batch of its size as a fork. That is why the batch has its time-stamp before: an authority can refuse one.
   */
  announced: { next: ['cosigned'], afterStop: 'announced' },
  /** `#cosign`: a quorum of witnesses cosigned the checkpoint, if the configuration still requires this. */
  cosigned: { next: ['committed'], afterStop: 'announced' },
  /** `#commit`: one transaction of the store with leaves, tiles, checkpoint, receipts, outcomes, and messages to webhook endpoints. */
  committed: { next: ['reported'], afterStop: 'committed' },
  /** `#report`: callers that wait have the outcome. Webhooks are delivered from the store, repeatedly until they arrive. */
  reported: { next: [], afterStop: 'committed' },
} as const satisfies Record<
  string,
  { next: readonly string[]; afterStop: 'waiting' | 'announced' | 'committed' }
>;
// `afterStop`: what the next start finds if the daemon stops in this state. A waiting batch is drafted anew from those of its jobs that are
// durable; an announced one is resumed; a committed one is sealed.

export type BatchState = keyof typeof BATCH_STATES;
