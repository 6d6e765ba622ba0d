import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { PartitionOptions } from '../../src/kms/partitions.ts';

const MODULES = ['/usr/lib/softhsm/libsofthsm2.so', '/usr/lib/x86_64-linux-gnu/softhsm/libsofthsm2.so'];

export interface TokenNames {
  /** Label of the token, and name of its folder below `dir`. */
  label: string;
  region: string;
  keyLabel: string;
}

/**
 * A throw-away partition in `<dir>/<label>`: a configuration and token folder of its own, so that partitions are
 * independent of each other, and a random PIN in a file of mode 0600. Has no key yet. Removing `dir` removes all of it.
 */
export function makeToken(dir: string, { label, region, keyLabel }: TokenNames): PartitionOptions {
  const home = join(dir, label);
  mkdirSync(join(home, 'tokens'), { recursive: true, mode: 0o700 });
  const conf = join(home, 'softhsm2.conf');
  writeFileSync(conf, `directories.tokendir = ${join(home, 'tokens')}\nobjectstore.backend = file\n`);
  const pin = randomBytes(12).toString('hex');
  const pinFile = join(home, 'pin');
  writeFileSync(pinFile, `${pin}\n`, { mode: 0o600 });
  const environment = { SOFTHSM2_CONF: conf };
  // On the command line, where any user sees it, a PIN is acceptable for a throw-away token only.
  execFileSync(
    'softhsm2-util',
    ['--init-token', '--free', '--label', label, '--pin', pin, '--so-pin', randomBytes(12).toString('hex')],
    { env: { PATH: '/usr/bin:/bin', ...environment }, stdio: 'pipe' },
  );
  return { region, module: findModule(), tokenLabel: label, keyLabel, pinFile, environment };
}

/** Path of the SoftHSM module; throws with the package to install when there is none. */
export function findModule(): string {
  const module = MODULES.find((path) => existsSync(path));
  if (module === undefined) throw new Error('SoftHSM is not installed: apt-get install softhsm2');
  return module;
}
