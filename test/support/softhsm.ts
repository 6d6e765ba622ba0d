import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { initKey } from '../../src/kms/keyOperations.ts';
import type { PartitionOptions } from '../../src/kms/partitions.ts';
import type { LogKey, SignatureAlgorithm } from '../../src/log/verifierKey.ts';
import { copyPrepared } from './prepared.ts';

const MODULES = ['/usr/lib/softhsm/libsofthsm2.so', '/usr/lib/x86_64-linux-gnu/softhsm/libsofthsm2.so'];

/** Signers are started hundreds of times, and most of their start goes into reading the same sources. */
const NODE_COMPILE_CACHE = fileURLToPath(new URL('../../node_modules/.cache/compiled', import.meta.url));

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
export function makeToken(dir: string, names: TokenNames): PartitionOptions {
  const home = join(dir, names.label);
  mkdirSync(join(home, 'tokens'), { recursive: true, mode: 0o700 });
  const pin = randomBytes(12).toString('hex');
  const partition = tokenIn(dir, names);
  writeFileSync(partition.pinFile, `${pin}\n`, { mode: 0o600 });
  // On the command line, where any user sees it, a PIN is acceptable for a throw-away token only.
  const pins = ['--pin', pin, '--so-pin', randomBytes(12).toString('hex')];
  execFileSync('softhsm2-util', ['--init-token', '--free', '--label', names.label, ...pins], {
    env: { PATH: '/usr/bin:/bin', ...partition.environment },
    stdio: 'pipe',
  });
  return partition;
}

/** A partition like that of {@link makeToken}, with its key. */
export async function makeTokenWithKey(
  dir: string,
  names: TokenNames,
  algorithm: SignatureAlgorithm,
): Promise<{ token: PartitionOptions; key: LogKey }> {
  await copyPrepared(`token ${algorithm} ${JSON.stringify(names)}`, dir, async (folder) => {
    const key = await initKey(makeToken(folder, names), algorithm);
    writeFileSync(join(folder, names.label, 'key.json'), JSON.stringify(key));
  });
  const key = JSON.parse(readFileSync(join(dir, names.label, 'key.json'), 'utf8')) as LogKey;
  return { token: tokenIn(dir, names), key };
}

/** The partition whose token is in `<dir>/<label>`, wherever that was made. */
export function tokenIn(dir: string, { label, region, keyLabel }: TokenNames): PartitionOptions {
  const home = join(dir, label);
  const conf = join(home, 'softhsm2.conf');
  writeFileSync(conf, `directories.tokendir = ${join(home, 'tokens')}\nobjectstore.backend = file\n`);
  const environment = { SOFTHSM2_CONF: conf, NODE_COMPILE_CACHE };
  return {
    region,
    module: findModule(),
    tokenLabel: label,
    keyLabel,
    pinFile: join(home, 'pin'),
    environment,
  };
}

/** Path of the SoftHSM module; throws with the package to install when there is none. */
export function findModule(): string {
  const module = MODULES.find((path) => existsSync(path));
  if (module === undefined) throw new Error('SoftHSM is not installed: apt-get install softhsm2');
  return module;
}
