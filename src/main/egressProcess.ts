import { type ChildProcess, fork } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Logger } from 'pino';
import { siblingModule } from '../base/package.ts';
import { Rounds } from '../base/rounds.ts';
import {
  askAboutEgress,
  EgressAway,
  EgressClient,
  type EgressProcess,
  type EgressStatus,
} from '../web/egressClient.ts';
import type { HttpExchange } from '../web/httpClient.ts';
import { NoAnswer, toNoAnswer } from '../web/noAnswer.ts';

const PROGRAM = fileURLToPath(siblingModule('egress', import.meta.url));
/** The complete environment of the child: the daemon's own may contain credentials. */
const ENVIRONMENT = { PATH: '/usr/bin:/bin', LANG: 'C.UTF-8' };
const PAUSE_MS_MIN = 100;
const PAUSE_MS_MAX = 30_000;
/** A child that lived this long is restarted without a pause. */
const HEALTHY_MS = 60_000;
const CLOSE_MS_MAX = 3_000;
const COMPARE_MS_MAX = 10_000;
/** Interval of liveness checks, and how soon each must be answered. */
const BEAT_MS = 1_000;
const BEAT_MS_MAX = 2_000;
/** After that many consecutive checks without an answer in time, the process counts as hanging: a child is then killed. */
const BEATS_MISSED_MAX = 5;
/** A child that does not listen after this time counts as hanging too. */
const START_MS_MAX = 60_000;

export interface EgressOptions {
  /** The file that the egress process reads; it gets no other configuration. */
  configFile: string;
  /** Set if the egress process is a separate unit. If absent, it is started as a child when needed. */
  socket: string | undefined;
  logger: Logger;
}

/**
 * The egress process as seen by the daemon: clients for each purpose, and for a child also the process itself. If it hangs, a child is
 * killed, and a unit is ended by its watchdog.
 */
export class Egress implements EgressProcess {
  readonly #options: EgressOptions;
  #child: ChildProcess | undefined;
  #startedAt = 0;
  #listening: Promise<string> | undefined;
  /** The current address at which it listens. */
  #socket: string | undefined;
  #beats: Rounds | undefined;
  #beatsMissed = 0;
  /** The newest check without a valid answer. */
  #missed: { at: number; trouble: NoAnswer } | undefined;
  #status: Omit<EgressStatus, 'mode'> = { restarts: 0 };
  #pauseMs = PAUSE_MS_MIN;
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(options: EgressOptions) {
    this.#options = options;
    this.#socket = options.socket;
  }

  get status(): EgressStatus {
    return { mode: this.#options.socket === undefined ? 'child' : 'unit', ...this.#status };
  }

  /** Sends the requests of one purpose: see `destinations.ts`. */
  to(purpose: string): HttpExchange {
    return new EgressClient(purpose, this);
  }

  /** Starts the child, unless it runs or is a unit. Resolves with the socket once it listens, also after failed starts. Never rejects. */
  socketPath(): Promise<string> {
    const { socket, logger } = this.#options;
    this.#beats ??= new Rounds(
      () => this.#beat(),
      BEAT_MS,
      (err) => logger.error({ err }, 'the egress process was not asked'),
    );
    if (socket !== undefined) return Promise.resolve(socket);
    this.#listening ??= this.#spawn();
    return this.#listening;
  }

  async troubleSince(since: number, isDoubtful: boolean): Promise<NoAnswer | undefined> {
    if (isDoubtful) await this.#beats?.now();
    return this.#missed !== undefined && this.#missed.at >= since ? this.#missed.trouble : undefined;
  }

  /** Logs a warning if a unit has read another configuration than the daemon, as after a restart of only the daemon. Never rejects. */
  async compare(configSha256: string): Promise<void> {
    const { socket, logger } = this.#options;
    if (socket === undefined) return;
    const about = await askAboutEgress(async () => socket, COMPARE_MS_MAX).catch((error: unknown) =>
      toNoAnswer(error),
    );
    if (about instanceof NoAnswer) this.noticed(new EgressAway(about));
    else if (about.configSha256 !== configSha256)
      logger.warn('the egress process has read another configuration: restart its unit');
  }

  /** Ends the child. Never rejects. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    await this.#beats?.close();
    const child = this.#child;
    if (child === undefined) return;
    const ended = new Promise((resolve) => child.once('exit', resolve));
    const timer = setTimeout(() => child.kill('SIGKILL'), CLOSE_MS_MAX);
    child.kill('SIGTERM');
    await ended;
    clearTimeout(timer);
  }

  /** Resolves with the socket of the child, or of one that replaces it. */
  #spawn(): Promise<string> {
    const { promise, resolve } = Promise.withResolvers<string>();
    if (this.#isClosed) return promise;
    const startedAt = performance.now();
    this.#startedAt = startedAt;
    // In a folder that only this user can enter. The child removes both if it ends in order.
    const socket = join(mkdtempSync(join(tmpdir(), 'pdfseald-egress-')), 'socket');
    const child = fork(PROGRAM, ['--config', this.#options.configFile, '--listen', socket], {
      env: ENVIRONMENT,
      execArgv: ['--disable-sigusr1'],
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    });
    this.#child = child;
    child.once('message', () => {
      this.#socket = socket;
      resolve(socket);
    });
    child.once('error', (err) => this.#options.logger.error({ err }, 'the egress process does not start'));
    child.once('close', (status, signal) => {
      this.#child = undefined;
      this.#socket = undefined;
      rmSync(dirname(socket), { recursive: true, force: true });
      if (this.#isClosed) return;
      if (performance.now() - startedAt > HEALTHY_MS) this.#pauseMs = PAUSE_MS_MIN;
      const fields = { event: 'egress_ended', how: signal ?? status, retry_ms: this.#pauseMs };
      this.#options.logger.error(fields, 'the egress process ended and is started again');
      this.#status.restarts += 1;
      // Requests wait for the new child within their own time-outs, including those that waited for the previous one.
      this.#listening = new Promise((again) => {
        this.#timer = setTimeout(() => again(this.#spawn()), this.#pauseMs);
      });
      void this.#listening.then(resolve);
      this.#pauseMs = Math.min(this.#pauseMs * 2, PAUSE_MS_MAX);
    });
    return promise;
  }

  /**
   * Checks that the process is alive. The answer comes from its event loop, so a stopped or blocked process does not count as alive. Never
   * rejects.
   */
  async #beat(): Promise<void> {
    const socket = this.#socket;
    if (socket === undefined) {
      if (performance.now() - this.#startedAt > START_MS_MAX) this.#child?.kill('SIGKILL');
      return;
    }
    const about = await askAboutEgress(async () => socket, BEAT_MS_MAX).catch(toNoAnswer);
    // It was replaced in the meantime, or is ending.
    if (socket !== this.#socket || this.#isClosed) return;
    if (!(about instanceof NoAnswer)) {
      this.#beatsMissed = 0;
      this.noticed();
      return;
    }
    this.#missed = { at: performance.now(), trouble: about };
    this.noticed(new EgressAway(about));
    this.#beatsMissed = about.reason === 'timeout' ? this.#beatsMissed + 1 : 0;
    if (this.#beatsMissed < BEATS_MISSED_MAX) return;
    this.#beatsMissed = 0;
    this.#child?.kill('SIGKILL');
  }

  noticed(trouble?: NoAnswer): void {
    const wasAnswering = this.#status.isAnswering;
    const { restarts } = this.#status;
    if (trouble === undefined) {
      this.#status = { restarts, isAnswering: true };
      if (wasAnswering === false)
        this.#options.logger.info({ event: 'egress_back' }, 'the egress process answers again');
      return;
    }
    this.#status = { restarts, isAnswering: false, trouble: trouble.message };
    if (wasAnswering === false || this.#isClosed) return;
    this.#options.logger.error({ event: 'egress_unreachable', reason: trouble.message }, trouble.message);
  }
}
