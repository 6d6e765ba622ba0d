/** A console in the process of the test, with a status of the test's making. */

import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import type { Test } from 'tap';
import { systemClock } from '../../src/base/clock.ts';
import { OperatorError } from '../../src/base/errors.ts';
import type { Role } from '../../src/base/people.ts';
import type { Config } from '../../src/config/config.ts';
import { readAssets } from '../../src/console/assets.ts';
import { Console, type ConsoleOptions } from '../../src/console/console.ts';
import { ConsoleApp } from '../../src/console/consoleApp.ts';
import { linkDoor } from '../../src/console/doors.ts';
import { Streams } from '../../src/console/liveStreams.ts';
import type { Screen } from '../../src/console/screen.ts';
import { type AdminQuotas, storedQuotas } from '../../src/health/sections/quotasSection.ts';
import type { AdminStatus } from '../../src/health/statusSchema.ts';
import { type ActName, type AuditRecord, parseAuditRecord } from '../../src/manifest/auditRecord.ts';
import { createStore, openStore } from '../../src/store/lmdb/open.ts';
import type { Store } from '../../src/store/store.ts';
import { type BrowserPage, openPage } from '../page/chromium.ts';
import { epoch, identity } from '../store/samples.ts';
import { freePort } from '../support/freePort.ts';
import { NO_LIMITS } from '../support/limits.ts';
import { sampleEpochs, sampleStatus } from './sampleStatus.ts';
import { evidenceIn } from './sealedStore.ts';

export interface ConsoleAnswer {
  status: number;
  headers: Record<string, string | string[] | undefined>;
  text: string;
}

type Headers = Readonly<Record<string, string>>;

/** What a browser sends with what somebody typed, and with what a page of the console asks for. */
const TYPED = { 'sec-fetch-site': 'none' };
const OWN = { 'sec-fetch-site': 'same-origin' };
const FORM = { 'content-type': 'application/x-www-form-urlencoded' };

/** What somebody types who makes a key. */
export const KEY_FIELDS = { client: 'billing', organization: 'acme', scope: 'jobs:create', lifetime: '90' };

export class TestConsole {
  readonly console: Console;
  readonly port: number;
  readonly store: Store;

  constructor(console: Console, port: number, store: Store) {
    this.console = console;
    this.port = port;
    this.store = store;
  }

  get url(): string {
    return `http://test.localhost:${this.port}`;
  }

  /** What was recorded. */
  async acts(): Promise<(AuditRecord | undefined)[]> {
    return (await this.store.trail.entries(0, 1000)).map(({ text }) => parseAuditRecord(text));
  }

  /** Records an act of an administrator. */
  async record(act: ActName, person: string, object = {}): Promise<void> {
    const actor = { via: 'console', person, role: 'administrator' } as const;
    await this.store.trail.append({ act, actor, object, outcome: 'done' });
  }

  /** The address of a new one-time link. */
  link(role: Role = 'administrator', name = 'Anna'): string {
    return `${this.url}/login/${this.console.sessions.invite({ name, role })}`;
  }

  /** A cookie for the header of that name, and the token for forms. */
  signedIn(role: Role = 'administrator', name = 'Anna'): { cookie: string; token: string } {
    const { sessions } = this.console;
    const begun = sessions.begin(sessions.invite({ name, role }));
    if (begun === undefined) throw new Error('no session');
    return { cookie: `pdfseal-console-test=${begun.cookie}`, token: begun.session.formToken };
  }

  get(path: string, headers: Headers = {}): Promise<ConsoleAnswer> {
    return this.send('GET', path, { ...TYPED, ...headers });
  }

  post(
    path: string,
    fields: Readonly<Record<string, string>>,
    headers: Headers = {},
  ): Promise<ConsoleAnswer> {
    return this.send('POST', path, { ...OWN, ...FORM, ...headers }, String(new URLSearchParams(fields)));
  }

  /** A form that Berta sends, and what she is shown after a change. */
  async submit(path: string, fields: Readonly<Record<string, string>>, role: Role = 'administrator') {
    const { cookie, token } = this.signedIn(role, 'Berta');
    const answer = await this.post(path, { ...fields, token }, { cookie });
    const location = String(answer.headers.location ?? '');
    const shown = location === '' ? '' : (await this.get(location, { cookie })).text;
    return { ...answer, location, cookie, shown };
  }

  /** Header by header as given, and Host as in {@link url} unless it is given. */
  send(method: string, path: string, headers: Headers, body = ''): Promise<ConsoleAnswer> {
    return new Promise((resolve, reject) => {
      const all = { host: `test.localhost:${this.port}`, ...headers };
      const target = {
        host: '127.0.0.1',
        port: this.port,
        method,
        path,
        headers: all,
        agent: false as const,
      };
      request(target, async (response) => {
        const chunks: Buffer[] = [];
        for await (const chunk of response) chunks.push(chunk);
        const { statusCode: status = 0, headers } = response;
        resolve({ status, headers, text: Buffer.concat(chunks).toString() });
      })
        .once('error', reject)
        .end(body);
    });
  }

  /** A browser that has opened a link, and shows the first page. */
  async browse(t: Test, role: Role = 'administrator', name = 'Anna'): Promise<BrowserPage> {
    const page = await openPage(t, this.link(role, name));
    await page.evaluate(`document.querySelector('main button').click()`);
    await page.until(`location.pathname === '/' && document.readyState === 'complete'`);
    return page;
  }
}

async function unplannable(): Promise<never> {
  throw new OperatorError('no epoch can be planned here');
}

/** The console ends with the test. */
export async function openTestConsole(
  t: Test,
  options: Partial<ConsoleOptions> & {
    read?: () => AdminStatus;
    /** What this daemon counted of rates. */
    rates?: AdminQuotas['clients'];
  } = {},
): Promise<TestConsole> {
  const store = options.store ?? (await makeStore(t));
  const port = await freePort();
  const console = new Console({ host: '127.0.0.1', port }, options.clock ?? systemClock);
  const { read = () => sampleStatus(), rates = [], ...others } = options;
  const open = await console.open({
    environment: 'test',
    status: { read: async () => read(), quotas: () => ({ clients: rates }) },
    quotas: () => storedQuotas(store, NO_LIMITS, systemClock()),
    store,
    verifier: () => undefined,
    evidence: evidenceIn(store),
    givesSealedPdfs: false,
    epochs: async () => sampleEpochs(),
    config: () =>
      ({
        file: 'test.toml',
        http: {},
        webhooks: { allow: ['https://hooks.example.com'] },
      }) as unknown as Config,
    settings: () => [],
    backups: { state: () => undefined, ask: async () => true },
    epochActs: { plan: unplannable, cancel: unplannable },
    drills: {
      takeOut: async (name) => name,
      putBack: async (name) => name,
      spare: ['west/log-2026', 'east/log-2026'],
    },
    clock: systemClock,
    logger: pino({ level: 'silent' }),
    onFatal: (error) => t.fail(String(error)),
    ...others,
  });
  t.teardown(() => open.close());
  return new TestConsole(console, port, store);
}

/** A console of other screens than its own. */
export async function openScreens(t: Test, screens: readonly Screen[]): Promise<TestConsole> {
  const { console, store } = await openTestConsole(t);
  const { sessions } = console;
  const streams = new Streams(sessions);
  t.teardown(() => streams.close());
  const app = new ConsoleApp({
    environment: 'test',
    screens,
    sessions,
    streams,
    assets: readAssets(),
    store,
    clock: systemClock,
    logger: pino({ level: 'silent' }),
    onFatal: (error) => t.fail(String(error)),
  });
  const door = linkDoor({ environment: 'test', sessions, know: () => {} });
  const server = createServer((request, response) => void app.handle(request, response, door));
  server.listen(0, '127.0.0.1');
  t.teardown(() => server.close());
  await once(server, 'listening');
  return new TestConsole(console, (server.address() as AddressInfo).port, store);
}

/** A store that goes with the test; it seals nothing. */
async function makeStore(t: Test): Promise<Store> {
  const folder = mkdtempSync(join(tmpdir(), 'console-store-'));
  const path = join(folder, 'store');
  await createStore({ path, identity, epoch });
  const store = await openStore({ path, clock: systemClock, monotonicMs: systemClock });
  t.teardown(async () => {
    await store.close();
    rmSync(folder, { recursive: true, force: true });
  });
  return store;
}
