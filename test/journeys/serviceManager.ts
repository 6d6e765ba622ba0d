import { type ChildProcess, spawn } from 'node:child_process';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { Sandbox } from '../support/sandbox.ts';
import { until } from '../support/until.ts';

/**
 * Listens for datagrams and at an address (an IP, or the path of a socket), as Node cannot do without accepting, and runs the daemon each time it is told to,
 * with that as descriptor 3. Whatever it has to say is a line of JSON, like the daemon's own log.
 */
const MANAGER = `
import json, os, socket, subprocess, sys, threading
say = lambda **what: print(json.dumps(what), flush=True)
at = os.environ["LISTEN_AT"]
if at.startswith("/"):
    listener = socket.create_server(at, family=socket.AF_UNIX, backlog=64)
else:
    listener = socket.create_server((at, 0), backlog=64)
    say(port=listener.getsockname()[1])
os.dup2(listener.fileno(), 3, inheritable=True)
receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
receiver.bind(os.environ["NOTIFY_SOCKET"])
def hear():
    while True:
        say(heard=receiver.recv(65536).decode())
threading.Thread(target=hear, daemon=True).start()
for _ in sys.stdin:
    own_pid = 'LISTEN_PID=$$ WATCHDOG_PID=$$ exec "$@"'
    child = subprocess.Popen(["sh", "-c", own_pid, "sh", *sys.argv[1:]], pass_fds=[3])
    say(pid=child.pid)
    say(ended=child.wait())
`;

interface Line {
  heard?: string;
  port?: number;
  pid?: number;
  ended?: number;
  msg?: string;
}

/** What sd_notify(3), sd_watchdog_enabled(3) and sd_listen_fds(3) promise a daemon. */
export class ServiceManager {
  readonly #child: ChildProcess;
  readonly #lines: Line[] = [];

  constructor(
    sandbox: Sandbox,
    { watchdogMs, at = '127.0.0.1', by = [] }: { watchdogMs: number; at?: string; by?: readonly string[] },
  ) {
    const main = fileURLToPath(new URL('../../dist/main.js', import.meta.url));
    const daemon = [...by, process.execPath, main, '--config', sandbox.configFile];
    this.#child = spawn('python3', ['-c', MANAGER, ...daemon], {
      env: {
        PATH: process.env.PATH,
        NOTIFY_SOCKET: join(sandbox.dir, 'notify'),
        WATCHDOG_USEC: String(watchdogMs * 1000),
        LISTEN_FDS: '1',
        LISTEN_AT: at,
      },
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    if (!this.#child.stdout) throw new Error('no standard output');
    createInterface({ input: this.#child.stdout }).on('line', (line) => {
      this.#lines.push(JSON.parse(line) as Line);
    });
  }

  /** The port that is listened on, whether a daemon runs or not. */
  async port(): Promise<number> {
    const [port = 0] = await this.#said('port', 1);
    return port;
  }

  /** What the daemons said, datagram by datagram. */
  get heard(): string[] {
    return this.#all('heard');
  }

  /** Starts the compiled daemon; its process id. */
  async start(): Promise<number> {
    const before = this.#all('pid').length;
    this.#child.stdin?.write('start\n');
    const pids = await this.#said('pid', before + 1);
    return pids.at(-1) ?? 0;
  }

  /** Exit statuses of the daemons, once `count` have ended. */
  ended(count: number): Promise<number[]> {
    return this.#said('ended', count);
  }

  close(): void {
    this.#child.kill();
  }

  #all<Name extends keyof Line>(name: Name): NonNullable<Line[Name]>[] {
    return this.#lines.flatMap((line) => line[name] ?? []) as NonNullable<Line[Name]>[];
  }

  async #said<Name extends keyof Line>(name: Name, count: number): Promise<NonNullable<Line[Name]>[]> {
    await until(`${count} of ${name}`, () => this.#all(name).length >= count);
    return this.#all(name);
  }
}
