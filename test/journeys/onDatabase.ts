/** Installations whose log is in a PostgreSQL. */
import { cpSync, mkdirSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Receipt } from '../../src/manifest/receipt.ts';
import { parseTrust } from '../../src/manifest/trustFile.ts';
import { verifyReceipt } from '../../src/prove/verify/verify.ts';
import type { Client, JobBody } from '../support/client.ts';
import type { Daemon } from '../support/daemon.ts';
import { freePort } from '../support/freePort.ts';
import type { Postgres } from '../support/postgres.ts';
import { openSandbox, Sandbox, type SandboxOptions } from '../support/sandbox.ts';
import { until } from '../support/until.ts';

/** A test, or what else undoes things at its end. */
interface Scope {
  teardown(undo: () => Promise<void>): unknown;
}

/** An installation with a log in a database of its own, and these files beside its configuration. */
export async function installOn(
  t: Scope,
  postgres: Postgres,
  { tables, files = {}, ...options }: SandboxOptions & { files?: Record<string, string> } = {},
): Promise<Sandbox> {
  const url = postgres.url(await postgres.createDatabase());
  const store = `engine = "postgresql"\nurl = "${url}"`;
  const sandbox = await openSandbox({ ...options, init: false, tables: { ...tables, store } });
  t.teardown(() => sandbox.close());
  for (const [name, content] of Object.entries(files)) writeFileSync(join(sandbox.dir, name), content);
  await sandbox.init();
  return sandbox;
}

/** What an administrator makes on a second machine for the same log, here with the same tokens. */
export async function installSpare(t: Scope, first: Sandbox): Promise<Sandbox> {
  const dir = join(first.dir, 'spare');
  mkdirSync(join(dir, 'state'), { recursive: true });
  for (const name of ['trust.json', 'last-checkpoint'])
    cpSync(join(first.dir, 'state', name), join(dir, 'state', name));
  const spare = new Sandbox(dir, await freePort(), first.partitions, 'src');
  const text = readFileSync(first.configFile, 'utf8');
  writeFileSync(spare.configFile, text.replace(`127.0.0.1:${first.port}`, `127.0.0.1:${spare.port}`));
  t.teardown(() => spare.close());
  return spare;
}

/** What an administrator makes on a machine that faces the network: no keys, and a role that can accept jobs only. */
export async function installFront(
  t: Scope,
  postgres: Postgres,
  first: Sandbox,
  name: string,
  { port }: { port?: number } = {},
): Promise<Sandbox> {
  await postgres.query('ALTER ROLE pdfseal CREATEROLE');
  const { status, stderr } = await first.pdfseal(['store', 'roles', '--config', first.configFile]);
  if (status !== 0) throw new Error(`pdfseal store roles ended with ${status}: ${stderr}`);
  const text = readFileSync(first.configFile, 'utf8');
  const [, database = ''] = /postgresql:\/\/\/(\w+)/.exec(text) ?? [];
  await postgres.query(
    `GRANT pdfseal_front TO node; GRANT CONNECT ON DATABASE ${database} TO node; ALTER ROLE node CONNECTION LIMIT 60`,
  );
  const dir = join(first.dir, name);
  mkdirSync(join(dir, 'state'), { recursive: true });
  cpSync(join(first.dir, 'state', 'last-checkpoint'), join(dir, 'state', 'last-checkpoint'));
  const front = new Sandbox(dir, port ?? (await freePort()), [], 'src');
  const own = text
    .replace(/^\[kms\]$.*?^\[clock\]$/ms, '[clock]')
    .replace('user=pdfseal', 'user=node')
    .replace(`127.0.0.1:${first.port}`, `127.0.0.1:${front.port}`);
  writeFileSync(front.configFile, own);
  t.teardown(() => front.close());
  return front;
}

export interface Starting {
  /** Rejects where it ends before it listens. */
  listening: Promise<Daemon>;
  /** Resolves when the log says so. */
  says(what: RegExp): Promise<void>;
}

/** Starts a daemon that may wait for long before it listens. */
export function startWaiting(sandbox: Sandbox): Starting {
  const file = join(sandbox.dir, `log-${performance.now()}`);
  const listening = sandbox.start({ stdout: openSync(file, 'a') });
  listening.catch(() => {});
  return {
    listening,
    says: (what) => until(`it says ${what}`, () => what.test(readFileSync(file, 'utf8'))),
  };
}

/** Whether the job is completed, with a receipt that the trust file of the installation verifies. */
export async function isProven(client: Client, sandbox: Sandbox, id: string): Promise<boolean> {
  await until(`${id} is completed`, async () => {
    const { phase } = (await client.get(`/v1/jobs/${id}`)).json<JobBody>();
    return phase === 'completed';
  });
  const receipt = (await client.get(`/v1/jobs/${id}/receipt.json`)).json<Receipt>();
  const trust = parseTrust(readFileSync(sandbox.trustFile, 'utf8'));
  return verifyReceipt({ document: receipt.manifest.document, receipt, trust }).outcome === 'good';
}
