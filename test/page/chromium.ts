/**
 * Chromium without a window, driven over a pipe by its DevTools protocol. The shell has its engine and its network, and none of
 * the browser around them, whose own pages take most of the time of a start.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Readable, Writable } from 'node:stream';
import { until } from '../support/until.ts';

/** The program itself: Debian's script in /usr/bin stays between it and the signal that ends it. */
const PROGRAM = '/usr/lib/chromium/chromium-headless-shell';
const FLAGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  '--disable-dev-shm-usage',
  '--remote-debugging-pipe',
];
/** Of keys, as Windows numbers them. */
const CODES: Record<string, number> = { Tab: 9, Enter: 13, Space: 32 };

/** What the protocol says, as far as it is read here. */
interface Message {
  id?: number;
  method?: string;
  params?: { request?: { url: string }; entry?: { text: string }; exceptionDetails?: { text: string } };
  result?: {
    targetId?: string;
    sessionId?: string;
    data?: string;
    result?: { value?: unknown; objectId?: string };
  };
  error?: { message: string };
}

type Result = NonNullable<Message['result']>;

export class BrowserPage {
  /** Everything that was asked for, of the network or of the disk. */
  readonly requests: string[] = [];
  /** What the browser complains of: exceptions, and what the page's policy forbade. */
  readonly complaints: string[] = [];
  readonly #browser: ChildProcess;
  readonly #waiting = new Map<number, (message: Message) => void>();
  #lastId = 0;
  #sessionId: string | undefined;

  constructor(browser: ChildProcess) {
    this.#browser = browser;
    let rest = '';
    (browser.stdio[4] as Readable).setEncoding('utf8').on('data', (chunk: string) => {
      const messages = (rest + chunk).split('\0');
      rest = messages.pop() ?? '';
      for (const message of messages) this.#take(JSON.parse(message));
    });
  }

  async open(url: string): Promise<void> {
    const { targetId } = await this.#send('Target.createTarget', { url: 'about:blank' });
    const { sessionId } = await this.#send('Target.attachToTarget', { targetId, flatten: true });
    this.#sessionId = sessionId;
    for (const domain of ['Page', 'Runtime', 'Log', 'Network']) await this.#send(`${domain}.enable`);
    await this.navigate(url);
  }

  async navigate(url: string): Promise<void> {
    await this.#send('Page.navigate', { url });
    await this.until(`location.href === ${JSON.stringify(url)} && document.readyState === 'complete'`);
  }

  /** The value of an expression in the page, of its promise where it is one. */
  async evaluate(expression: string): Promise<unknown> {
    const { result } = await this.#send('Runtime.evaluate', {
      expression,
      awaitPromise: true,
      returnByValue: true,
    });
    return result?.value;
  }

  /** Throws if the expression is not true in time. A page that is being left has no answer yet. */
  async until(expression: string): Promise<void> {
    const whileLeaving = (error: Error) => {
      if (!error.message.includes('navigated')) throw error;
    };
    await until(expression, async () => (await this.evaluate(expression).catch(whileLeaving)) === true);
  }

  /** Chooses a file, as a person would. */
  async choose(selector: string, file: string): Promise<void> {
    const expression = `document.querySelector(${JSON.stringify(selector)})`;
    const { result } = await this.#send('Runtime.evaluate', { expression });
    await this.#send('DOM.setFileInputFiles', { files: [file], objectId: result?.objectId });
  }

  /** As on a screen of that width, in CSS pixels, whose user prefers those colours. */
  async emulate(width: number, scheme: 'light' | 'dark', height = 900): Promise<void> {
    const metrics = { width, height, deviceScaleFactor: 1, mobile: width < 600 };
    await this.#send('Emulation.setDeviceMetricsOverride', metrics);
    const features = [{ name: 'prefers-color-scheme', value: scheme }];
    await this.#send('Emulation.setEmulatedMedia', { features });
  }

  /** As on a computer in that time zone (IANA). */
  async inTimeZone(timezoneId: string): Promise<void> {
    await this.#send('Emulation.setTimezoneOverride', { timezoneId });
  }

  /** Drops files, or folders, on the page, as a person would. */
  async drop(...files: string[]): Promise<void> {
    const data = { items: [], files, dragOperationsMask: 1 };
    for (const type of ['dragEnter', 'dragOver', 'drop'])
      await this.#send('Input.dispatchDragEvent', { type, x: 50, y: 50, data });
  }

  /** Has what the page saves put into this folder. */
  async saveTo(folder: string): Promise<void> {
    await this.#send('Browser.setDownloadBehavior', { behavior: 'allow', downloadPath: folder });
  }

  /** Presses a key, as a person would. */
  async press(key: string, modifiers = 0): Promise<void> {
    const text = { Enter: '\r', Space: ' ' }[key];
    const event = {
      key: key === 'Space' ? ' ' : key,
      code: key,
      modifiers,
      windowsVirtualKeyCode: CODES[key],
    };
    await this.#send('Input.dispatchKeyEvent', { type: 'keyDown', ...event, ...(text && { text }) });
    await this.#send('Input.dispatchKeyEvent', { type: 'keyUp', ...event });
  }

  /** A PNG of what is on the screen. */
  async screenshot(): Promise<Buffer> {
    const { data = '' } = await this.#send('Page.captureScreenshot');
    return Buffer.from(data, 'base64');
  }

  /** What a printer would be given: a PDF. */
  async print(): Promise<Buffer> {
    const { data = '' } = await this.#send('Page.printToPDF', { paperWidth: 8.27, paperHeight: 11.69 });
    return Buffer.from(data, 'base64');
  }

  async #send(method: string, params: object = {}): Promise<Result> {
    this.#lastId += 1;
    const id = this.#lastId;
    const { promise, resolve } = Promise.withResolvers<Message>();
    this.#waiting.set(id, resolve);
    const message = { id, method, params, ...(this.#sessionId && { sessionId: this.#sessionId }) };
    (this.#browser.stdio[3] as Writable).write(`${JSON.stringify(message)}\0`);
    const { result = {}, error } = await promise;
    if (error !== undefined) throw new Error(`${method}: ${error.message}`);
    return result;
  }

  #take(message: Message): void {
    const { id, method, params } = message;
    if (id !== undefined) this.#waiting.get(id)?.(message);
    else if (method === 'Network.requestWillBeSent') this.requests.push(params?.request?.url ?? '');
    else if (method === 'Log.entryAdded') this.complaints.push(params?.entry?.text ?? '');
    else if (method === 'Runtime.exceptionThrown') this.complaints.push(params?.exceptionDetails?.text ?? '');
  }
}

/** Opens the page in a browser of its own, which ends with the test. */
export async function openPage(
  t: { teardown(end: () => Promise<void>): unknown },
  url: string,
  { anyCertificate = false }: { anyCertificate?: boolean } = {},
): Promise<BrowserPage> {
  const profile = mkdtempSync(join(tmpdir(), 'chromium-'));
  const browser = spawn(
    PROGRAM,
    [...FLAGS, ...(anyCertificate ? ['--ignore-certificate-errors'] : []), `--user-data-dir=${profile}`],
    {
      stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'],
    },
  );
  t.teardown(async () => {
    if (browser.exitCode === null) {
      browser.kill('SIGKILL');
      await once(browser, 'exit');
    }
    rmSync(profile, { recursive: true, force: true, maxRetries: 10 });
  });
  await once(browser, 'spawn');
  const page = new BrowserPage(browser);
  await page.open(url);
  return page;
}
