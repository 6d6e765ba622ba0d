import type { Logger } from 'pino';
import { bytesEqual } from '../base/bytes.ts';
import type { Clock } from '../base/clock.ts';
import { type Checkpoint, parseCheckpoint } from '../log/checkpoint.ts';
import { cosignaturesIn, encodeCosigner } from '../log/cosignature.ts';
import { encodeNote, type Note, type NoteSignature, parseNote } from '../log/note.ts';
import { noteKeyId } from '../log/verifierKey.ts';
import { type PolicyWitness, satisfiesPolicy, type WitnessPolicy } from '../log/witnessPolicy.ts';
import type { Batch, Store } from '../store/store.ts';
import type { CosignedCheckpoint, WitnessRecord } from '../store/witnessStore.ts';
import { type Submission, WitnessClient, type WitnessTrouble } from './witnessClient.ts';

export interface WitnessingOptions {
  policy: WitnessPolicy;
  store: Pick<Store, 'identity' | 'log' | 'epochs' | 'witnessing'>;
  /** From the end of one round to the next, milliseconds. */
  intervalMs: number;
  /** PEM of the only certificate authorities to trust for TLS; undefined: those of Node.js. */
  ca: readonly string[] | undefined;
  clock: Clock;
  logger: Logger;
  /** Told when the store can no longer be read or written: the process must end. */
  onFatal(error: unknown): void;
}

/** How things stand with one witness. */
export interface WitnessStatus extends WitnessRecord {
  /** Its name in the policy. */
  name: string;
  /** Whether it is asked over the network. */
  isAsked: boolean;
  /** Why its newest answer was no cosignature. */
  trouble?: { code: WitnessTrouble; detail: string };
}

export interface WitnessingStatus {
  witnesses: WitnessStatus[];
  /** Size of the newest checkpoint that the quorum of the policy has cosigned, and when that was done; Unix time in milliseconds. */
  witnessed?: { treeSize: number; at: number };
}

/** A witness, and what is known of it. */
interface Member {
  witness: PolicyWitness;
  vkey: string;
  record: WitnessRecord;
  trouble?: NonNullable<WitnessStatus['trouble']>;
  /** How many rounds in a row it has asked to be spared, and from when on it can be asked again, monotonic milliseconds. */
  spared: number;
  from: number;
}

/** A cosignature of the newest checkpoint is made anew once it is so old: it says that nothing was added. */
const REFRESH_MS = 3_600_000;
/** Longest pause for a witness that was asked too often. */
const SPARE_MS_MAX = 3_600_000;

/**
 * Has the newest checkpoint cosigned by the witnesses of a policy, on a timer, and keeps what they say. A witness that holds another
 * history of the log ends this, and all sealing, until an administrator has looked into it.
 */
export class Witnessing {
  readonly #options: WitnessingOptions;
  readonly #client: WitnessClient;
  readonly #members: Member[];
  #cosigned: CosignedCheckpoint | undefined;
  #witnessed: CosignedCheckpoint | undefined;
  #timer: NodeJS.Timeout | undefined;
  #round: Promise<void> = Promise.resolve();
  #isClosed = false;

  /** Use {@link openWitnessing}. */
  constructor(
    options: WitnessingOptions,
    members: Member[],
    { cosigned, witnessed }: { cosigned?: CosignedCheckpoint; witnessed?: CosignedCheckpoint },
  ) {
    this.#options = options;
    this.#client = new WitnessClient(options.ca);
    this.#members = members;
    this.#cosigned = cosigned;
    this.#witnessed = witnessed;
    for (const { witness, record } of members)
      if (record.contradiction !== undefined) this.#raise(witness, record.contradiction.detail);
  }

  /** Begins to ask. Called once. */
  start(): void {
    this.#timer = setTimeout(() => void this.#next(), 0);
  }

  /** Whether a witness of the policy holds another history of the log. */
  get isForked(): boolean {
    return this.#members.some(({ record }) => record.contradiction !== undefined);
  }

  get status(): WitnessingStatus {
    const { policy } = this.#options;
    const note = this.#witnessed && parseNote(this.#witnessed.checkpoint);
    const times = note ? cosignaturesIn(note, policy.witnesses).map(({ time }) => time) : [];
    return {
      witnesses: this.#members.map(({ witness: { label, url }, record, trouble }) => ({
        name: label,
        isAsked: url !== undefined,
        ...record,
        ...(trouble && { trouble }),
      })),
      ...(this.#witnessed && {
        witnessed: { treeSize: this.#witnessed.treeSize, at: Math.max(0, ...times) * 1000 },
      }),
    };
  }

  /** Cancels the requests under way. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    this.#client.close();
    await this.#round;
  }

  /** Never rejects: the process ends instead. */
  async #next(): Promise<void> {
    this.#round = this.#askAll().catch(this.#options.onFatal);
    await this.#round;
    if (!this.#isClosed) this.#timer = setTimeout(() => void this.#next(), this.#options.intervalMs);
  }

  /** One round: everybody is asked to cosign the same checkpoint. */
  async #askAll(): Promise<void> {
    const { store } = this.#options;
    const head = await store.log.head();
    if (head === undefined || this.isForked) return;
    const submission = await this.#submission(head);
    if (submission === undefined) return;
    const due = this.#members.filter((member) => this.#isDue(member, head));
    const lines = await Promise.all(due.map((member) => this.#ask(member, submission)));
    if (this.#isClosed || due.length === 0) return;
    await this.#keep(
      head,
      lines.filter((line) => line !== undefined),
    );
  }

  #isDue({ witness, record, from }: Member, { treeSize }: Batch): boolean {
    if (witness.url === undefined || performance.now() < from) return false;
    const { cosignedAt = 0 } = record;
    return record.treeSize !== treeSize || this.#options.clock() - cosignedAt * 1000 >= REFRESH_MS;
  }

  /** Undefined where no key signed that a witness could know. */
  async #submission(head: Batch): Promise<Submission | undefined> {
    const { store, policy, logger } = this.#options;
    const note = parseNote(head.checkpoint);
    const checkpoint = note && parseCheckpoint(note.text);
    if (note === undefined || checkpoint === undefined) return undefined;
    const { list } = await store.epochs.newest();
    const keys = list.flatMap((epoch) => epoch.keys.filter(({ algorithm }) => algorithm === 'ed25519'));
    const signatures = linesFor(
      policy,
      checkpoint,
      note,
      keys.map((key) => noteKeyId(checkpoint.origin, key)),
    );
    if (signatures.length === 0) {
      logger.warn(
        { tree_size: head.treeSize },
        'no Ed25519 key signed the newest checkpoint: no witness is asked to cosign it',
      );
      return undefined;
    }
    return {
      checkpoint,
      note: { text: note.text, signatures },
      readTile: (level, index) => store.log.tile(level, index),
      sizeNow: async () => (await store.log.head())?.treeSize ?? 0,
    };
  }

  async #ask(member: Member, submission: Submission): Promise<NoteSignature | undefined> {
    const { witness, record } = member;
    if (witness.url === undefined) return undefined;
    const found = await this.#client.cosign(witness, witness.url, record.treeSize, submission);
    if (this.#isClosed) return undefined;
    member.spared = found.kind === 'trouble' && found.trouble === 'too_often' ? member.spared + 1 : 0;
    member.from = performance.now() + pauseMs(member.spared, this.#options.intervalMs);
    switch (found.kind) {
      case 'cosigned':
        member.record = { treeSize: submission.checkpoint.treeSize, cosignedAt: found.time };
        this.#clear(member);
        return found.line;
      case 'contradiction':
        member.record = { ...record, contradiction: { detail: found.detail, at: this.#options.clock() } };
        this.#raise(witness, found.detail);
        return undefined;
      case 'trouble':
        this.#report(member, { code: found.trouble, detail: found.detail });
        return undefined;
    }
  }

  #raise({ label }: PolicyWitness, detail: string): void {
    const fields = { event: 'fork_alarm', witness: label };
    this.#options.logger.error(
      fields,
      `the witness ${label} holds another history of the log: ${detail}; nothing is sealed`,
    );
  }

  #report(member: Member, trouble: NonNullable<Member['trouble']>): void {
    const { label } = member.witness;
    const isNew = member.trouble?.code !== trouble.code;
    member.trouble = trouble;
    if (!isNew) return;
    const fields = { event: 'witness_failing', witness: label, reason: trouble.code };
    this.#options.logger.warn(fields, `the witness ${label} does not cosign: ${trouble.detail}`);
  }

  #clear(member: Member): void {
    if (member.trouble === undefined) return;
    const { label } = member.witness;
    delete member.trouble;
    this.#options.logger.info(
      { event: 'witness_back', witness: label },
      `the witness ${label} cosigns again`,
    );
  }

  /** Makes durable what the witnesses said. If we stop before, they are asked again, and say what they hold. */
  async #keep(head: Batch, lines: readonly NoteSignature[]): Promise<void> {
    const { store, policy } = this.#options;
    if (lines.length > 0) {
      this.#cosigned = { treeSize: head.treeSize, checkpoint: cosign(head, this.#cosigned, lines, policy) };
      const note = parseNote(this.#cosigned.checkpoint);
      const cosigners = note ? cosignaturesIn(note, policy.witnesses) : [];
      if (satisfiesPolicy(policy, new Set(cosigners.map(({ cosigner }) => cosigner.label))))
        this.#witnessed = this.#cosigned;
    }
    await store.witnessing.put({
      witnesses: Object.fromEntries(this.#members.map(({ vkey, record }) => [vkey, record])),
      ...(this.#cosigned && { cosigned: this.#cosigned }),
      ...(this.#witnessed && { witnessed: this.#witnessed }),
    });
  }
}

/** Takes up what was known of the witnesses of the policy. What was known of others is forgotten with the next write. */
export async function openWitnessing(options: WitnessingOptions): Promise<Witnessing> {
  const { policy, store } = options;
  const { witnesses, ...newest } = await store.witnessing.get();
  const members = policy.witnesses.map((witness): Member => {
    const vkey = encodeCosigner(witness);
    return { witness, vkey, record: witnesses[vkey] ?? { treeSize: 0 }, spared: 0, from: 0 };
  });
  return new Witnessing(options, members, newest);
}

/** The lines of the keys that the policy lists for the log; where it lists none that signed, those of all Ed25519 keys. */
function linesFor(
  { logs }: WitnessPolicy,
  { origin }: Checkpoint,
  { signatures }: Note,
  keyIds: readonly Uint8Array[],
): NoteSignature[] {
  const listed = logs.flatMap(({ key }) => (key?.name === origin ? [noteKeyId(origin, key)] : []));
  const own = signatures.filter(({ keyId }) => keyIds.some((id) => bytesEqual(id, keyId)));
  const known = own.filter(({ keyId }) => listed.some((id) => bytesEqual(id, keyId)));
  return known.length > 0 ? known : own;
}

/** The checkpoint with its cosignature lines: the new ones, and for other witnesses those that it had. */
function cosign(
  { checkpoint, treeSize }: Batch,
  before: CosignedCheckpoint | undefined,
  lines: readonly NoteSignature[],
  { witnesses }: WitnessPolicy,
): string {
  const note = parseNote(checkpoint);
  if (note === undefined) return checkpoint;
  const had = before?.treeSize === treeSize ? (parseNote(before.checkpoint)?.signatures ?? []) : [];
  const signatures = [...lines, ...had];
  const newest = cosignaturesIn({ text: note.text, signatures }, witnesses);
  return encodeNote(note.text, [...note.signatures, ...newest.map(({ line }) => line)]);
}

/** Twice as long each time that a witness asks to be spared. */
function pauseMs(spared: number, intervalMs: number): number {
  return spared === 0 ? 0 : Math.min(intervalMs * 2 ** spared, SPARE_MS_MAX);
}
