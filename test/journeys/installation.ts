/** Installations as former versions left them, kept in `test/vectors/installations`. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort } from '../support/freePort.ts';
import { Sandbox } from '../support/sandbox.ts';

/** What the clients of an installation were told. Held against what this version tells them. */
export interface Told {
  apiKey: string;
  /** Id of the endpoint for which the messages wait. */
  webhookEndpoint: string;
  webhookSecret: string;
  /** The audit trail, a line of JSON for each record. */
  trail: string[];
  sealed: {
    /** Base64. */
    document: string;
    fields: Record<string, string>;
    /** Idempotency-Key of the create. */
    key: string;
    /** Body of the 202. */
    answer: string;
    receipt: string;
  }[];
  /** Ids of jobs that were accepted and not sealed. */
  waiting: string[];
}

/** A file of the fixture: the folder in which it was made. */
export const PLACE = 'made-in';
/** A file of the fixture: the script that the package of its version runs before it is unpacked. */
export const PREINST = 'preinst';

export interface Installation {
  sandbox: Sandbox;
  told: Told;
}

/** The audit trail in the store, oldest record first. */
export async function trailOf(sandbox: Sandbox): Promise<string[]> {
  const args = ['audit', 'list', '--json', '--config', sandbox.configFile];
  const { status, stdout, stderr } = await sandbox.pdfseal(args);
  if (status !== 0) throw new Error(stderr);
  return stdout.trim().split('\n');
}

/** Unpacks an installation so that this version can run it. Close the sandbox to remove it. */
export async function unpackInstallation(archive: string): Promise<Installation> {
  const dir = mkdtempSync(join(tmpdir(), 'pdfseal-installation-'));
  execFileSync('tar', ['-xzf', archive, '-C', dir]);
  const place = readFileSync(join(dir, PLACE), 'utf8');
  const sandbox = new Sandbox(dir, await freePort(), [], 'dist');
  const edit = (name: string, change: (text: string) => string) =>
    writeFileSync(join(dir, name), change(readFileSync(join(dir, name), 'utf8')));
  edit('sandbox.toml', (text) =>
    text.replaceAll(place, dir).replace(/^listen = .*$/m, `listen = "127.0.0.1:${sandbox.port}"`),
  );
  for (const token of ['token-eu', 'token-us'])
    edit(`${token}/softhsm2.conf`, (text) => text.replaceAll(place, dir));
  return { sandbox, told: JSON.parse(readFileSync(join(dir, 'told.json'), 'utf8')) as Told };
}
