import { connect, type Socket } from 'node:net';
import { assert } from '../base/assert.ts';
import { systemReason } from '../base/systemReason.ts';
import { ScannerFailure, type ScannerTrouble } from './scannerFailure.ts';

/** Where clamd listens. */
export type ClamdAddress = { path: string } | { host: string; port: number };

/** A clamd that runs accepts at once, or is too far away. */
const CONNECT_MS_MAX = 5_000;
/** Far more than any answer of clamd has. */
const ANSWER_BYTES_MAX = 4096;
/** From here on a document waits for clamd to take its bytes. */
const PENDING_BYTES_MAX = 256 * 1024;
const END_OF_STREAM = Buffer.alloc(4);

interface Expected {
  resolve(answer: string): void;
  reject(failure: ScannerFailure): void;
  /** Set once nothing is missing for the answer. */
  timer?: NodeJS.Timeout;
}

/**
 * One connection to clamd in a session of its protocol (clamd(8): IDSESSION): commands are numbered from 1, answers carry
 * the number. Whatever does not fit ends the connection, and with it all that was expected of it.
 */
export class ClamdSession {
  readonly #socket: Socket;
  readonly #timeoutMs: number;
  readonly #expected = new Map<number, Expected>();
  readonly #closed = Promise.withResolvers<void>();
  #room: PromiseWithResolvers<void> | undefined;
  #commands = 0;
  #received = '';
  #failure: ScannerFailure | undefined;
  /** The stream under way: its number, and its answer. */
  #stream: { id: number; answer: Promise<string> } | undefined;

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

  /** Resolves when the connection is of no use any more. */
  get closed(): Promise<void> {
    return this.#closed.promise;
  }

  get isOpen(): boolean {
    return this.#failure === undefined;
  }

  /** The answer to VERSION, as it came. */
  version(): Promise<string> {
    this.#requireUse();
    this.#socket.write('zVERSION\0');
    this.#commands += 1;
    return this.#answerTo(this.#commands, this.#timer());
  }

  /** Begins a document; nothing else can be asked until it is ended. */
  begin(): void {
    this.#requireUse();
    this.#socket.write('zINSTREAM\0');
    this.#commands += 1;
    const answer = this.#answerTo(this.#commands);
    // A stream can fail while nobody waits for its answer; who asks later still learns of it.
    answer.catch(() => {});
    this.#stream = { id: this.#commands, answer };
  }

  /**
   * Sends the next bytes of the document, which must not be changed afterwards. A promise means: enough for now, go on when
   * it resolves; it rejects, and this throws, with ScannerFailure.
   */
  write(bytes: Uint8Array): Promise<void> | undefined {
    this.#requireUse();
    // Without bytes it would be the end of the document.
    if (bytes.length === 0) return undefined;
    const length = Buffer.alloc(4);
    length.writeUInt32BE(bytes.length);
    this.#socket.cork();
    this.#socket.write(length);
    this.#socket.write(bytes);
    this.#socket.uncork();
    return this.#socket.writableLength < PENDING_BYTES_MAX ? undefined : this.#waitForRoom();
  }

  /** No bytes follow: clamd's answer, as it came. Rejects with ScannerFailure. */
  async end(): Promise<string> {
    this.#requireUse();
    const { id, answer } = this.#stream ?? {};
    const expected = id === undefined ? undefined : this.#expected.get(id);
    assert(answer && expected, 'a document is begun before it is ended');
    this.#stream = undefined;
    expected.timer = this.#timer();
    this.#socket.write(END_OF_STREAM);
    return answer;
  }

  /** Harmless when repeated. A document under way is forgotten by clamd. */
  close(): void {
    this.#fail('closed', 'the connection was given up');
  }

  #requireUse(): void {
    if (this.#failure) throw this.#failure;
  }

  #answerTo(id: number, timer?: NodeJS.Timeout): Promise<string> {
    return new Promise((resolve, reject) => {
      this.#expected.set(id, { resolve, reject, ...(timer && { timer }) });
    });
  }

  #timer(): NodeJS.Timeout {
    const late = () => this.#fail('timed_out', `clamd did not answer within ${this.#timeoutMs} ms`);
    return setTimeout(late, this.#timeoutMs);
  }

  /** Answers end with a NUL, since commands began with `z`. */
  #receive(text: string): void {
    const answers = (this.#received + text).split('\0');
    this.#received = answers.pop() ?? '';
    for (const answer of answers) this.#take(answer);
    if (this.#received.length > ANSWER_BYTES_MAX) this.#garbled();
  }

  #take(answer: string): void {
    if (this.#failure) return;
    const [, digits = '', text = ''] = /^(\d{1,10}): (.*)$/s.exec(answer) ?? [];
    const id = Number(digits);
    const expected = this.#expected.get(id);
    if (expected === undefined || answer.length > ANSWER_BYTES_MAX) {
      this.#garbled();
    } else if (id === this.#stream?.id) {
      this.#refused(text);
    } else {
      this.#expected.delete(id);
      clearTimeout(expected.timer);
      expected.resolve(text);
    }
  }

  /** An answer before the document's end is a refusal, or a lie. */
  #refused(text: string): void {
    if (text.startsWith('INSTREAM size limit exceeded')) {
      const remedy = 'raise StreamMaxLength in clamd.conf, or lower limits.document_bytes_max';
      this.#fail('size_limit', `clamd takes no document of this size: ${remedy}`);
    } else {
      this.#fail('refused', 'clamd answered before it had the whole document; its log says why');
    }
  }

  #garbled(): void {
    this.#fail('garbled', 'what answers at scan.clamd does not speak the protocol of clamd');
  }

  #waitForRoom(): Promise<void> {
    if (this.#room) return this.#room.promise;
    const room = Promise.withResolvers<void>();
    this.#room = room;
    const late = () => this.#fail('timed_out', `clamd took no bytes for ${this.#timeoutMs} ms`);
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
    for (const { reject, timer } of this.#expected.values()) {
      clearTimeout(timer);
      reject(this.#failure);
    }
    this.#expected.clear();
    this.#room?.reject(this.#failure);
    this.#closed.resolve();
  }
}

/** Connects, and begins a session. Rejects with ScannerFailure. */
export async function openSession(address: ClamdAddress, timeoutMs: number): Promise<ClamdSession> {
  return new ClamdSession(await openSocket(address, timeoutMs), timeoutMs);
}

/**
 * Whether clamd takes a document of this size as a stream (its `StreamMaxLength`). It judges a piece by its announced length,
 * so none of it is sent, and our end of the connection is closed for clamd to close its own: no time is measured.
 */
export async function takesStreamOf(
  bytes: number,
  address: ClamdAddress,
  timeoutMs: number,
): Promise<boolean> {
  const socket = await openSocket(address, timeoutMs);
  const timer = setTimeout(() => socket.destroy(new Error('time-out')), timeoutMs);
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
    throw new ScannerFailure('closed', `clamd did not say how much it takes (${reason})`, { cause });
  } finally {
    clearTimeout(timer);
    socket.destroy();
  }
  if (answer === '') return true;
  if (answer.startsWith('INSTREAM size limit exceeded')) return false;
  throw new ScannerFailure('garbled', 'clamd did not say how much it takes');
}

function openSocket(address: ClamdAddress, timeoutMs: number): Promise<Socket> {
  const { promise, resolve, reject } = Promise.withResolvers<Socket>();
  const socket = connect({ ...address, noDelay: true });
  const fail = (reason: string, cause?: unknown) => {
    socket.destroy();
    const message = `clamd cannot be reached at ${formatAddress(address)} (${reason})`;
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

function formatAddress(address: ClamdAddress): string {
  return 'path' in address ? `unix:${address.path}` : `tcp:${address.host}:${address.port}`;
}
