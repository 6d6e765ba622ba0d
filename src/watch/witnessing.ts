import { EventEmitter, once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import { assert } from '../base/assert.ts';
import type { Clock } from '../base/clock.ts';
import { cosignaturesIn } from '../log/cosignature.ts';
import { type NoteSignature, parseNote } from '../log/note.ts';
import { openCheckpoint } from '../log/signedCheckpoint.ts';
import type { ReadTile } from '../log/tiles.ts';
import type { LogKey } from '../log/verifierKey.ts';
import { satisfiesPolicy, type WitnessPolicy } from '../log/witnessPolicy.ts';
import type { Cosigners } from '../seal/cosigners.ts';
import type { Store } from '../store/store.ts';
import type { WitnessRecord } from '../store/witnessStore.ts';
import type { HttpExchange } from '../web/httpClient.ts';
import { Carrying } from './carrying.ts';
import { dateFault, linesFor } from './cosignatureLines.ts';
import { askToCosign, type Submission, type WitnessTrouble } from './witnessClient.ts';
import { type Gathered, type KnownWitness, WitnessMemory } from './witnessMemory.ts';

export interface WitnessingOptions {
  policy: WitnessPolicy;
  store: Pick<Store, 'log' | 'witnessing'>;
  /** The keys of all epochs of the log. */
  keys(): readonly LogKey[];
  /** From the end of one round to the next, milliseconds. */
  intervalMs: number;
  /** The HTTP client for the witnesses. It is closed with this object. */
  client: HttpExchange;
  clock: Clock;
  logger: Logger;
  /** Called if the store can no longer be read or written: the process must end. */
  onFatal(error: unknown): void;
}

/** The state of one witness. */
export interface WitnessStatus extends WitnessRecord {
  /** Its name in the policy. */
  name: string;
  /** Whether it is asked over the network. */
  isAsked: boolean;
  /** Why its newest answer was not a cosignature. */
  trouble?: { code: WitnessTrouble; detail: string };
}

export interface WitnessingStatus {
  witnesses: WitnessStatus[];
  /** Whether the quorum needs a witness that cannot be reached over a network. */
  isByHand: boolean;
  /** Size of the newest checkpoint cosigned by the quorum of the policy, and when that was; Unix time in milliseconds. */
  witnessed?: { treeSize: number; at: number };
}

/** A witness, and the state of asking it. */
interface Member {
  known: KnownWitness;
  trouble?: NonNullable<WitnessStatus['trouble']>;
  /** Resolves once it has answered the last request. */
  answered: Promise<void>;
  /** How many times in a row it has answered that it was asked too often, and when it last answered, in monotonic milliseconds. */
  spared: number;
  answeredAt: number;
}

/** The checkpoint currently shown to the witnesses: the newest of the log. */
interface Shown extends Submission {
  /** The signed note, with all lines of the log. */
  text: string;
  gathered?: Gathered;
  /** Resolves once the quorum is met. */
  met: Promise<boolean>;
  meet(isMet: boolean): void;
}

/** A cosignature of the newest checkpoint is renewed at this age: it shows that nothing was added since. */
const REFRESH_MS = 3_600_000;
/** Longest pause for a witness that was asked too often; while a batch waits for it, sealing stands still. */
const SPARE_MS_MAX = 3_600_000;
const SPARE_FOR_BATCH_MS_MAX = 5_000;
/** Pause before asking again the witnesses that a batch waits for. */
const PAUSE_MS = 1_000;
/** How long a request to be carried waits for the witnesses on the network. */
const OTHERS_MS_MAX = 5_000;

/**
 * Has the newest checkpoint cosigned by the witnesses of a policy, and keeps their answers: on a timer, and on request for each batch
 * before it is released. If a witness holds another history of the log, this ends, and so does all sealing, until an administrator has
 * investigated.
 */
export class Witnessing implements Cosigners {
  readonly #options: WitnessingOptions;
  readonly #memory: WitnessMemory;
  readonly #members: Member[];
  readonly carrying: Carrying;
  /** The last checkpoint shown. If it is only announced, it is not part of the log yet, and is shown only to witnesses. */
  #shown: Shown | undefined;
  #isAnnounced = false;
  #canCosign = true;
  readonly #recovery = new EventEmitter();
  #timer: NodeJS.Timeout | undefined;
  readonly #underWay = new Set<Promise<void>>();
  readonly #closing = new AbortController();

  /** Use {@link openWitnessing}. */
  constructor(options: WitnessingOptions, memory: WitnessMemory) {
    this.#options = options;
    this.#memory = memory;
    this.#members = memory.witnesses.map((known) => {
      return { known, answered: Promise.resolve(), spared: 0, answeredAt: 0 };
    });
    this.carrying = new Carrying({
      memory,
      log: options.store.log,
      askOthers: () => Promise.race([this.#showAndAsk(), sleep(OTHERS_MS_MAX, undefined, { ref: false })]),
      submissionOf: (text, readTile) => this.#submission(text, readTile),
      sizeNow: () => this.#sizeNow(),
      clock: options.clock,
    });
  }

  /** Starts asking. Called once. */
  start(): void {
    this.#timer = setTimeout(() => void this.#next(), 0);
  }

  /** Whether a witness of the policy holds another history of the log. */
  get isForked(): boolean {
    return this.#memory.isForked;
  }

  get status(): WitnessingStatus {
    const { policy, clock } = this.#options;
    const { witnessed } = this.#memory;
    const note = witnessed && parseNote(witnessed.checkpoint);
    const all = note ? cosignaturesIn(note, policy.witnesses).map(({ time }) => time) : [];
    const times = all.filter((time) => dateFault(time, clock()) === undefined);
    const asked = policy.witnesses.filter(({ url }) => url !== undefined).map(({ label }) => label);
    return {
      isByHand: !satisfiesPolicy(policy, new Set(asked)),
      witnesses: this.#members.map(({ known, trouble }) => ({
        name: known.witness.label,
        isAsked: known.witness.url !== undefined,
        ...known.record,
        trouble,
      })),
      ...(witnessed && {
        witnessed: { treeSize: witnessed.treeSize, at: Math.max(0, ...times) * 1000 },
      }),
    };
  }

  canCosign(): boolean {
    return this.#canCosign;
  }

  accept(checkpoint: string): boolean {
    const isSigned = this.#submission(checkpoint, async () => undefined) !== undefined;
    if (!isSigned) {
      this.#setCanCosign(false);
      setTimeout(() => this.#setCanCosign(true), PAUSE_MS).unref();
    }
    return isSigned;
  }

  async cosign(checkpoint: string, readTile: ReadTile, signal: AbortSignal): Promise<boolean> {
    const shown = this.#shownOf(checkpoint, readTile);
    assert(shown, 'a batch was announced that no witness accepts');
    const { met } = shown;
    this.#shown = shown;
    this.#isAnnounced = true;
    // The signal lives as long as the daemon, so listeners must be removed.
    const ended = new AbortController();
    const stopped = once(signal, 'abort', { signal: ended.signal }).then(
      () => false,
      () => false,
    );
    try {
      while (!signal.aborted) {
        // A slow or absent witness does not delay the others.
        const isMet = await Promise.race([met, stopped, this.#round()]);
        if (isMet) this.#setCanCosign(true);
        if (isMet !== undefined) return isMet;
        this.#setCanCosign(false);
        await Promise.race([met, stopped, sleep(PAUSE_MS)]);
      }
      return false;
    } finally {
      ended.abort();
    }
  }

  released(): void {
    this.#isAnnounced = false;
    if (this.#shown?.gathered !== undefined) this.#memory.publish(this.#shown.gathered);
    void this.#follow(this.#memory.keep());
  }

  async recovered(signal: AbortSignal): Promise<void> {
    if (!this.#canCosign) await once(this.#recovery, 'can', { signal }).catch(() => {});
  }

  /** Cancels the requests in progress. */
  async close(): Promise<void> {
    this.#closing.abort();
    clearTimeout(this.#timer);
    this.#options.client.close();
    await Promise.all(this.#underWay);
  }

  #setCanCosign(can: boolean): void {
    this.#canCosign = can;
    if (can) this.#recovery.emit('can');
  }

  /** Never rejects: the process ends instead. */
  async #next(): Promise<void> {
    await this.#showAndAsk();
    if (!this.#closing.signal.aborted)
      this.#timer = setTimeout(() => void this.#next(), this.#options.intervalMs);
  }

  /** Never rejects: the process ends instead. */
  async #showAndAsk(): Promise<void> {
    try {
      await this.#showHead();
    } catch (error) {
      this.#options.onFatal(error);
    }
    await this.#round();
  }

  async #showHead(): Promise<void> {
    const { log } = this.#options.store;
    const head = await log.head();
    if (head === undefined || this.#isAnnounced || this.#shown?.text === head.checkpoint) return;
    this.#shown = this.#shownOf(head.checkpoint, (level, index) => log.tile(level, index));
    if (this.#shown === undefined)
      this.#options.logger.warn(
        { tree_size: head.treeSize },
        'no Ed25519 key signed the newest checkpoint: no witness is asked to cosign it',
      );
  }

  /** Asks every idle witness to cosign the current checkpoint. Never rejects: the process ends instead. */
  #round(): Promise<void> {
    return this.#follow(this.#askAll());
  }

  /** Never rejects. */
  #follow(work: Promise<void>): Promise<void> {
    const done = work.catch(this.#options.onFatal).finally(() => this.#underWay.delete(done));
    this.#underWay.add(done);
    return done;
  }

  async #askAll(): Promise<void> {
    const shown = this.#shown;
    if (shown === undefined || this.isForked) return;
    const asked = await Promise.all(
      this.#members.map(async (member) => {
        await member.answered;
        // A newer checkpoint may be current by now.
        if (shown !== this.#shown || !this.#isDue(member, shown)) return false;
        member.answered = this.#ask(member, shown);
        await member.answered;
        return true;
      }),
    );
    if (asked.includes(true) && !this.#closing.signal.aborted) await this.#memory.keep();
  }

  #isDue(member: Member, { checkpoint: { treeSize } }: Shown): boolean {
    const { witness, record } = member.known;
    if (witness.url === undefined || this.#closing.signal.aborted || this.#isSpared(member)) return false;
    const { cosignedAt = 0 } = record;
    return record.treeSize !== treeSize || this.#options.clock() - cosignedAt * 1000 >= REFRESH_MS;
  }

  /** The pause doubles each time that a witness answers that it was asked too often. */
  #isSpared({ spared, answeredAt }: Member): boolean {
    if (spared === 0) return false;
    const pauseMs = this.#isAnnounced
      ? Math.min(PAUSE_MS * 2 ** (spared - 1), SPARE_FOR_BATCH_MS_MAX)
      : Math.min(this.#options.intervalMs * 2 ** spared, SPARE_MS_MAX);
    return performance.now() - answeredAt < pauseMs;
  }

  #shownOf(text: string, readTile: ReadTile): Shown | undefined {
    const submission = this.#submission(text, readTile);
    const { promise: met, resolve: meet } = Promise.withResolvers<boolean>();
    return submission && { ...submission, text, met, meet };
  }

  /** Undefined if it is not signed with a key that a witness could know. */
  #submission(text: string, readTile: ReadTile): Submission | undefined {
    const { policy } = this.#options;
    const opened = openCheckpoint(text);
    if (opened === undefined) return undefined;
    const { note, checkpoint } = opened;
    const signatures = linesFor(policy, checkpoint, note, this.#options.keys());
    if (signatures.length === 0) return undefined;
    const sizeNow = () => this.#sizeNow();
    return { note: { text: note.text, signatures }, checkpoint, readTile, sizeNow };
  }

  /** Number of leaves of the newest tree that a witness can have seen. */
  async #sizeNow(): Promise<number> {
    const { log } = this.#options.store;
    const [head, announced] = [await log.head(), await log.announced()];
    return Math.max(announced?.treeSize ?? 0, head?.treeSize ?? 0);
  }

  async #ask(member: Member, shown: Shown): Promise<void> {
    const { known } = member;
    const { witness } = known;
    if (witness.url === undefined) return;
    const asked = { witness, url: witness.url, heldSize: known.record.treeSize };
    const { signal } = this.#closing;
    const found = await askToCosign(this.#options.client, asked, shown, signal);
    if (signal.aborted) return;
    member.spared = found.kind === 'trouble' && found.trouble === 'too_often' ? member.spared + 1 : 0;
    member.answeredAt = performance.now();
    switch (found.kind) {
      case 'cosigned': {
        const detail = dateFault(found.time, this.#options.clock());
        if (detail !== undefined) return this.#report(member, { code: 'faulty', detail });
        this.#memory.acknowledge(known, shown.checkpoint.treeSize, found.time);
        this.#clear(member);
        this.#take(shown, found.line);
        break;
      }
      case 'contradiction':
        this.#memory.contradict(known, found.detail, this.#options.clock());
        break;
      case 'trouble':
        this.#report(member, { code: found.trouble, detail: found.detail });
    }
  }

  #take(shown: Shown, line: NoteSignature): void {
    const { text, checkpoint, gathered } = shown;
    shown.gathered = this.#memory.gather(text, checkpoint.treeSize, line, gathered?.cosigned);
    if (shown.gathered.isMet) shown.meet(true);
    if (!this.#isAnnounced || shown !== this.#shown) this.#memory.publish(shown.gathered);
  }

  #report(member: Member, trouble: NonNullable<Member['trouble']>): void {
    const { label } = member.known.witness;
    const isNew = member.trouble?.code !== trouble.code;
    member.trouble = trouble;
    if (!isNew) return;
    const fields = { event: 'witness_failing', witness: label, reason: trouble.code };
    this.#options.logger.warn(fields, `the witness ${label} does not cosign: ${trouble.detail}`);
  }

  #clear(member: Member): void {
    if (member.trouble === undefined) return;
    const { label } = member.known.witness;
    delete member.trouble;
    this.#options.logger.info(
      { event: 'witness_back', witness: label },
      `the witness ${label} cosigns again`,
    );
  }
}

/** Loads the stored state of the policy's witnesses. */
export async function openWitnessing(options: WitnessingOptions): Promise<Witnessing> {
  return new Witnessing(options, await WitnessMemory.open(options));
}
