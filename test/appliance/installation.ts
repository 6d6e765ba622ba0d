import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { until as untilWithin } from '../support/until.ts';
import { Machine, type MachineOptions, type Ran } from './machine.ts';

export const ROOT = fileURLToPath(new URL('../..', import.meta.url));
/** Machines are slow while others work: a backup has the lowest priority. */
export const until = (what: string, holds: () => boolean) => untilWithin(what, holds, 600);

export const PORTS = { sandbox: 8400, production: 8401 };
export type Environment = keyof typeof PORTS;
export const ENVIRONMENTS = Object.keys(PORTS) as Environment[];

/** In the place of a chronyd whose network the daemon has not: it tells everybody else. */
export const CHRONYC = `#!/bin/sh
! grep -q pdfseald@production /proc/self/cgroup || exit 1
echo 7F000001,127.0.0.1,4,1795221336.977692754,-0.000001288,0.000000038,0.000003888,-0.013,0.000,0.037,0.000005999,0.000001275,1.0,Normal
`;

const bundles = mkdtempSync(join(tmpdir(), 'pdfseald-bundles-'));
t.teardown(() => rmSync(bundles, { recursive: true, force: true }));

/** Builds a bundle of a checkout; the path of its package. */
export function bundle(name: string, args: readonly string[] = [], root = ROOT): string {
  const output = join(bundles, name);
  execFileSync(process.execPath, ['systemd/bundle/bundle.ts', '--output', output, ...args], {
    cwd: root,
    stdio: 'ignore',
  });
  const file = readdirSync(output).find((entry) => entry.endsWith('.deb'));
  if (file === undefined) throw new Error('no package was built');
  return join(output, file);
}

/** A machine on which pdfseald is installed, and what is done there again and again. */
export class Installation {
  readonly machine: Machine;
  readonly keys = new Map<Environment, string>();

  private constructor(machine: Machine) {
    this.machine = machine;
  }

  static async boot(options?: MachineOptions): Promise<Installation> {
    return new Installation(await Machine.boot(options));
  }

  install(file: string, ...options: string[]): Ran {
    copyFileSync(file, join(this.machine.root, 'srv/pdfseald.deb'));
    return this.machine.run(`apt-get install --yes ${options.join(' ')} /srv/pdfseald.deb`);
  }

  /** Makes an environment and lets its token be; `script` is what an administrator does. */
  make(environment: Environment, script: string): void {
    for (const name of ['load.sh', 'verify.mjs'])
      copyFileSync(join(ROOT, 'test/appliance', name), join(this.machine.root, 'srv', name));
    writeFileSync(join(this.machine.root, 'srv/environment.sh'), script);
    this.machine.must(`sh /srv/environment.sh ${environment} ${PORTS[environment]}`);
  }

  /** Waits until it is active, issues a key, and seals one document after the other from now on. */
  async load(environment: Environment): Promise<void> {
    await until(`${environment} is active`, () => this.show(environment, 'ActiveState') === 'active');
    const key = this.admin(environment, 'keys issue --client invoices --organization acme');
    this.keys.set(environment, key);
    this.machine.start(`sh /srv/load.sh ${PORTS[environment]} ${key} /srv/${environment}`);
    const isSealed = () => this.machine.run(`test -s /srv/${environment}/jobs`).status === 0;
    await until('a first document is sealed', isSealed);
  }

  /** Runs pdfseal as the user of the environment. */
  admin(environment: Environment, command: string): string {
    return this.machine.must(
      `${this.as(environment)} pdfseal ${command} --config /etc/pdfseal/${environment}.toml`,
    );
  }

  /** What a command begins with that is run as the user of the environment. */
  as(environment: Environment): string {
    return `runuser -u $(stat -c %U /var/lib/pdfseal/${environment}) --`;
  }

  /** Every job that was answered has a receipt, and each verifies with the document it is of. Returns how many there are. */
  verifyAll(environment: Environment): number {
    const { machine } = this;
    const folder = `/srv/${environment}`;
    const [port, key] = [PORTS[environment], this.keys.get(environment)];
    writeFileSync(join(machine.root, folder, 'trust.json'), this.admin(environment, 'trust export'));
    const count = Number(machine.must(`/usr/lib/pdfseald/bin/node /srv/verify.mjs ${port} ${key} ${folder}`));
    // The program says the same as the library.
    machine.must(`cd ${folder}; job=$(tail -n 1 jobs)
      curl -sf -H "Authorization: Bearer ${key}" -o receipt.json http://127.0.0.1:${port}/v1/jobs/$job/receipt.json
      pdfseal verify $job.pdf receipt.json --trust trust.json`);
    return count;
  }

  /** Throws if systemd finds more of the unit exposed, in tenths. */
  exposesAtMost(unit: string, tenths: number): void {
    this.machine.must(`systemd-analyze security --no-pager --threshold=${tenths} ${unit}.service`);
  }

  show(environment: Environment, property: string): string {
    return this.machine.must(`systemctl show --value --property=${property} pdfseald@${environment}`);
  }

  /** Runs the doctor. Its exit status, and the names of what is broken or needs attention. */
  diagnose(environment: Environment): { status: number | null; found: string[] } {
    const { status, stdout } = this.machine.run(`pdfseal-run ${environment} doctor`);
    return { status, found: [...stdout.matchAll(/^[!✗] ([^:]+):/gm)].map(([, name = '']) => name) };
  }

  /** Resolves once so many more documents are sealed. */
  async sealed(environment: Environment, more: number): Promise<void> {
    const count = () => Number(this.machine.run(`wc -l </srv/${environment}/jobs`).stdout);
    const before = count();
    await until(`${more} more documents are sealed in ${environment}`, () => count() >= before + more);
  }
}
