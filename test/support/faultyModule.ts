/** SoftHSM behind a module that fails when told to: `faulty-module.c`, compiled here. */
import { execFileSync } from 'node:child_process';
import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { PartitionOptions } from '../../src/kms/partitions.ts';
import { findModule } from './softhsm.ts';

/**
 * What goes wrong in the module: it crashes in C_Sign, gives signatures with flipped bits, has no session left, or takes
 * so many milliseconds longer for each signature or login.
 */
export type ModuleFault =
  | 'crash'
  | 'garbage'
  | 'sessions'
  | { signDelayMs: number }
  | { loginDelayMs: number }
  | Peculiarity;

/**
 * What is no fault but how some devices are: Ed25519 is known by its name only, CKA_ID cannot be set, both halves of a pair
 * are one object, there is no log-in (so nothing is private), another slot holds a card of others. `not-private` is a fault: a
 * token with a log-in whose key is there without one.
 */
export type Peculiarity =
  | 'named-curve'
  | 'fixed-id'
  | 'one-object'
  | 'no-login'
  | 'not-private'
  | 'foreign-card';

const SOURCE = fileURLToPath(new URL('faulty-module.c', import.meta.url));
/** The standard's headers, as pkcs11js brings them. */
const HEADERS = fileURLToPath(new URL('../../node_modules/pkcs11js/includes/pkcs11', import.meta.url));

/** Compiles the module into `dir`; returns its path. Takes a moment: once per test file will do. */
export function buildFaultyModule(dir: string): string {
  const module = join(dir, 'faulty-module.so');
  const real = `-DREAL_MODULE="${findModule()}"`;
  execFileSync('gcc', ['-shared', '-fPIC', '-O1', '-I', HEADERS, real, '-o', module, SOURCE]);
  return module;
}

/** The partition behind the compiled module, which behaves until {@link setFault}. */
export function behindFaulty(partition: PartitionOptions, module: string): PartitionOptions {
  return { ...partition, module, environment: { ...partition.environment, FAULTY_DIR: homeOf(partition) } };
}

/** The same partition for those whom the faults do not concern. */
export function withoutFaults(partition: PartitionOptions): PartitionOptions {
  return { ...partition, module: findModule() };
}

/** What goes wrong from the next call of the module on; undefined: nothing. */
export function setFault(partition: PartitionOptions, fault: ModuleFault | undefined): void {
  const path = join(homeOf(partition), 'fault');
  const told = `${path}.new`;
  writeFileSync(told, faultText(fault));
  renameSync(told, path);
}

function faultText(fault: ModuleFault | undefined): string {
  if (typeof fault !== 'object') return fault ?? 'none';
  return 'signDelayMs' in fault ? `sign-delay ${fault.signDelayMs}` : `login-delay ${fault.loginDelayMs}`;
}

/** How often the module was asked to log in and refused. */
export function refusedLogins(partition: PartitionOptions): number {
  return callsOf(partition).filter((line) => line.startsWith('login ') && line !== 'login 0x0').length;
}

/** How often the module played the fault. */
export function faultsPlayed(
  partition: PartitionOptions,
  fault: 'crash' | 'garbage' | 'sessions' | Peculiarity,
): number {
  return callsOf(partition).filter((line) => line.startsWith(fault)).length;
}

function callsOf(partition: PartitionOptions): string[] {
  return readFileSync(join(homeOf(partition), 'calls'), 'utf8').split('\n');
}

function homeOf({ pinFile }: PartitionOptions): string {
  return dirname(pinFile);
}
