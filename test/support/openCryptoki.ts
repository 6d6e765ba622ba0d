/**
 * openCryptoki's software token. Its programs know their files by fixed paths, and talk by System V shared memory, so it is on a machine of
 * its own that shares everything else with this one.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { appendFileSync, existsSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Test } from 'tap';
import { DeviceProgram } from './deviceProgram.ts';
import { Machine } from './machine.ts';

const UNPACKED = fileURLToPath(new URL('../../node_modules/.cache/opencryptoki/usr', import.meta.url));
const LIBRARIES = join(UNPACKED, 'lib/x86_64-linux-gnu/opencryptoki');
const MODULE = join(LIBRARIES, 'libopencryptoki.so.0');
const ENVIRONMENT = { LD_LIBRARY_PATH: [LIBRARIES, join(LIBRARIES, 'stdll')].join(':') };
const APART = ['--mount', '--ipc'];

const LABEL = 'ock-0';
const PIN = '43214321';
const SO_PIN = '11112222';
/** Those of a new token. */
const FACTORY = { soPin: '87654321', pin: '12341234' };

const CONFIGURATION = `version opencryptoki-3.8
slot 0
{
    stdll = libpkcs11_sw.so
}
`;

/** Why this machine cannot have it; undefined if it can. */
export function openCryptokiMissing(): string | undefined {
  if (!existsSync(MODULE)) return `${MODULE} is missing: sh test/setup.sh --all-tests unpacks it`;
  if (!Machine.isPossible({ apart: APART }))
    return 'this user may not make namespaces for mounts and for System V shared memory';
  return undefined;
}

export class OpenCryptoki {
  readonly module = MODULE;
  readonly environment = ENVIRONMENT;
  readonly label = LABEL;
  readonly pin = PIN;
  readonly machine: Machine;
  readonly #dir: string;
  readonly #slotDaemon: DeviceProgram;

  private constructor(t: Pick<Test, 'teardown'>, dir: string, machine: Machine) {
    this.#dir = dir;
    this.machine = machine;
    const line = [...machine.enter, join(UNPACKED, 'sbin/pkcsslotd'), '-f'];
    this.#slotDaemon = new DeviceProgram(t, line, ENVIRONMENT);
  }

  /** Starts one with its files in `dir`, and an initialised token. */
  static async start(t: Pick<Test, 'teardown'>, dir: string): Promise<OpenCryptoki> {
    layOut(dir);
    const mounts = ['etc', 'var', 'run'].map((name) => `mount --bind ${join(dir, name)} /${name}`);
    const sbin = `mount --bind ${join(UNPACKED, 'sbin')} /usr/sbin`;
    const script = [...mounts, 'mount -t tmpfs tmpfs /dev/shm', sbin].join('\n');
    const machine = await Machine.open(t, { apart: APART, script });
    const device = new OpenCryptoki(t, dir, machine);
    await device.startSlots();
    device.#initialise();
    return device;
  }

  startSlots(): Promise<void> {
    return this.#slotDaemon.start(() => existsSync(join(this.#dir, 'run/pkcsslotd.socket')));
  }

  async stopSlots(): Promise<void> {
    await this.#slotDaemon.stop();
    for (const name of ['pkcsslotd.socket', 'pkcsslotd.pid'])
      rmSync(join(this.#dir, 'run', name), { force: true });
  }

  #initialise(): void {
    this.#configure(`${LABEL}\n`, '-I', '-S', FACTORY.soPin);
    this.#configure('', '-P', '-S', FACTORY.soPin, '-n', SO_PIN);
    this.#configure('', '-u', '-S', SO_PIN, '-n', FACTORY.pin);
    this.#configure('', '-p', '-U', FACTORY.pin, '-n', PIN);
  }

  #configure(input: string, ...args: string[]): void {
    const [enter = '', ...inside] = this.machine.enter;
    const line = [...inside, join(UNPACKED, 'sbin/pkcsconf'), '-c', '0', ...args];
    execFileSync(enter, line, { env: { ...process.env, ...ENVIRONMENT }, input, stdio: 'pipe' });
  }
}

/** The folders that are mounted over those of this machine. */
function layOut(dir: string): void {
  const folders = ['etc', 'var/lib/opencryptoki/swtok/TOK_OBJ', 'var/log/opencryptoki', 'var/tmp'];
  for (const name of [...folders, 'run/lock/opencryptoki/swtok'])
    mkdirSync(join(dir, name), { recursive: true });
  symlinkSync('/run', join(dir, 'var/run'));
  symlinkSync('/run/lock', join(dir, 'var/lock'));
  // A user who is not root may not read all of it, and does not need that.
  spawnSync('cp', ['-a', '/etc/.', join(dir, 'etc')]);
  mkdirSync(join(dir, 'etc/opencryptoki'));
  writeFileSync(join(dir, 'etc/opencryptoki/opencryptoki.conf'), CONFIGURATION);
  // Its users must be in this group. That of root is the only one that a user namespace has.
  appendFileSync(join(dir, 'etc/group'), 'pkcs11:x:0:root\n');
}
