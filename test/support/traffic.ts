import { setTimeout as sleep } from 'node:timers/promises';
import type { JobMode } from '../../src/job/job.ts';
import type { Client, Envelope, JobBody } from './client.ts';

export interface TrafficAnswer {
  mode: JobMode;
  /** Milliseconds since the epoch: of the request's start, and of its answer. */
  startedAt: number;
  answeredAt: number;
  status: number;
  /** Of a 202. */
  jobId?: string;
  phase?: string;
  /** Of an error envelope. */
  code?: string;
  retryAfter?: string | null;
}

/** What everyone sends. */
export const TRAFFIC_DOCUMENT = Buffer.from('%PDF-1.7\none of many\n%%EOF\n');

/** Enough to have something in every batch, little enough to leave the machine alone. */
const PAUSE_MS = 60;

/** Clients that create jobs one after the other, whatever the answers are, until stopped. */
export class Traffic {
  readonly answers: TrafficAnswer[] = [];
  readonly #client: Client;
  readonly #loops: Promise<void>[];
  #stopped = false;

  /** One client for each mode. */
  constructor(client: Client, modes: JobMode[]) {
    this.#client = client;
    this.#loops = modes.map((mode) => this.#run(mode));
  }

  /** Answers to what was asked at that time or later. */
  since(time: number, mode?: JobMode): TrafficAnswer[] {
    return this.answers.filter((one) => one.startedAt >= time && (mode === undefined || one.mode === mode));
  }

  /** Resolves when the last answer is there; rejects when a client got none. */
  async stop(): Promise<void> {
    this.#stopped = true;
    await Promise.all(this.#loops);
  }

  async #run(mode: JobMode): Promise<void> {
    while (!this.#stopped) {
      this.answers.push(await this.#create(mode));
      await sleep(PAUSE_MS);
    }
  }

  async #create(mode: JobMode): Promise<TrafficAnswer> {
    const startedAt = Date.now();
    const { status, headers, json } = await this.#client.seal(TRAFFIC_DOCUMENT, { mode });
    const common = { mode, startedAt, answeredAt: Date.now(), status };
    if (status !== 202) {
      return { ...common, code: json<Envelope>().error.code, retryAfter: headers.get('Retry-After') };
    }
    const { id, phase } = json<JobBody>();
    return { ...common, jobId: id, phase };
  }
}

/** Whether the caller got what was asked for: a completed job, or for `async` an accepted one. */
export function isServed({ mode, status, phase }: TrafficAnswer): boolean {
  return status === 202 && (mode === 'async' || phase === 'completed');
}
