import { mkdtempSync, renameSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { pino } from 'pino';
import type { Test } from 'tap';
import { systemClock } from '../../src/base/clock.ts';
import { createLogger } from '../../src/base/logger.ts';
import { type Copies, openCopies } from '../../src/copy/copies.ts';
import { type HashPoolOptions, openHashPool } from '../../src/hash/pool.ts';
import { type App, type AppParts, createApp } from '../../src/http/app.ts';
import { type HttpServer, listen, type ServerOptions } from '../../src/http/server.ts';
import { hashApiKey, newApiKey } from '../../src/job/apikey.ts';
import { Limits } from '../../src/limits/limits.ts';
import type { Scanner } from '../../src/scan/scanner.ts';
import { Fetching, type FetchingOptions } from '../../src/seal/fetching.ts';
import { openSealer } from '../../src/seal/openSealer.ts';
import type { Sealer, SealerOptions } from '../../src/seal/sealer.ts';
import type { Signing, SigningOptions } from '../../src/seal/signing.ts';
import { SourceClient } from '../../src/source/sourceClient.ts';
import type { Credential } from '../../src/store/credentialStore.ts';
import { createStore, openStore } from '../../src/store/lmdb/open.ts';
import type { Store } from '../../src/store/store.ts';
import { HttpClient } from '../../src/web/httpClient.ts';
import { TargetPolicy } from '../../src/web/policy.ts';
import { putCredentials } from '../store/samples.ts';
import { Client } from './client.ts';
import { timeOf } from './clocks.ts';
import { NO_LIMITS } from './limits.ts';
import { makeSite, type Site } from './partitions.ts';
import { firstEpoch } from './sealing.ts';
import { until } from './until.ts';

export const ENVIRONMENT = 'test';
export const PUBLIC_URL = 'https://seal.example.com';

export interface TestOptions {
  /** By which service time goes on. */
  monotonicMs?: () => number;
  app?: Partial<AppParts>;
  server?: Partial<ServerOptions>;
  sealer?: Partial<SealerOptions>;
  partitions?: Partial<SigningOptions>;
  pool?: Partial<HashPoolOptions>;
  scanner?: Scanner;
  sources?: Partial<FetchingOptions> & { allow?: string[]; answerTimeoutMs?: number };
  documentBytesMax?: number;
  /** Compliance mode: copies without metadata are made. */
  compliance?: boolean;
  /** Whether clients may ask for sealed PDFs. */
  attach?: boolean;
  /** What copies leave free of the disk; default 0. */
  freeBytesMin?: number;
  bodyIdleTimeoutMs?: number;
}

export interface TestApp {
  site: Site;
  store: Store;
  partitions: Signing;
  sealer: Sealer;
  fetching: Fetching;
  app: App;
  server: HttpServer;
  /** With a key of `acme-web` of the organization `acme`, which may do everything. */
  client: Client;
  /** The lines logged so far. */
  log(): Record<string, unknown>[];
  /** What was given to `onFatal`. */
  fatal: unknown[];
  /** Folder of the copies. */
  documentsDir: string;
  copies: Copies;
  /** The number of documents that are kept, in whatever files. */
  kept(): number;
  /** Issues a key and gives it away. */
  issue(overrides?: Partial<Credential>): Promise<string>;
}

/**
 * The third rung of the ladder (see `sandbox.ts`): the API over real parts: a SoftHSM partition, LMDB, hash workers, a socket on
 * the loopback. Closed with the test.
 */
export async function openTestApp(t: Test, options: TestOptions = {}): Promise<TestApp> {
  const site = await makeSite(t, 'ed25519');
  const lines: string[] = [];
  const logger = createLogger('debug', { write: (line) => void lines.push(line) });
  const fatal: unknown[] = [];
  const onFatal = (error: unknown) => void fatal.push(error);

  const dir = mkdtempSync(join(tmpdir(), 'pdfseal-http-'));
  t.teardown(() => rmSync(dir, { recursive: true, force: true }));
  const path = join(dir, 'store');
  const logOrigin = 'seal.example.com/test/2026';
  const identity = { environment: ENVIRONMENT, logOrigin, createdAt: Date.now() };
  await createStore({ path, identity, epoch: firstEpoch(site.keys) });
  const { monotonicMs } = options;
  const store = await openStore({ path, ...(monotonicMs && { monotonicMs }) });
  t.teardown(() => store.close());
  const partitions = await site.openSigning(store, {
    logger: pino({ level: 'silent' }),
    ...options.partitions,
  });
  const limits = options.app?.limits ?? new Limits(NO_LIMITS, [], systemClock);
  const sealer = await openSealer({
    store,
    signing: partitions,
    requireRecord: async () => undefined,
    queueJobsMax: 1000,
    batchJobsMax: 64,
    giveUpAfterMs: 3_600_000,
    clock: systemClock,
    logger,
    onFatal,
    ...options.sealer,
  });
  t.teardown(() => sealer.close());
  const pool = await openHashPool({ workers: 1, engine: 'native', onTrouble: onFatal, ...options.pool });
  t.teardown(() => pool.close());

  const documentsDir = join(dir, 'documents');
  const copies = await openCopies(
    { path: documentsDir, freeBytesMin: options.freeBytesMin ?? 0, workers: 1 },
    [],
  );
  t.teardown(() => copies.close());
  const { documentBytesMax = 4 * 1024 * 1024, scanner } = options;
  const { compliance: strips = false, attach: attaches = false } = options;
  const document = { pool, documentBytesMax, scanner, copies, strips, attaches };
  const idleTimeoutMs = options.bodyIdleTimeoutMs ?? 60_000;
  const { allow = [], answerTimeoutMs = 60_000, ...sources } = options.sources ?? {};
  const policy = new TargetPolicy(allow);
  const fetching = new Fetching({
    store,
    sealer,
    source: new SourceClient(new HttpClient({ policy }), answerTimeoutMs),
    document,
    patience: { idleTimeoutMs },
    concurrentMax: 4,
    retryDelayMs: 10,
    giveUpAfterMs: 3_600_000,
    logger,
    onFatal,
    ...sources,
  });
  t.teardown(() => fetching.close());
  fetching.start();

  const app = createApp({
    store,
    sealer,
    trust: () => ({ timestampAuthorities: [] }),
    sources: fetching,
    intake: { ...document, patience: { idleTimeoutMs } },
    publicUrl: PUBLIC_URL,
    organizations: () => ({ acme: { partners: ['beta'] } }),
    limits,
    connectionsMax: 1_024,
    connectionsPerAddressMax: 512,
    uploadsMax: 64,
    uploadsPerClientMax: 32,
    batchesMax: 4,
    downloadsMax: 8,
    blockingTimeoutMs: 60_000,
    webhookPolicy: new TargetPolicy(['https://*', '127.0.0.0/8']),
    logPublic: false,
    time: timeOf(store),
    copies,
    documentRetentionMs: 3_600_000,
    logger,
    onFatal,
    ...options.app,
  });
  const server = await listen(app, {
    listen: [{ host: '127.0.0.1', port: 0 }],
    clearTextBeyondLoopback: false,
    headerTimeoutMs: 60_000,
    silenceMsMax: 60_000,
    logger,
    ...options.server,
  });
  t.teardown(() => server.drain(0));

  const issue = async (overrides: Partial<Credential> = {}) => {
    const apiKey = newApiKey(ENVIRONMENT);
    await putCredentials(store, [
      {
        keyHash: hashApiKey(apiKey),
        id: `key_${apiKey.slice(-6)}`,
        clientId: 'acme-web',
        organization: 'acme',
        scopes: ['jobs:create', 'jobs:read'],
        createdAt: Date.now(),
        since: store.serviceTime.now(),
        ...overrides,
      },
    ]);
    return apiKey;
  };
  const client = await Client.connect(`http://127.0.0.1:${server.port}`, await issue());
  const log = () => lines.map((line) => JSON.parse(line) as Record<string, unknown>);
  return {
    site,
    store,
    partitions,
    sealer,
    fetching,
    app,
    server,
    client,
    log,
    fatal,
    documentsDir,
    copies,
    kept: () => copies.usage.documents,
    issue,
  };
}

/** A small document that passes for a PDF, different for every `text`; `bytes` long, if that is more than it needs. */
export function pdfOf(text: string, bytes = 0): Buffer<ArrayBuffer> {
  const head = `%PDF-1.7\n%${text}\n%`;
  const tail = '\nstartxref\n0\n%%EOF\n';
  return Buffer.from(head.padEnd(bytes - tail.length, '.') + tail);
}

/** Pulls the token; the function returned puts it back. */
export async function pullToken({ site, partitions }: TestApp): Promise<() => Promise<void>> {
  const tokens = join(dirname(site.tokens[0]?.environment?.SOFTHSM2_CONF ?? ''), 'tokens');
  renameSync(tokens, `${tokens}.gone`);
  await until('the loss noticed', () => !partitions.canSign());
  return async () => {
    renameSync(`${tokens}.gone`, tokens);
    await until('the return noticed', () => partitions.canSign());
  };
}
