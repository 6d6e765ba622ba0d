import { connect, type Socket } from 'node:net';
import { assert } from '../base/assert.ts';
import { systemReason } from '../base/systemReason.ts';
import { ScannerFailure, type ScannerTrouble } from './scannerFailure.ts';

/** The address of clamd. */
export type ClamdAddress = { path: string } | { host: string; port: number };

/** Time-out to connect. A running clamd accepts at once. */
const CONNECT_MS_MAX = 5_000;
/** Far more than the length of any answer of clamd. */
const ANSWER_BYTES_MAX = 4096;
/** With this many unsent bytes, a document waits for clamd. */
const PENDING_BYTES_MAX = 256 * 1024;
const END_OF_STREAM = Buffer.alloc(4);

interface Expected extends PromiseWithResolvers<string> {
  /** Set once clamd has everything it needs for the answer. */
  timer?: NodeJS.Timeout;
}

/**
 * One connection to clamd, as a session of its protocol (clamd(8): IDSESSION). Commands are numbered from 1, each
 * answer carries its command's number, and the next command follows it. Any unexpected byte closes the connection and
 * fails the pending answer.
 */
export class ClamdSession {
  readonly #socket: Socket;
  readonly #timeoutMs: number;
  readonly #closed = Promise.withResolvers<void>();
  #room: PromiseWithResolvers<void> | undefined;
  #commands = 0;
  #received = '';
  #failure: ScannerFailure | undefined;
  /** The answer to the last command. */
  #expected: Expected | undefined;
  /** Whether a document has begun and not ended. */
  #isStreaming = false;

  /** Use {@link openSession}. */
  constructor(socket: Socket, timeoutMs: number) {
    this.#socket = socket;
    this.#timeoutMs = timeoutMs;
    socket.on('data', (bytes) => this.#receive(bytes.toString('latin1')));
    socket.on('drain', () => this.#makeRoom());
    socket.on('error', (cause) => this.#fail('closed', `the connection broke (${systemReason(cause)})`));
    socket.on('close', () => this.#fail('closed', 'clamd closed the connection'));
    socket.write('zIDSESSION\0');
  }

  /** Resolves when the connection can no longer be used. */
  get closed(): Promise<void> {
    return this.#closed.promise;
  }

  get isOpen(): boolean {
    return this.#failure === undefined;
  }

  /** The answer to VERSION, unparsed. */
  version(): Promise<string> {
    return this.#inTime(this.#command('zVERSION\0'));
  }

  /** Begins a document. No other command can be sent until the document ends. */
  begin(): void {
    // The answer can reject before it is awaited. A later `await` still gets the error.
    this.#command('zINSTREAM\0').promise.catch(() => {});
    this.#isStreaming = true;
  }

  /**
   * Sends the next bytes of the document. The caller must not change them afterwards. If this returns a promise, the caller must wait for
   * it before sending more. Throws, and the promise rejects, with ScannerFailure.
   */
  write(bytes: Uint8Array): Promise<void> | undefined {
    this.#requireUse();
    // An empty piece would end the document.
    if (bytes.length === 0) return undefined;
    const length = Buffer.alloc(4);
    length.writeUInt32BE(bytes.length);
    this.#socket.cork();
    this.#socket.write(length);
    this.#socket.write(bytes);
    this.#socket.uncork();
    return this.#socket.writableLength < PENDING_BYTES_MAX ? undefined : this.#waitForRoom();
  }

  /** Ends the document and returns clamd's answer, unparsed. Rejects with ScannerFailure. */
  async end(): Promise<string> {
    this.#requireUse();
    const expected = this.#expected;
    assert(expected && this.#isStreaming, 'a document begins before it ends');
    this.#isStreaming = false;
    this.#socket.write(END_OF_STREAM);
    return this.#inTime(expected);
  }

  /** Can be called again. clamd drops an unfinished document. */
  close(): void {
    this.#fail('closed', 'the connection was closed here');
  }

  #requireUse(): void {
    if (this.#failure) throw this.#failure;
  }

  #command(text: string): Expected {
    this.#requireUse();
    this.#socket.write(text);
    this.#commands += 1;
    const expected: Expected = Promise.withResolvers<string>();
    this.#expected = expected;
    return expected;
  }

  /** The time for the answer begins now. */
  #inTime(expected: Expected): Promise<string> {
    const late = () => this.#fail('timed_out', `clamd did not answer within ${this.#timeoutMs} ms`);
    expected.timer = setTimeout(late, this.#timeoutMs);
    return expected.promise;
  }

  /** Answers end with a NUL, because the commands begin with `z`. */
  #receive(text: string): void {
    const answers = (this.#received + text).split('\0');
    this.#received = answers.pop() ?? '';
    for (const answer of answers) this.#take(answer);
    if (this.#received.length > ANSWER_BYTES_MAX) this.#garbled();
  }

  #take(answer: string): void {
    if (this.#failure) return;
    const [, digits = '', text = ''] = /^(\d{1,10}): (.*)$/s.exec(answer) ?? [];
    const expected = Number(digits) === this.#commands ? this.#expected : undefined;
    if (expected === undefined || answer.length > ANSWER_BYTES_MAX) {
      this.#garbled();
    } else if (this.#isStreaming) {
      this.#refused(text);
    } else {
      this.#expected = undefined;
      clearTimeout(expected.timer);
      expected.resolve(text);
    }
  }

  /** An answer before the document's end is a refusal or a false answer. */
  #refused(text: string): void {
    if (text.startsWith('INSTREAM size limit exceeded')) {
      const remedy = 'raise StreamMaxLength in clamd.conf, or lower limits.document_bytes_max';
      this.#fail('size_limit', `clamd does not accept a document of this size: ${remedy}`);
    } else {
      this.#fail('refused', 'clamd answered before it had the whole document; see the log of clamd');
    }
  }

  #garbled(): void {
    this.#fail('garbled', 'the program that answers at scan.clamd does not speak the protocol of clamd');
  }

  #waitForRoom(): Promise<void> {
    if (this.#room) return this.#room.promise;
    const room = Promise.withResolvers<void>();
    this.#room = room;
    const late = () => this.#fail('timed_out', `clamd accepted no bytes for ${this.#timeoutMs} ms`);
    const timer = setTimeout(late, this.#timeoutMs);
    return room.promise.finally(() => clearTimeout(timer));
  }

  #makeRoom(): void {
    this.#room?.resolve();
    this.#room = undefined;
  }

  #fail(trouble: ScannerTrouble, message: string): void {
    if (this.#failure) return;
    this.#failure = new ScannerFailure(trouble, message);
    this.#socket.destroy();
    clearTimeout(this.#expected?.timer);
    this.#expected?.reject(this.#failure);
    this.#room?.reject(this.#failure);
    this.#closed.resolve();
  }
}

/** Connects to clamd and begins a session. Rejects with ScannerFailure. */
export async function openSession(address: ClamdAddress, timeoutMs: number): Promise<ClamdSession> {
  return new ClamdSession(await openSocket(address, timeoutMs), timeoutMs);
}

/**
 * Whether clamd accepts a document of this size as a stream (its `StreamMaxLength`). clamd checks the announced
 * length of a piece, so no content is sent. This side then closes its end of the connection, and waits until clamd
 * closes the other: the result does not depend on a time-out.
 */
export async function takesStreamOf(
  bytes: number,
  address: ClamdAddress,
  timeoutMs: number,
): Promise<boolean> {
  const socket = await openSocket(address, timeoutMs);
  using _timer = setTimeout(() => socket.destroy(new Error('time-out')), timeoutMs);
  const length = Buffer.alloc(4);
  length.writeUInt32BE(Math.min(bytes, 0xffffffff));
  socket.end(Buffer.concat([Buffer.from('zINSTREAM\0'), length]));
  let answer = '';
  try {
    for await (const chunk of socket) {
      answer += (chunk as Buffer).toString('latin1');
      if (answer.length > ANSWER_BYTES_MAX) break;
    }
  } catch (cause) {
    const reason = systemReason(cause);
    throw new ScannerFailure('closed', `clamd did not state its size limit (${reason})`, { cause });
  } finally {
    socket.destroy();
  }
  if (answer === '') return true;
  if (answer.startsWith('INSTREAM size limit exceeded')) return false;
  throw new ScannerFailure('garbled', 'clamd did not state its size limit');
}

function openSocket(address: ClamdAddress, timeoutMs: number): Promise<Socket> {
  const { promise, resolve, reject } = Promise.withResolvers<Socket>();
  const socket = connect({ ...address, noDelay: true });
  const fail = (reason: string, cause?: unknown) => {
    socket.destroy();
    const where = 'path' in address ? `unix:${address.path}` : `tcp:${address.host}:${address.port}`;
    const message = `clamd cannot be reached at ${where} (${reason})`;
    reject(new ScannerFailure('unreachable', message, { cause }));
  };
  const waitMs = Math.min(timeoutMs, CONNECT_MS_MAX);
  const timer = setTimeout(() => fail(`no answer within ${waitMs} ms`), waitMs);
  const onError = (cause: Error) => fail(systemReason(cause), cause);
  socket.once('error', onError);
  socket.once('connect', () => {
    socket.off('error', onError);
    resolve(socket);
  });
  return promise.finally(() => clearTimeout(timer));
}
