import { fileURLToPath } from 'node:url';
import { Companion, type CompanionProgram } from '../base/companion.ts';
import { readFrames } from '../base/frames.ts';
import { DATAGRAM_ADDON } from '../base/journal.ts';
import { free } from '../base/memory.ts';
import { siblingModule } from '../base/package.ts';
import { attachmentPlan } from '../pdf/attachmentPlan.ts';
import type { Edit } from '../pdf/findings.ts';
import { NotStrippable } from '../pdf/notStrippable.ts';
import type { AttachmentPlan } from '../pdf/update/suffix.ts';
import type { ByteSource } from '../pdf/window.ts';
import {
  EDITS_MAX,
  encodeHead,
  isGiven,
  MESSAGE_BYTES_MAX,
  parseMessage,
  READ_BYTES_MAX,
  type StripperMessage,
  type StripperTask,
} from './stripperMessages.ts';

/** Memory limit of a stripper. A hostile document that exceeds it ends the stripper. Ordinary documents need a tenth. */
const HEAP_MB_MAX = 512;

/**
 * How a stripper is started: it can read the compiled sources and the add-on that protects its memory, and no other file; it cannot write
 * files or start programs.
 */
export const STRIPPER: Omit<CompanionProgram, 'onOutput'> = {
  program: fileURLToPath(siblingModule('stripper', import.meta.url)),
  args: [],
  execArgv: [
    '--disable-sigusr1',
    `--max-old-space-size=${HEAP_MB_MAX}`,
    '--permission',
    `--allow-fs-read=${fileURLToPath(new URL('..', import.meta.url))}`,
    `--allow-fs-read=${DATAGRAM_ADDON}`,
    '--allow-addons',
    '--allow-worker',
    '--disable-warning=SecurityWarning',
  ],
  environment: { PATH: '/usr/bin:/bin', LANG: 'C.UTF-8' },
  charter: null,
};

/** A stripper ended, or sent an invalid message, while it had a document. */
export class StripperLost extends Error {}

/** A document whose bytes can come later. */
interface ReadableDocument {
  readonly bytes: number;
  read(position: number, length: number): Buffer | Promise<Buffer>;
}

interface Findings {
  edits: Edit[];
  plan?: AttachmentPlan;
}

interface Task extends Findings {
  document: ReadableDocument;
  /** Whether the stripper was sent the whole document. */
  isGiven: boolean;
  resolve(findings: Findings): void;
  reject(error: unknown): void;
}

/** The daemon's side of one stripper, which parses one document after another. Only small ones that it plans can wait there for each other. */
export class StripperProcess {
  readonly #companion: Companion;
  readonly #tasks: Task[] = [];
  #isLost = false;
  /** Whether it ever answered. */
  #hasBegun = false;
  #isSending = false;

  /** Connects to the unit at `socket`; without one, starts a child. */
  constructor(socket: string | undefined) {
    const onOutput = (line: string) => void process.stderr.write(`stripper: ${line}\n`);
    this.#companion =
      socket === undefined ? Companion.start({ ...STRIPPER, onOutput }) : Companion.reach(socket);
    readFrames(this.#companion.stream, MESSAGE_BYTES_MAX, (message) => this.#receive(message));
    void this.#companion.gone.then((reason) => {
      this.#fail(
        this.#hasBegun ? new StripperLost(reason) : new Error(`no stripper can be reached: ${reason}`),
      );
    });
  }

  /**
   * The XMP of a document, as edits that remove it: in order, and within the document. Throws NotStrippable, StripperLost, or what
   * `document.read` throws. After an error other than NotStrippable, the stripper has ended.
   */
  async search(document: ByteSource): Promise<Edit[]> {
    return (await this.#carryOutTask('strip', document)).edits;
  }

  /** The plan of an attachment to a document. Throws as {@link search}. */
  async plan(document: ReadableDocument): Promise<AttachmentPlan> {
    const { plan } = await this.#carryOutTask('plan', document);
    if (plan === undefined) throw this.#fail(new StripperLost('it planned nothing'));
    return plan;
  }

  #carryOutTask(task: StripperTask, document: ReadableDocument): Promise<Findings> {
    if (this.#isLost) return Promise.reject(new StripperLost('it ended before'));
    const { promise, resolve, reject } = Promise.withResolvers<Findings>();
    const given = isGiven({ task, documentBytes: document.bytes });
    this.#tasks.push({ document, isGiven: given, edits: [], resolve, reject });
    this.#gather();
    this.#companion.stream.write(encodeHead(task, document.bytes));
    if (given) this.#send(document, 0, document.bytes);
    return promise;
  }

  /** What is sent in one turn of the event loop is one write, so that many small documents wake the stripper once. */
  #gather(): void {
    const { stream } = this.#companion;
    if (stream.writableCorked > 0) return;
    stream.cork();
    setImmediate(() => stream.uncork());
  }

  get isBusy(): boolean {
    return this.#tasks.length > 0;
  }

  /** Whether it has ended, or is about to. */
  get isLost(): boolean {
    return this.#isLost;
  }

  kill(): void {
    this.#isLost = true;
    this.#companion.kill();
  }

  #receive(received: unknown): void {
    const message = parseMessage(received);
    try {
      const [task] = this.#tasks;
      if (message === undefined || task === undefined || !this.#carryOut(message, task))
        throw new StripperLost('it said what no stripper says');
    } catch (error) {
      this.#fail(error);
    }
  }

  /** False if a correct stripper would not send this message now. */
  #carryOut(message: StripperMessage, task: Task): boolean {
    if ('ready' in message) {
      this.#hasBegun = true;
      return true;
    }
    const { document, edits } = task;
    if ('read' in message) {
      const [position, length] = message.read;
      if (task.isGiven || length > READ_BYTES_MAX || position + length > document.bytes) return false;
      // A stripper waits until it has the bytes, which bounds the data in transit.
      if (this.#isSending) return false;
      this.#hasBegun = true;
      this.#send(document, position, length);
      return true;
    }
    if ('edits' in message) {
      // Each edit begins where the one before does, or later, lies within the document, and has room for its text.
      for (const [start, end, text] of message.edits) {
        const fits =
          start >= (edits.at(-1)?.start ?? 0) && start + text.length <= end && end <= document.bytes;
        if (!fits || edits.length === EDITS_MAX) return false;
        edits.push({ start, end, text });
      }
      return true;
    }
    if ('plan' in message) {
      const { data } = attachmentPlan.safeParse(message.plan);
      if (data?.bytes !== document.bytes) return false;
      this.#tasks.shift();
      task.resolve({ edits, plan: data });
      return true;
    }
    this.#tasks.shift();
    if (message.refused === null) task.resolve(task);
    else task.reject(new NotStrippable(message.refused));
    return true;
  }

  #send(document: ReadableDocument, position: number, length: number): void {
    this.#isSending = true;
    const send = (bytes: Buffer) =>
      this.#companion.stream.write(bytes, () => {
        this.#isSending = false;
        free(bytes);
      });
    const bytes = document.read(position, length);
    if (Buffer.isBuffer(bytes)) send(bytes);
    else bytes.then(send).catch((error) => this.#fail(error));
  }

  #fail<E>(error: E): E {
    for (const task of this.#tasks.splice(0)) task.reject(error);
    this.kill();
    return error;
  }
}
