import { fileURLToPath } from 'node:url';
import { Companion, type CompanionProgram } from '../base/companion.ts';
import { readFrames } from '../base/frames.ts';
import { DATAGRAM_ADDON } from '../base/journal.ts';
import { siblingModule } from '../base/package.ts';
import type { Edit } from '../pdf/findings.ts';
import { NotStrippable } from '../pdf/notStrippable.ts';
import type { ByteSource } from '../pdf/window.ts';
import {
  EDITS_MAX,
  LENGTH_BYTES,
  MESSAGE_BYTES_MAX,
  parseMessage,
  READ_BYTES_MAX,
  type StripperMessage,
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

interface Search {
  document: ByteSource;
  edits: Edit[];
  resolve(edits: Edit[]): void;
  reject(error: unknown): void;
}

/** The daemon's side of one stripper, which searches one document after another. */
export class StripperProcess {
  readonly #companion: Companion;
  #search: Search | undefined;
  #isLost = false;
  /** Whether it ever asked for bytes. */
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
  search(document: ByteSource): Promise<Edit[]> {
    if (this.#isLost) return Promise.reject(new StripperLost('it ended before'));
    const { promise, resolve, reject } = Promise.withResolvers<Edit[]>();
    this.#search = { document, edits: [], resolve, reject };
    const length = Buffer.alloc(LENGTH_BYTES);
    length.writeBigUInt64BE(BigInt(document.bytes));
    this.#companion.stream.write(length);
    return promise;
  }

  kill(): void {
    this.#companion.kill();
  }

  #receive(received: unknown): void {
    const message = parseMessage(received);
    try {
      if (message === undefined || this.#search === undefined || !this.#carryOut(message, this.#search))
        throw new StripperLost('it said what no stripper says');
    } catch (error) {
      this.#fail(error);
    }
  }

  /** False if a correct stripper would not send this message now. */
  #carryOut(message: StripperMessage, search: Search): boolean {
    const { document, edits } = search;
    if ('read' in message) {
      const [position, length] = message.read;
      // A stripper waits until it has the bytes, which bounds the data in transit.
      if (this.#isSending || length > READ_BYTES_MAX || position + length > document.bytes) return false;
      this.#hasBegun = true;
      this.#isSending = true;
      this.#companion.stream.write(document.read(position, length), () => {
        this.#isSending = false;
      });
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
    this.#search = undefined;
    if (message.refused === null) search.resolve(edits);
    else search.reject(new NotStrippable(message.refused));
    return true;
  }

  #fail(error: unknown): void {
    this.#isLost = true;
    this.#search?.reject(error);
    this.#search = undefined;
    this.kill();
  }
}
