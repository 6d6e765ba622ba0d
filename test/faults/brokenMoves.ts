/**
 * A log moves into a PostgreSQL and back, and at one step after the other something breaks: the command is killed, the server is killed or
 * stopped at once, a connection is cut, a system call fails. Then the command is repeated, or the move is cancelled.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { loadConfig } from '../../src/config/config.ts';
import { parseAuditRecord } from '../../src/manifest/auditRecord.ts';
import { Client } from '../support/client.ts';
import { collect, ENVIRONMENT } from '../support/daemon.ts';
import { type Postgres, startPostgres } from '../support/postgres.ts';
import { type Fate, PostgresProxy } from '../support/postgresProxy.ts';
import { type Code, programFile } from '../support/programs.ts';
import { openSandbox, type Sandbox } from '../support/sandbox.ts';
import { STORE_UNWRITABLE } from './failingCalls.ts';
import { INJECTING } from './failingCommands.ts';
import { readStore } from './finalState.ts';
import type { Outcome } from './play.ts';
import { randomFrom } from './random.ts';

const MOVES = 12;
/** A move of some leaves takes a few seconds on a busy machine. */
const MOVE_MS_MAX = 120_000;
/** How a command ends that says why: it has refused, or it cannot tell whether its last write took effect. */
const SAID: readonly (number | string)[] = [1, 70];

/** What happens when the command sends its n-th message to the server. */
const BREAKS: Record<string, (house: House) => Fate> = {
  'the command was killed': ({ kill }) => {
    kill();
    return 'forward';
  },
  'the server was killed': ({ end }) => {
    end('SIGKILL');
    return 'forward';
  },
  'the server stopped at once': ({ end }) => {
    end('SIGQUIT');
    return 'forward';
  },
  'the connection was cut': () => 'cut before',
  'the answer was lost': () => 'cut after',
};
/** Of the command itself, which writes its files with them. */
const CALLS = ['pwrite64', 'writev', 'fdatasync', 'fsync', 'ftruncate', 'rename'];
const KILLS = 'signal=SIGKILL';
const EFFECTS = ['error=EIO', 'error=ENOSPC', KILLS];
const NTH_CALL_MAX = 20;

interface House {
  sandbox: Sandbox;
  postgres: Postgres;
  proxy: PostgresProxy;
  /** Kills the command that runs. */
  kill(): void;
  /** Ends the server; it is started again before anything else is done. */
  end(signal: NodeJS.Signals): void;
}

interface Ended {
  /** Its status, or the signal that ended it. */
  how: number | string;
  said: string;
}

/** How a move is disturbed: the command runs through another program, or something happens at one of its messages. */
interface Break {
  what: string;
  through?: readonly string[];
  nth?: number;
  fate?: (house: House) => Fate;
  /** The signal that may end the command. */
  kills?: 'SIGKILL';
}

export async function breakMoves(seed: number, { code = 'dist' }: { code?: Code } = {}): Promise<Outcome> {
  const random = randomFrom(seed);
  const closes: (() => Promise<unknown>)[] = [];
  const against: string[] = [];
  let [broken, cancelled] = [0, 0];
  try {
    const mover = await Mover.open((close) => closes.push(close), code);
    const before = JSON.stringify(await mover.contents());
    for (let move = 0; move < MOVES && against.length === 0; move++) {
      await mover.makeTarget();
      const disturbed = chooseBreak(random, mover.messages);
      const ended = await mover.move(disturbed);
      const problems = await mover.problemsOf(ended, disturbed);
      const isCancelled = ended.how !== 0 && random() < 0.25 && (await mover.cancel());
      if (!isCancelled) problems.push(...(await mover.finish()));
      // Where the move did not end, nobody knows where the log is.
      if (problems.length === 0 && JSON.stringify(await mover.contents()) !== before)
        problems.push('the contents are others');
      against.push(...problems.map((problem) => `move ${move}, ${disturbed.what}: ${problem}`));
      broken += Number(ended.how !== 0);
      cancelled += Number(isCancelled);
    }
    if (against.length === 0) against.push(...(await mover.trailProblems()));
    return { ending: `${broken} of ${MOVES} broke, ${cancelled} of them were cancelled`, against };
  } finally {
    for (const close of closes.reverse()) await close();
  }
}

/** `messages`: how many an undisturbed move has; nothing breaks as long as that is not known. */
function chooseBreak(random: () => number, messages: number | undefined): Break {
  const pick = <T>(from: readonly T[]): T => from[Math.floor(random() * from.length)] as T;
  if (messages === undefined) return { what: 'undisturbed' };
  if (random() < 0.3) {
    const [call, effect, nth] = [pick(CALLS), pick(EFFECTS), 1 + Math.floor(random() * NTH_CALL_MAX)];
    const inject = `inject=${call}:${effect}:when=${nth}`;
    const through = [...INJECTING, '-e', `trace=${call}`, '-e', inject];
    return { what: inject, through, ...(effect === KILLS && { kills: 'SIGKILL' }) };
  }
  const [name, fate] = pick(Object.entries(BREAKS));
  const nth = 1 + Math.floor(random() * messages);
  return { what: `${name} at message ${nth} of ${messages}`, nth, fate, kills: 'SIGKILL' };
}

class Mover {
  /** Of an undisturbed move out of a folder, and out of a database. */
  readonly #messages = new Map<boolean, number>();
  readonly #house: House;
  readonly #code: Code;
  #made = 0;
  /** The configurations of where the log is and where it goes. */
  #source: string;
  #target = '';
  #ending: Promise<void> | undefined;
  #kill = () => {};

  private constructor(sandbox: Sandbox, postgres: Postgres, proxy: PostgresProxy, code: Code) {
    this.#code = code;
    this.#source = sandbox.configFile;
    this.#house = {
      sandbox,
      postgres,
      proxy,
      kill: () => this.#kill(),
      end: (signal) => {
        this.#ending ??= postgres.stop(signal);
      },
    };
  }

  /** Of the move to come. */
  get messages(): number | undefined {
    return this.#messages.get(this.#isInDatabase());
  }

  /** An installation with leaves, keys and webhooks, whose daemon does not run. */
  static async open(teardown: (close: () => Promise<unknown>) => unknown, code: Code): Promise<Mover> {
    const sandbox = await openSandbox({ code: 'dist', regions: ['eu'] });
    teardown(() => sandbox.close());
    const postgres = await startPostgres({ teardown });
    const proxy = await PostgresProxy.start(postgres.dir);
    teardown(() => proxy.close());
    const daemon = await sandbox.start();
    const client = await Client.connect(sandbox.url, await sandbox.issueKey());
    for (let n = 0; n < 5; n++)
      await client.seal(
        Buffer.from(`%PDF-1.7\n${n}\n%%EOF\n`),
        { mode: 'blocking' },
        { 'Idempotency-Key': `number-${n}-of-5` },
      );
    await daemon.stop();
    return new Mover(sandbox, postgres, proxy, code);
  }

  /** A database and a folder in turns. Both configurations name one last-checkpoint file, as they must. */
  async makeTarget(): Promise<void> {
    const { sandbox, postgres, proxy } = this.#house;
    const number = this.#made++;
    const isFolder = this.#isInDatabase();
    const state = isFolder ? `moved-${number}` : 'state';
    if (isFolder) mkdirSync(join(sandbox.dir, state));
    const url = `postgresql:///${await postgres.createDatabase()}?host=${proxy.dir}&user=pdfseal`;
    const text = readFileSync(sandbox.configFile, 'utf8')
      .replace('state_dir = "state"', `state_dir = "${state}"`)
      .replace('[log]', isFolder ? '[log]\nlast_checkpoint_file = "state/last-checkpoint"' : '[log]')
      .replace('[store]', isFolder ? '[store]' : `[store]\nengine = "postgresql"\nurl = "${url}"`);
    this.#target = join(sandbox.dir, `place-${number}.toml`);
    writeFileSync(this.#target, text);
  }

  async move({ through, nth, fate = () => 'forward' }: Partial<Break> = {}): Promise<Ended> {
    const { proxy, postgres } = this.#house;
    let messages = 0;
    proxy.fate = () => (++messages === nth ? fate(this.#house) : 'forward');
    const ended = await this.#run(this.#migrate, through);
    proxy.fate = () => 'forward';
    if (this.messages === undefined) this.#messages.set(this.#isInDatabase(), messages);
    if (this.#ending) {
      await this.#ending;
      await postgres.start();
      this.#ending = undefined;
    }
    return ended;
  }

  /** What is wrong with how a move ended, and with what it left. */
  async problemsOf({ how, said }: Ended, { kills }: Break): Promise<string[]> {
    // lmdb-js can damage its heap where a page cannot be written, and abort once the command has said so.
    const isAborted = how === STORE_UNWRITABLE && said.includes('its last write is on disk');
    const isLegal = how === 0 || (SAID.includes(how) && said !== '') || how === kills || isAborted;
    const isThere = await this.#isUsed(this.#target);
    return [
      ...(isLegal ? [] : [`it ended with ${how}: ${said}`]),
      ...(isThere && (await this.#isUsed(this.#source)) ? ['the log is in two places'] : []),
      ...(how === 0 && !isThere ? ['it says that the log has moved, and it has not'] : []),
    ];
  }

  /** Whether the move could be cancelled, and the log is used where it was. */
  async cancel(): Promise<boolean> {
    const { how } = await this.#run([...this.#migrate, '--cancel']);
    return how === 0 && (await this.#isUsed(this.#source));
  }

  /** Repeats the command, which must end the move, and looks at what came of it. */
  async finish(): Promise<string[]> {
    const again = await this.move();
    if (again.how !== 0) return [`repeated, it ended with ${again.how}: ${again.said}`];
    const check = await this.#run(['check', '--config', this.#target]);
    const isLeft = !(await this.#isUsed(this.#source));
    this.#source = this.#target;
    return [
      ...(check.how === 0 ? [] : [`the check ended with ${check.how}: ${check.said}`]),
      ...(isLeft ? [] : ['the log is still where it was']),
    ];
  }

  /** What must be the same wherever it is: all but the records of moves, which wait to be sealed. */
  async contents(): Promise<object> {
    const { jobs, leaves, quotaCounts, pending } = await this.#read();
    const own = jobs
      .filter(({ outcome }) => outcome === 'sealed')
      .sort((one, other) => (one.id < other.id ? -1 : 1));
    return { own, leaves, quotaCounts, pending };
  }

  /** Each move that was begun is concluded once. */
  async trailProblems(): Promise<string[]> {
    const { trail } = await this.#read();
    const records = trail.map(({ number, text }) => ({ number, ...parseAuditRecord(text) }));
    const moves = records.filter(({ act }) => act === 'store.migrate');
    return moves
      .filter(({ outcome }) => outcome === 'begun')
      .map(({ number }) => ({ number, ends: moves.filter(({ concludes }) => concludes === number).length }))
      .filter(({ ends }) => ends !== 1)
      .map(({ number, ends }) => `${ends} records conclude the move that record ${number} begins`);
  }

  #read() {
    return readStore(loadConfig(this.#source, { files: 'unused' }).store);
  }

  #isInDatabase(): boolean {
    return readFileSync(this.#source, 'utf8').includes('engine = "postgresql"');
  }

  get #migrate(): string[] {
    return ['store', 'migrate', '--config', this.#source, '--to', this.#target];
  }

  async #isUsed(config: string): Promise<boolean> {
    return (await this.#run(['keys', 'list', '--config', config])).how === 0;
  }

  async #run(args: string[], through: readonly string[] = []): Promise<Ended> {
    const program = await programFile('cli', this.#code);
    const [command = '', ...line] = [...through, process.execPath, program, ...args];
    const child = spawn(command, line, { env: ENVIRONMENT, stdio: ['ignore', 'pipe', 'pipe'] });
    this.#kill = () => child.kill('SIGKILL');
    let isHung = false;
    const late = setTimeout(() => {
      isHung = true;
      this.#kill();
    }, MOVE_MS_MAX);
    const [stdout, stderr] = [collect(child.stdout), collect(child.stderr)];
    const [status, signal] = (await once(child, 'close')) as [number | null, string | null];
    clearTimeout(late);
    return { how: isHung ? 'nothing: it hung' : (status ?? signal ?? ''), said: stdout() + stderr() };
  }
}
