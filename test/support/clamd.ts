import { type ChildProcess, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Test } from 'tap';
import { ServiceError } from '../../src/base/errors.ts';
import { createLogger } from '../../src/base/logger.ts';
import { openScanner, type Scanner, type ScannerOptions } from '../../src/scan/scanner.ts';
import type { ClamdAddress } from '../../src/scan/session.ts';
import { until } from './until.ts';

/** What the one signature of {@link startClamd} finds, anywhere in a document. It is nobody's virus. */
export const VIRUS = 'pdfseald-test-virus-6c1f';
export const VIRUS_NAME = 'Test.Virus.UNOFFICIAL';

export interface ClamdOptions {
  /** Lines of clamd.conf beside those every clamd here has, or instead of {@link FIT}. */
  settings?: readonly string[];
  /** Number of the signature database. */
  signatures?: number;
  /** Whether they find the EICAR test file; default: true. */
  eicar?: boolean;
  /** Listen on this TCP port, too. */
  port?: number;
}

/** What clamd.conf must say for pdfseald to take its word. */
export const FIT = [
  'AlertExceedsMax yes',
  'AlertEncrypted yes',
  'StreamMaxLength 64M',
  'MaxFileSize 64M',
  'MaxScanSize 256M',
];

/** The clamd of Debian's package, with a folder, a socket and a database of its own. */
export class Clamd {
  readonly dir: string;
  readonly socket: string;
  readonly address: ClamdAddress;
  #child: ChildProcess | undefined;

  /** Use {@link startClamd}. */
  constructor(dir: string) {
    this.dir = dir;
    this.socket = join(dir, 'clamd.ctl');
    this.address = { path: this.socket };
  }

  get pid(): number {
    return this.#child?.pid ?? -1;
  }

  get log(): string {
    return readFileSync(join(this.dir, 'clamd.log'), 'utf8');
  }

  /** Takes effect with the next start. */
  configure({ settings = FIT, port }: ClamdOptions): void {
    const lines = [
      'Foreground yes',
      `DatabaseDirectory ${join(this.dir, 'db')}`,
      `TemporaryDirectory ${join(this.dir, 'tmp')}`,
      `LogFile ${join(this.dir, 'clamd.log')}`,
      `LocalSocket ${this.socket}`,
      ...(port === undefined ? [] : [`TCPSocket ${port}`, 'TCPAddr 127.0.0.1']),
      ...settings,
    ];
    writeFileSync(join(this.dir, 'clamd.conf'), `${lines.join('\n')}\n`);
  }

  async start(): Promise<void> {
    const child = spawn('/usr/sbin/clamd', ['-c', join(this.dir, 'clamd.conf')], { stdio: 'ignore' });
    this.#child = child;
    await until('clamd listens', async () => {
      if (child.exitCode !== null) throw new Error(`clamd ended with ${child.exitCode}: ${this.log}`);
      return accepts(this.socket);
    });
  }

  async stop(signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    const child = this.#child;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    // One that is held by SIGSTOP ends by nothing else.
    child.kill(signal);
    await once(child, 'exit');
  }

  /** Puts a database of this number in place of the one there is; clamd sees it when it is told to reload. */
  writeSignatures(number: number, eicar = true): void {
    const file = join(this.dir, 'db', 'daily.cud');
    writeFileSync(`${file}.new`, signatureDatabase(number, eicar));
    renameSync(`${file}.new`, file);
  }

  reload(): void {
    this.#child?.kill('SIGUSR2');
  }
}

/** A test, or what else undoes things at its end. */
interface Scope {
  teardown(undo: () => Promise<void>): unknown;
}

/** Starts clamd; it is stopped, and its folder removed, with the test. */
export async function startClamd(test: Scope, options: ClamdOptions = {}): Promise<Clamd> {
  const dir = mkdtempSync(join(tmpdir(), 'pdfseal-clamd-'));
  const clamd = new Clamd(dir);
  test.teardown(async () => {
    await clamd.stop();
    rmSync(dir, { recursive: true, force: true });
  });
  mkdirSync(join(dir, 'db'));
  mkdirSync(join(dir, 'tmp'));
  clamd.writeSignatures(options.signatures ?? 27_410, options.eicar);
  clamd.configure(options);
  await clamd.start();
  return clamd;
}

function accepts(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path);
    socket.once('error', () => resolve(false));
    socket.once('connect', () => {
      socket.destroy();
      resolve(true);
    });
  });
}

/** An unsigned database container: the signatures of the EICAR test file and of {@link VIRUS}. `builtAt`: milliseconds since the epoch. */
export function signatureDatabase(number: number, eicar: boolean, builtAt = SIGNATURES_BUILT_AT): Buffer {
  const hex = (text: string) => Buffer.from(text, 'latin1').toString('hex');
  // The first bytes only: whoever scans this file must find nothing.
  const start = eicar ? 'X5O!P%@AP[4\\PZX54(P^)7CC)7}$' : 'nothing begins like this';
  const lines = `Eicar-Test-Signature:0:0:${hex(start)}\nTest.Virus:0:*:${hex(VIRUS)}\n`;
  const head = `ClamAV-VDB:14 Nov 2023 22-13 +0000:${number}:2:1:X:X:test:${Math.floor(builtAt / 1000)}`;
  const digest = createHash('sha256').update(lines).digest('hex');
  const info = `${head}\ndaily.ndb:${lines.length}:${digest}\n`;
  return Buffer.concat([
    Buffer.from(head.padEnd(512)),
    tarEntry('COPYING', 'for tests\n'),
    tarEntry('daily.info', info),
    tarEntry('daily.ndb', lines),
    Buffer.alloc(1024),
  ]);
}

/** What the databases say about their time, milliseconds since the epoch. */
export const SIGNATURES_BUILT_AT = 1_700_000_000_000;

function tarEntry(name: string, content: string): Buffer {
  const head = Buffer.alloc(512);
  head.write(name, 0);
  head.write(content.length.toString(8).padStart(11, '0'), 124);
  head.write('0', 156);
  return Buffer.concat([head, Buffer.from(content.padEnd(Math.ceil(content.length / 512) * 512, '\0'))]);
}

export interface TestScanner {
  scanner: Scanner;
  /** The lines logged so far. */
  log(): Record<string, unknown>[];
}

/** A scanner that looks after its clamd all the time; closed with the test. */
export async function startScanner(
  test: Test,
  clamd: ClamdAddress,
  options: Partial<ScannerOptions> = {},
): Promise<TestScanner> {
  const lines: string[] = [];
  const scanner = await openScanner({
    clamd,
    timeoutMs: 60_000,
    connectionsMax: 4,
    encrypted: 'refuse',
    documentBytesMax: 32 * 1024 * 1024,
    logger: createLogger('debug', { write: (line) => void lines.push(line) }),
    intervalMs: 20,
    retryMs: 20,
    ...options,
  });
  test.teardown(() => scanner.close());
  return { scanner, log: () => lines.map((line) => JSON.parse(line) as Record<string, unknown>) };
}

/** The verdict on a document that arrives in pieces, or the code it is refused with. */
export async function scan(scanner: Scanner, document: Buffer, pieceBytes = 64 * 1024): Promise<unknown> {
  const scan = scanner.scan();
  try {
    for (let at = 0; at < document.length; at += pieceBytes) {
      await scan.update(document.subarray(at, at + pieceBytes));
    }
    return await scan.result();
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error;
    return error.code;
  } finally {
    scan.abort();
  }
}

/** What the promise was rejected with. */
export async function failureOf(promise: Promise<unknown>): Promise<ServiceError> {
  const error = await promise.then(
    () => 'not refused',
    (reason: unknown) => reason,
  );
  if (!(error instanceof ServiceError)) throw new Error(String(error));
  return error;
}

export function isAvailable(scanner: Scanner): boolean {
  return scanner.health().trouble === undefined;
}
