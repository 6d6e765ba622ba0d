import { type ChildProcess, fork } from 'node:child_process';
import { extname } from 'node:path';
import type { Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import type { SignerAnswers, SignerReply, SignerRequest, TokenOptions } from './protocol.ts';
import { SignerFailure } from './signerFailure.ts';

/** `signer.ts` in development, `signer.js` once compiled: whatever this file is. */
const PROGRAM = fileURLToPath(new URL(`./signer${extname(import.meta.url)}`, import.meta.url));

/** A signer inherits nothing else: the daemon's environment may hold credentials, and a vendor's module is foreign code. */
const BASE_ENVIRONMENT = { PATH: '/usr/bin:/bin', LANG: 'C.UTF-8' };

/** An orderly logout may take this long before the process is killed. */
const CLOSE_GRACE_MS = 1000;

/** Longest piece of a module's output that is passed on as one line. */
const OUTPUT_LINE_CHARS_MAX = 500;

interface Pending {
  resolve(answer: SignerAnswers[keyof SignerAnswers]): void;
  reject(failure: SignerFailure): void;
}

/**
 * The parent's end of one signer. Every request carries a time-out, and the first one that passes kills the process: a
 * module that hung once is not asked again. A failure the token reported leaves it running; the caller decides.
 */
export class SignerProcess {
  /** Resolves, with the first reason, as soon as the process is dead or about to be killed. Never rejects. */
  readonly lost: Promise<SignerFailure>;
  /** Resolves when the process no longer exists. Never rejects. */
  readonly exited: Promise<void>;

  readonly #child: ChildProcess;
  readonly #pending = new Map<number, Pending>();
  #nextId = 0;
  #lost = Promise.withResolvers<SignerFailure>();
  #failure: SignerFailure | undefined;

  /** For signatures in so many sessions at the same time. */
  constructor(token: TokenOptions, region: string, sessions: number, onOutput: (line: string) => void) {
    this.lost = this.#lost.promise;
    // The arguments are for `ps`. The fifth descriptor is the lifeline (lifeline.ts).
    this.#child = fork(PROGRAM, [region, token.keyLabel], {
      // Each session that signs keeps a thread of the pool waiting.
      env: { ...BASE_ENVIRONMENT, UV_THREADPOOL_SIZE: String(sessions), ...token.environment },
      // Or SIGUSR1 would open an inspector in the process that knows the PIN.
      execArgv: ['--disable-sigusr1'],
      serialization: 'advanced',
      stdio: ['ignore', 'pipe', 'pipe', 'ipc', 'pipe'],
    });
    this.exited = new Promise((resolve) => {
      this.#child.once('exit', (code, signal) => {
        this.#lose(new SignerFailure('signer_died', `the signer ended with ${signal ?? `status ${code}`}`));
        resolve();
      });
      this.#child.once('error', (error) => {
        this.kill(new SignerFailure('signer_died', error.message));
        if (this.#child.pid === undefined) resolve();
      });
    });
    this.#child.on('message', (reply: SignerReply) => this.#settle(reply));
    for (const output of [this.#child.stdout, this.#child.stderr]) splitOutput(output, onOutput);
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  /** Ends the process at once; what is pending fails with `reason`. */
  kill(reason: SignerFailure): void {
    this.#lose(reason);
    this.#child.kill('SIGKILL');
  }

  /** Logs out and ends the process, by force if that takes more than a second. Resolves when it is gone. */
  async close(): Promise<void> {
    await this.ask({ kind: 'close' }, CLOSE_GRACE_MS).catch(() => {});
    this.kill(new SignerFailure('signer_closed', 'the partition was closed'));
    await this.exited;
  }

  /** The answer of the signer. Rejects with SignerFailure; without an answer in time the process is killed. */
  ask<Kind extends SignerRequest['kind']>(
    request: Extract<SignerRequest, { kind: Kind }>,
    timeoutMs: number,
  ): Promise<SignerAnswers[Kind]> {
    if (this.#failure !== undefined) return Promise.reject(this.#failure);
    const id = this.#nextId++;
    const { promise, resolve, reject } = Promise.withResolvers<SignerAnswers[Kind]>();
    this.#pending.set(id, { resolve: (answer) => resolve(answer as SignerAnswers[Kind]), reject });
    const timer = setTimeout(() => {
      this.kill(new SignerFailure('timed_out', `no answer to "${request.kind}" within ${timeoutMs} ms`));
    }, timeoutMs);
    this.#child.send({ id, ...request }, (error) => {
      if (error) this.kill(new SignerFailure('signer_died', error.message));
    });
    return promise.finally(() => clearTimeout(timer));
  }

  #settle(reply: SignerReply): void {
    const pending = this.#pending.get(reply.id);
    this.#pending.delete(reply.id);
    if ('failure' in reply) {
      const { code, detail, pinFileVersion } = reply.failure;
      pending?.reject(new SignerFailure(code, detail, pinFileVersion));
    } else {
      pending?.resolve(reply.answer);
    }
  }

  #lose(failure: SignerFailure): void {
    this.#failure ??= failure;
    this.#lost.resolve(this.#failure);
    for (const { reject } of this.#pending.values()) reject(this.#failure);
    this.#pending.clear();
  }
}

/** Passes on the output of a module, bounded per line and by the buffer of the pipe. */
function splitOutput(output: Readable | null, onOutput: (line: string) => void): void {
  output?.setEncoding('utf8').on('data', (text: string) => {
    for (const line of text.split('\n')) {
      if (line.trim() !== '') onOutput(line.slice(0, OUTPUT_LINE_CHARS_MAX));
    }
  });
}
