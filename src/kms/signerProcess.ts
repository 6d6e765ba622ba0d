import { fileURLToPath } from 'node:url';
import { Companion } from '../base/companion.ts';
import { encodeFrame, readFrames } from '../base/frames.ts';
import { siblingModule } from '../base/package.ts';
import { OutputLimit } from './outputLimit.ts';
import {
  type Charter,
  type Duties,
  SIGNER_MESSAGE_BYTES_MAX,
  type SignerAnswers,
  type SignerReply,
  type SignerRequest,
  type TokenOptions,
} from './protocol.ts';
import { TreeUnknown } from './signedTrees.ts';
import { SignerFailure } from './signerFailure.ts';

const PROGRAM = fileURLToPath(siblingModule('signer', import.meta.url));

/** A signer inherits nothing else: the daemon's environment may hold credentials, and a vendor's module is foreign code. */
const BASE_ENVIRONMENT = { PATH: '/usr/bin:/bin', LANG: 'C.UTF-8' };

/** Time limit for the end of a signer that is told to end, before the process is killed. */
const END_MS_MAX = 1000;

interface Pending {
  resolve(answer: SignerAnswers[keyof SignerAnswers]): void;
  reject(failure: SignerFailure): void;
}

/** The command that starts a signer for this many concurrent sessions; the arguments are for `ps`. */
export function signerProgram(charter: Charter, args: readonly string[], sessions: number) {
  const variables = charter.tokens.map(({ environment }) => environment ?? {});
  return {
    program: PROGRAM,
    args,
    // Without this, SIGUSR1 would open an inspector in the process that knows the PIN.
    execArgv: ['--disable-sigusr1'],
    // Each session that signs keeps a thread of the pool waiting, and the record of what was signed another one.
    environment: Object.assign(
      { ...BASE_ENVIRONMENT, UV_THREADPOOL_SIZE: String(sessions + 1) },
      ...variables,
    ) as Record<string, string>,
    charter,
  };
}

/**
 * The daemon's end of one signer: a child, or the unit of its token. Every request carries a time-out, and the first one that passes kills
 * the signer: a module that hung once is not used again. A failure that the token reported leaves it running; the caller decides.
 */
export class SignerProcess {
  /** Resolves, with the first reason, as soon as the signer is gone or about to end. Never rejects. */
  readonly lost: Promise<SignerFailure>;
  /** Resolves when the process of a child no longer exists, or the connection to a unit is closed. Never rejects. */
  readonly exited: Promise<void>;

  readonly #companion: Companion;
  readonly #pending = new Map<number, Pending>();
  #nextId = 0;
  #lost = Promise.withResolvers<SignerFailure>();
  #failure: SignerFailure | undefined;

  /** `duties` are those of a child; a unit knows its own. `onOutput` gets what a child and the module in it print, as {@link OutputLimit} allows. */
  constructor(
    token: TokenOptions,
    { name, duties, sessions }: { name: string; duties: Duties; sessions: number },
    onOutput: (line: string) => void,
  ) {
    this.lost = this.#lost.promise;
    const output = new OutputLimit(onOutput);
    const program = signerProgram({ tokens: [token], duties }, [name, token.keyLabel], sessions);
    this.#companion =
      token.signer === undefined
        ? Companion.start({ ...program, onOutput: (line) => output.add(line) })
        : Companion.reach(token.signer);
    this.exited = this.#companion.gone.then((reason) =>
      this.#lose(new SignerFailure('signer_died', `the signer is gone: ${reason}`)),
    );
    readFrames(this.#companion.stream, SIGNER_MESSAGE_BYTES_MAX, (message) =>
      this.#settle(message as SignerReply),
    );
    // The end of the process has a reason, and follows at once.
    this.#companion.stream.once('close', () => this.#killSoon());
  }

  get pid(): number | undefined {
    return this.#companion.pid;
  }

  /**
   * Ends the signer after a failure: pending requests fail with `reason` now, but the signer lets the module finish them and close its
   * sessions, which a device may otherwise keep for long. By force after a second. Resolves when it is gone; never rejects.
   */
  async end(reason: SignerFailure): Promise<void> {
    this.#lose(reason);
    this.#send({ kind: 'close' }, END_MS_MAX);
    this.#killSoon();
    await this.exited;
  }

  /** Ends the signer after the pending requests, as {@link end} does. Resolves when it is gone. */
  async close(): Promise<void> {
    await this.ask({ kind: 'close' }, END_MS_MAX).catch(() => {});
    await this.end(new SignerFailure('signer_closed', 'the partition was closed'));
  }

  /** Returns the signer's answer. Rejects with SignerFailure; without an answer in time the signer is killed. */
  ask<Kind extends SignerRequest['kind']>(
    request: Extract<SignerRequest, { kind: Kind }>,
    timeoutMs: number,
  ): Promise<SignerAnswers[Kind]> {
    if (this.#failure !== undefined) return Promise.reject(this.#failure);
    const { promise, resolve, reject } = Promise.withResolvers<SignerAnswers[Kind]>();
    const id = this.#send(request, timeoutMs);
    this.#pending.set(id, { resolve: (answer) => resolve(answer as SignerAnswers[Kind]), reject });
    const timer = setTimeout(() => {
      this.#lose(new SignerFailure('timed_out', `no answer to "${request.kind}" within ${timeoutMs} ms`));
      this.#companion.kill();
    }, timeoutMs);
    return promise.finally(() => clearTimeout(timer));
  }

  #killSoon(): void {
    const timer = setTimeout(() => this.#companion.kill(), END_MS_MAX);
    void this.exited.then(() => clearTimeout(timer));
  }

  /** Returns the number by which the answer is known. */
  #send(request: SignerRequest, timeoutMs: number): number {
    const id = this.#nextId++;
    this.#companion.stream.write(encodeFrame({ ...request, id, timeoutMs }));
    return id;
  }

  #settle(reply: SignerReply): void {
    const pending = this.#pending.get(reply.id);
    this.#pending.delete(reply.id);
    if ('failure' in reply) {
      const { code, detail, trees } = reply.failure;
      pending?.reject(trees === undefined ? new SignerFailure(code, detail) : new TreeUnknown(trees));
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
