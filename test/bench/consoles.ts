/** What open consoles cost the daemon: pages that keep themselves current, as `page/console/page.ts` does. */
import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { ask } from '../support/admin.ts';
import { type BesidePlan, type BesideRow, compareDaemons, renderBeside } from './beside.ts';
import { number } from './format.ts';
import { openLoad } from './http.ts';
import { cpuSeconds } from './machine.ts';
import { startDaemon, UNLIMITED } from './servers.ts';
import { median } from './stats.ts';
import type { Workspace } from './workspace.ts';

export interface ConsolesPlan extends BesidePlan {
  /** How many are open: as many streams as the daemon allows. */
  consoles: number;
  /** How long the daemon is looked at while nobody sends anything. */
  restMs: number;
}

export interface ConsolesReport {
  consoles: number;
  rows: BesideRow[];
  /** CPU of the daemon while nobody sends anything, milliseconds for each second: medians of the rounds. */
  atRest: { without: number; beside: number };
}

/** What else the machine does is none of the daemon's CPU, so a few will do. */
const REST_ROUNDS = 3;
/** A page of the console asks so. */
export const OWN = { host: 'localhost', 'sec-fetch-site': 'same-origin' };

/** One daemon with a console, by turns with no page open and with many, so that what else the machine does falls on both. */
export async function benchConsoles(
  plan: ConsolesPlan,
  workspace: Workspace,
  progress: (line: string) => void,
): Promise<ConsolesReport> {
  let state = '';
  const options = { regions: ['north', 'south'], tail: `${UNLIMITED}[console]\n` };
  const daemon = await startDaemon(workspace, options, async ({ dir }) => {
    state = join(dir, 'state');
  });
  const cookies: string[] = [];
  for (let n = 0; n < plan.consoles; n += 1) cookies.push(await logIn(state, `person ${n}`));
  const pages = new Pages(join(state, 'console.sock'), cookies);
  workspace.onClose(async () => pages.close());
  const turn = async (isBeside: boolean) => {
    pages.close();
    if (isBeside) await pages.open();
  };
  progress(`console: ${plan.consoles} of them`);
  const what = `${plan.consoles} consoles`;
  const rows = await compareDaemons(openLoad(workspace), plan, what, [daemon, daemon], turn);
  progress('console: at rest');
  const atRest = { without: [] as number[], beside: [] as number[] };
  for (let round = 0; round < REST_ROUNDS; round += 1) {
    for (const one of ['without', 'beside'] as const) {
      await turn(one === 'beside');
      const before = cpuSeconds(daemon.pid);
      await sleep(plan.restMs);
      atRest[one].push(((cpuSeconds(daemon.pid) - before) * 1e6) / plan.restMs);
    }
  }
  return {
    consoles: plan.consoles,
    rows,
    atRest: { without: median(atRest.without), beside: median(atRest.beside) },
  };
}

/** The cookie of a new session. */
export async function logIn(state: string, name: string): Promise<string> {
  const query = new URLSearchParams({ name, role: 'auditor' });
  const made = await ask({ socketPath: join(state, 'admin.sock') }, `/console/link?${query}`, 'POST');
  const headers = { ...OWN, 'content-type': 'application/x-www-form-urlencoded' };
  const to = {
    socketPath: join(state, 'console.sock'),
    path: '/login',
    method: 'POST',
    agent: false as const,
  };
  const asked = request({ ...to, headers }).end(`link=${made.json<{ link: string }>().link}`);
  const [answer] = (await once(asked, 'response')) as [IncomingMessage];
  answer.resume();
  const [cookie = ''] = (answer.headers['set-cookie'] ?? [''])[0]?.split(';') ?? [];
  if (answer.statusCode !== 303 || cookie === '') throw new Error(`login: ${answer.statusCode}`);
  return cookie;
}

/** Pages of the screen Now. Each asks for a newer one of itself whenever its stream says that there is news. */
export class Pages {
  readonly #socketPath: string;
  readonly #cookies: readonly string[];
  #close = new AbortController();

  constructor(socketPath: string, cookies: readonly string[]) {
    this.#socketPath = socketPath;
    this.#cookies = cookies;
  }

  async open(): Promise<void> {
    const { signal } = this.#close;
    await Promise.all(
      this.#cookies.map(async (cookie) => {
        await this.#read('/', cookie, signal);
        const stream = await this.#ask('/now/events', cookie, signal);
        stream.setEncoding('utf8').on('error', () => {});
        stream.on('data', (chunk: string) => {
          if (!chunk.includes('event: news')) return;
          this.#read('/now?span=1h', cookie, signal).catch((error) => {
            if (!signal.aborted) throw error;
          });
        });
      }),
    );
  }

  close(): void {
    this.#close.abort();
    this.#close = new AbortController();
  }

  async #read(path: string, cookie: string, signal: AbortSignal): Promise<void> {
    const answer = await this.#ask(path, cookie, signal);
    answer.resume();
    await once(answer, 'end', { signal });
  }

  async #ask(path: string, cookie: string, signal: AbortSignal): Promise<IncomingMessage> {
    const to = { socketPath: this.#socketPath, path, agent: false as const, signal };
    const asked = request({ ...to, headers: { ...OWN, cookie } });
    asked.end();
    const [answer] = (await once(asked, 'response', { signal })) as [IncomingMessage];
    asked.on('error', () => {});
    if (answer.statusCode !== 200) throw new Error(`${path}: ${answer.statusCode}`);
    return answer;
  }
}

export function renderConsoles({ consoles, rows, atRest }: ConsolesReport): string {
  const table = renderBeside('One daemon with a console, beside itself with no page open, 10 kB', rows);
  return `${table}\nCPU of the daemon at rest, ms for each second: ${number(atRest.without)} with no page open, ${number(atRest.beside)} with ${consoles}`;
}
