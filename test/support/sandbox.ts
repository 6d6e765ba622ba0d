/**
 * The ladder of test systems. Each rung stands on the one below and costs more; take the lowest that can show what you want to
 * show.
 *
 * 1. **No system.** Most of `src` is functions from bytes to bytes: call them. `sealing.ts` makes keys, jobs, checkpoints and
 *    receipts, `authority.ts` time-stamps, `pdf.ts` documents, all in memory.
 * 2. **Partitions**: `makeSite` in `partitions.ts`, 0.2 s. Tokens with keys, and on request `Partitions` or `Signing` on them.
 *    `tamper.ts` does to a token what happens to one behind the daemon's back, `faults.ts` puts a module before it that fails.
 * 3. **The API in the process of the test**: `openTestApp` in `app.ts`, 0.4 s. The real store, hash workers, sealer and HTTP server
 *    on rung 2. Any part, limit and clock can be replaced, and the test sees the parts. `client.ts` speaks HTTP to it and holds
 *    every answer to the OpenAPI document; `wire.ts` writes what no client would.
 * 4. **An installation**: `openSandbox` here, 0.02 s. Folder, tokens, config file, keys and store, for `pdfseal` in the process of
 *    the test: the rung for tests of the command line.
 * 5. **The daemon as a process**: `start` of a sandbox, 1.5 s. For journeys: what survives SIGKILL, what signals, sockets, other
 *    users and files do. `admin.ts` asks it how it is. `code: 'dist'` runs what is shipped, file by file, and adds half a second to
 *    each start: for what depends on the files, or on the memory and the processes of an installation.
 * 6. **The daemon among others**: a sandbox beside the programs it talks to. `clamd.ts`, `litewitness.ts`, `receiver.ts` (webhooks), `sources.ts`,
 *    `clocks.ts` (chronyc, a date that jumps), `hostile.ts` (a server that misbehaves), `machine.ts` (networks apart), and
 *    `journeys/serviceManager.ts`.
 *
 * What only one folder of tests needs is in that folder. Tokens and installations are copies of prepared ones (`prepared.ts`).
 */
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { PartitionOptions } from '../../src/kms/partitions.ts';
import { type CommandOptions, pdfseal, type RunResult, runProgram } from './commands.ts';
import { Daemon, ENVIRONMENT } from './daemon.ts';
import { freePort } from './freePort.ts';
import { makeToken, type TokenNames, tokenIn } from './partitions.ts';
import { copyPrepared } from './prepared.ts';
import { type Code, programFile } from './programs.ts';

export interface SandboxOptions {
  /** Makes keys, PIN and store anew, and keeps no copy of them: for a sandbox that is not a test's. */
  fresh?: true;
  /** One SoftHSM partition for each; default `['local']`. */
  regions?: string[];
  quorum?: number;
  algorithm?: 'ed25519' | 'ecdsa-p256';
  /** False leaves out `pdfseal init`: there are tokens and a config file, but no keys and no store. */
  init?: boolean;
  /** TOML put before everything else: keys without a table. */
  head?: string;
  /** Lines of TOML that go into the tables of these names: `{ limits: 'queue_jobs_max = 5' }`. */
  tables?: Partial<Record<TableName, string>>;
  /** More TOML at the end, such as `[organizations.acme]`. */
  tail?: string;
  /** Whether receipts carry a time-stamp of the built-in authority, its key on the first token. Default: none. */
  stamped?: boolean;
  /** Puts the time-stamping key on a token of its own. */
  apart?: true;
  /** Lines of TOML for the table `clock`; default: it is believed as it is. */
  clock?: string;
  /** Default `src`; see {@link programFile}. */
  code?: Code;
  /** Finds the token for a key of the log or of time-stamps; default: a new one of SoftHSM. */
  token?: (dir: string, names: TokenNames) => PartitionOptions;
  /** Changes a partition of the log before keys are made on it, to put another PKCS#11 module in front of its token. */
  equip?: (partition: PartitionOptions) => PartitionOptions;
  /** Where to make the folder; default: the system's temporary folder. */
  parent?: string;
}

type TableName =
  | 'http'
  | 'admin'
  | 'health'
  | 'limits'
  | 'blocking'
  | 'sealing'
  | 'hash'
  | 'scan'
  | 'sources'
  | 'log'
  | 'witness'
  | 'kms'
  | 'webhooks'
  | 'store'
  | 'pdf'
  | 'logging';

export interface StartOptions {
  stdout?: number;
  env?: Record<string, string>;
}

/**
 * As on the first line of `main.ts`. By itself, V8 lets the young generation grow to 128 MB, and where the heap may have 2 GiB or more, it
 * collects the old one only when it is four times as large as what was alive.
 */
export const DAEMON_FLAGS = ['--max-semi-space-size=16', '--max-old-space-size=2000'];

/** A whole pdfseald of its own: folder, SoftHSM tokens, config file, log keys, store; the daemon as a process, and the CLI. */
export class Sandbox {
  readonly dir: string;
  readonly configFile: string;
  readonly trustFile: string;
  readonly port: number;
  /** Without `/v1`. */
  readonly url: string;
  readonly partitions: PartitionOptions[];
  /** What each command line begins with: {@link Machine.enter}, to run everything on that machine, or `strace -D`. */
  through: readonly string[] = [];
  readonly #code: Code;
  #daemon: Daemon | undefined;

  /** Use {@link openSandbox}. */
  constructor(dir: string, port: number, partitions: PartitionOptions[], code: Code) {
    this.dir = dir;
    this.configFile = join(dir, 'sandbox.toml');
    this.trustFile = join(dir, 'state', 'trust.json');
    this.port = port;
    this.url = `http://127.0.0.1:${port}`;
    this.partitions = partitions;
    this.#code = code;
  }

  /**
   * Starts the daemon and resolves when it listens. It listens on the same port every time. Its log goes to the file
   * descriptor `stdout`; without one it is kept in {@link Daemon.log}. `env` is added to a nearly empty environment.
   */
  async start({ stdout, env = {} }: StartOptions = {}): Promise<Daemon> {
    const [command = '', ...args] = await this.#programLine('main');
    const child = spawn(command, [...args, '--config', this.configFile], {
      env: { ...ENVIRONMENT, ...env },
      stdio: ['ignore', stdout ?? 'pipe', 'pipe'],
    });
    this.#daemon = new Daemon(child, this.port);
    await this.#daemon.listening;
    return this.#daemon;
  }

  /** Runs `pdfseal` and waits for its end: in the process of the test, unless it runs {@link through} another, or is of another code. */
  async pdfseal(args: string[], options: CommandOptions = {}): Promise<RunResult> {
    if (this.#code === 'src' && this.through.length === 0) return pdfseal(args, options);
    return runProgram([...(await this.#programLine('cli')), ...args], options);
  }

  /** Runs a daemon that is expected to refuse its start, and waits for its end. */
  async pdfseald(args: string[] = ['--config', this.configFile]): Promise<RunResult> {
    return runProgram([...(await this.#programLine('main')), ...args], {});
  }

  /** What a command line begins with that runs the program. */
  async #programLine(name: 'main' | 'cli'): Promise<string[]> {
    const flags = name === 'main' ? DAEMON_FLAGS : [];
    return [...this.through, process.execPath, ...flags, await programFile(name, this.#code)];
  }

  /** `pdfseal init`; throws when that fails. */
  async init(...args: string[]): Promise<void> {
    const { status, stderr } = await this.pdfseal([
      'init',
      '--throwaway',
      '--config',
      this.configFile,
      ...args,
    ]);
    if (status !== 0) throw new Error(`pdfseal init ended with ${status}: ${stderr}`);
  }

  /** Issues an API key through the CLI. */
  async issueKey(client = 'quickstart', organization = 'acme', ...more: string[]): Promise<string> {
    const names = ['--config', this.configFile, '--client', client, '--organization', organization];
    const { status, stdout, stderr } = await this.pdfseal(['keys', 'issue', ...names, ...more]);
    if (status !== 0) throw new Error(`pdfseal keys issue ended with ${status}: ${stderr}`);
    return stdout.trim();
  }

  /** The one last started, even if it does not listen yet. */
  get daemon(): Daemon | undefined {
    return this.#daemon;
  }

  /** SIGKILL to the daemon last started, even if it does not listen yet. */
  async kill(): Promise<void> {
    await this.#daemon?.kill();
  }

  /** Stops the daemon if it runs, and removes the folder. */
  async close(): Promise<void> {
    await this.#daemon?.stop();
    rmSync(this.dir, { recursive: true, force: true });
  }
}

/** Makes a sandbox: everything but a running daemon. Close it to remove all of it. */
export async function openSandbox(options: SandboxOptions = {}): Promise<Sandbox> {
  const { init = true, token = makeToken, equip, parent = tmpdir() } = options;
  const dir = mkdtempSync(join(parent, 'pdfseal-sandbox-'));
  try {
    if (init && token === makeToken && equip === undefined && !options.fresh)
      return await copyInitialized(dir, options);
    const sandbox = await layOut(dir, options, (names) => token(dir, names));
    if (init) await sandbox.init('--algorithm', options.algorithm ?? 'ed25519');
    return sandbox;
  } catch (error) {
    rmSync(dir, { recursive: true, force: true });
    throw error;
  }
}

/** What `pdfseal init` leaves depends on few of the options: sandboxes that differ in the others are copies of one. */
async function copyInitialized(dir: string, options: SandboxOptions): Promise<Sandbox> {
  const { log = '', kms = '' } = options.tables ?? {};
  const relevant: SandboxOptions = { ...options, tables: { log, kms } };
  for (const other of ['code', 'parent', 'head', 'tail', 'clock'] as const) delete relevant[other];
  await copyPrepared(`sandbox ${JSON.stringify(relevant)}`, dir, async (folder) => {
    const sandbox = await layOut(folder, relevant, (names) => makeToken(folder, names));
    await sandbox.init('--algorithm', options.algorithm ?? 'ed25519');
  });
  return layOut(dir, options, (names) => tokenIn(dir, names));
}

async function layOut(
  dir: string,
  options: SandboxOptions,
  partitionOf: (names: TokenNames) => PartitionOptions,
): Promise<Sandbox> {
  const { regions = ['local'], code = 'src', equip = (token) => token } = options;
  const tokens = regions.map((region) =>
    partitionOf({ label: `token-${region}`, region, keyLabel: 'sandbox-2026' }),
  );
  const [region = 'local'] = regions;
  const stamping = options.apart
    ? [partitionOf({ label: 'token-time', region, keyLabel: 'timestamp-2026' })]
    : tokens.slice(0, 1);
  const sandbox = new Sandbox(dir, await freePort(), tokens.map(equip), code);
  writeFileSync(sandbox.configFile, configText(sandbox, stamping, options));
  return sandbox;
}

function configText(
  sandbox: Sandbox,
  tokens: PartitionOptions[],
  { head = '', tables = {}, tail = '', quorum, stamped = false, clock = 'trust = "system"' }: SandboxOptions,
): string {
  const kms = quorum === undefined ? '' : `quorum = ${quorum}\n`;
  return `environment = "sandbox"
state_dir = "state"
${head}
[http]
listen = "127.0.0.1:${sandbox.port}"
${tables.http ?? ''}
[log]
origin = "seal.example.com/sandbox/2026"
${tables.log ?? ''}
[kms]
${kms}${tables.kms ?? ''}
${sandbox.partitions.map((partition) => tokenText('kms.partitions', partition)).join('')}
[timestamp]
authorities = ${stamped ? '["built-in"]' : '[]'}
${tokens
  .filter(() => stamped)
  .map((partition) => tokenText('timestamp.keys', { ...partition, keyLabel: 'timestamp-2026' }))
  .join('')}
[clock]
${clock}
${(['admin', 'health', 'limits', 'blocking', 'sealing', 'hash', 'scan', 'sources', 'witness', 'webhooks', 'store', 'pdf', 'logging'] as const).map((name) => `[${name}]\n${tables[name] ?? ''}\n`).join('')}
${tail}
`;
}

function tokenText(table: string, options: PartitionOptions): string {
  const { region, module, tokenLabel, keyLabel, pinFile, libraryParameters, environment = {} } = options;
  const variables = Object.entries(environment).map(([name, value]) => `${name} = "${value}"`);
  return `[[${table}]]
region = "${region}"
module = "${module}"
token_label = "${tokenLabel}"
key_label = "${keyLabel}"
pin_file = "${pinFile}"
environment = { ${variables.join(', ')} }
${libraryParameters === undefined ? '' : `library_parameters = "${libraryParameters}"\n`}`;
}
