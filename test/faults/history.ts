/** What was asked of a daemon, what it answered and what was seen of it: all that the checker knows. Plain data, so that it can be kept. */

/** One try to create a job. No two documents are alike, so a document names its create, and a create can be tried again. */
export interface Try {
  client: string;
  /** SHA-256 of the document, lower-case hex. */
  document: string;
  /** Its Idempotency-Key; absent: each try makes a job of its own. */
  key?: string;
  /** Whether it asked for a sealed PDF. */
  attaches?: true;
  /** Absent when the connection broke before an answer came. */
  answer?: { status: number; jobId?: string; phase?: string; code?: string };
}

export interface Backup {
  folder: string;
  /** Before it began. */
  acknowledged: { jobId: string; phase: string }[];
  /** So many checkpoints had been read, and so many acts done, before it began. */
  checkpoints: number;
  acts: number;
  /** Webhooks that came before it ended. */
  told: string[];
}

/** The log went back to a backup: what was acknowledged after that began may be gone, and clients send it again. Nothing else is given up. */
export function goBack(history: History, { acknowledged, ...kept }: Backup): void {
  const isKept = new Set(acknowledged.map(({ jobId }) => jobId));
  const completed = acknowledged.filter(({ phase }) => phase === 'completed');
  const isSealed = new Set(completed.map(({ jobId }) => jobId));
  for (const attempt of history.tries)
    if (attempt.answer?.jobId !== undefined && !isKept.has(attempt.answer.jobId)) delete attempt.answer;
  history.receipts = history.receipts.filter(({ jobId }) => isSealed.has(jobId));
  history.checkpoints.splice(kept.checkpoints);
  history.acts.splice(kept.acts);
  history.backups = [];
  history.told = kept.told;
}

export interface History {
  tries: Try[];
  /** Every receipt that was read, as often as it was read. */
  receipts: { jobId: string; text: string }[];
  /** Every signed checkpoint that was read. */
  checkpoints: string[];
  /** Every act that was answered with success, and a word that its record must contain. */
  acts: { act: string; word: string }[];
  /** Every backup that was made, the newest last. */
  backups: Backup[];
  /** Every epoch that was planned with a new key in each partition, and not cancelled: when it begins, and how its labels end. */
  epochs: { from: number; suffix: string }[];
  /** Every webhook that came. */
  messages: { webhookId: string; body: string }[];
  /** Ids of webhooks that came before the log went back to a backup: some are of jobs that are gone. */
  told: string[];
  /** What is wrong whatever follows: answers that the API does not have, time-outs, signatures that do not verify. */
  faults: string[];
  /** Every request that was answered with 500, in words, and whether the daemon ran undisturbed then. */
  internalErrors: { request: string; isUndisturbed: boolean }[];
}

/** How the daemon was left, read from its store and its files when it had nothing more to do. */
export interface FinalState {
  jobs: {
    id: string;
    client: string;
    document: string;
    outcome: 'sealed' | 'failed' | 'waiting';
    leafIndex?: number;
    /** Where it counts against a quota: when the window begins. */
    window?: number;
  }[];
  /** In their order; `data` in hex. */
  leaves: { jobId: string; data: string }[];
  /** As the API gave them, by job. */
  receipts: Record<string, string>;
  /** The sealed PDF of each job that has one: what it is of, and whether it is that document, the receipt, and nothing else. */
  sealedPdfs: Record<string, { document: string; receipt: string; isWhole: boolean }>;
  /** Jobs whose receipts do not verify with the exported trust file. */
  unverified: string[];
  /** Signatures on checkpoints, in receipts or not, that do not verify with the key that they name, in words. */
  wrongSignatures: string[];
  checkpoint: string;
  trail: { number: number; jobId: string; text: string }[];
  quotaCounts: { client: string; window: number; jobs: number }[];
  /** `pdfseal check`. */
  check: Check;
  /** The newest backup. */
  backup?: Pick<FinalState, 'jobs' | 'leaves' | 'check'>;
  /** What the witness of the log holds, and every word that it or the daemon said against the log. */
  witness?: { held: string | undefined; refusals: string[] };
  /** When it was read; milliseconds since the epoch. */
  readAt: number;
  /** Jobs that nothing can be said of: they, or their webhooks, were still under way on a machine that did nothing else in time either. */
  late: string[];
}

interface Check {
  status: number | null;
  output: string;
}

/** What the daemon was configured to do. */
export interface Terms {
  /** The client that owns a webhook endpoint, from the first job on. */
  listener: string;
  /** A client with a quota, and its size; it was used until it was refused. */
  limited: { client: string; jobs: number };
  /** System calls of the daemon fail on purpose, so it may answer 500 meanwhile. */
  callsFail?: boolean;
  /** Something vouched for the clock from this date on, the real one, so no receipt may have another; milliseconds since the epoch. */
  vouchedFrom?: number;
}

export function emptyHistory(): History {
  return {
    tries: [],
    receipts: [],
    checkpoints: [],
    acts: [],
    backups: [],
    epochs: [],
    messages: [],
    told: [],
    faults: [],
    internalErrors: [],
  };
}
