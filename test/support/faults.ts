/**
 * Everything that can happen to a partition of a running daemon, each undone by what it returns; and SoftHSM behind a module that
 * fails when told to (`faulty-module.c`, compiled here).
 */
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { PartitionOptions } from '../../src/kms/partitions.ts';
import type { Daemon } from './daemon.ts';
import { findModule } from './partitions.ts';
import { changePin, hangModule, takeToken } from './tamper.ts';

/** Functions that can be made to fail, or to take longer. */
export type ModuleFunction =
  | 'C_Initialize'
  | 'C_Finalize'
  | 'C_OpenSession'
  | 'C_Login'
  | 'C_FindObjectsInit'
  | 'C_FindObjects'
  | 'C_SignInit'
  | 'C_DestroyObject'
  | 'C_Sign';

/** All bits flipped, one bit, zeros, half of it, a byte more, empty, or good but over less than was to be signed. */
export const FORGERIES = ['bits', 'bit', 'zeros', 'short', 'long', 'empty', 'over less'] as const;
/** What a token loses before a signature. */
export const LOSSES = ['sessions', 'session', 'log-in'] as const;

/**
 * What goes wrong in the module: it crashes in C_Sign, gives signatures with flipped bits, has no session left or only so many
 * for a process, lets the second of each two signatures overtake the first or fail beside it, takes so many milliseconds
 * longer for each signature or login, or returns an error. `every`: in one of so many calls; default 1.
 */
export type ModuleFault =
  | 'crash'
  | 'garbage'
  | 'sessions'
  /** Several sessions can be open, but then none signs. */
  | 'alone'
  | { sessions: number }
  | { overtaken: 'by a signature' | 'by a failure' }
  | { delayed: ModuleFunction; ms: number }
  | { fails: ModuleFunction; with: number; every?: number }
  | { forges: (typeof FORGERIES)[number]; every?: number }
  | { loses: (typeof LOSSES)[number] }
  /** As `one-object`, and the module has this code for an object that is gone. */
  | { oneObject: number }
  /** The module prints so many lines when it starts, and does not start. */
  | { prints: number }
  /** The token answers a wrong PIN with this code. */
  | { wrongPinIs: number }
  /** The log-in is by session, and so many sessions get one. */
  | { loginBySession: number }
  /** The token reports these flags of CK_TOKEN_INFO as well. */
  | { tokenFlags: number }
  | Peculiarity;

/**
 * What is no fault but how some devices are: Ed25519 is known by its name only, CKA_ID cannot be set, both halves of a pair
 * are one object, there is no log-in (so nothing is private), another slot holds a card of others, the module has no locks, or
 * does not start without (`locks-only`), or starts in neither way (`no-start`), records its parameters, wants a buffer as long as
 * the signature, makes another instance for each C_GetFunctionList, was logged in to by another program. keeps no public keys (`no-public`), lost
 * the private one, makes half a pair, makes keys that demand the PIN for each signature, signs with RSA
 * only with the hash function (`no-plain-rsa`) or only without. `not-private` is a fault: a token with a log-in whose key is there without one.
 */
export type Peculiarity =
  | 'named-curve'
  | 'fixed-id'
  | 'one-object'
  | 'no-login'
  | 'no-locks'
  | 'locks-only'
  | 'no-start'
  | 'parameters'
  | 'exact-output'
  | 'instances'
  | 'logged-in'
  | 'login-by-session'
  | 'nul-padding'
  | 'no-public'
  | 'no-private'
  | 'half-made'
  | 'always-authenticate'
  | 'no-plain-rsa'
  | 'no-hashed-rsa'
  | 'not-private'
  | 'foreign-card'
  /** It takes its PIN at a pad only. */
  | 'pin-pad';

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
  if ('sessions' in fault) return `sessions ${fault.sessions}`;
  if ('overtaken' in fault) return `overtake ${Number(fault.overtaken === 'by a failure')}`;
  if ('fails' in fault) return `${fault.fails} ${fault.with} ${fault.every ?? 1}`;
  if ('forges' in fault) return `garbage ${FORGERIES.indexOf(fault.forges)} ${fault.every ?? 1}`;
  if ('oneObject' in fault) return `one-object ${fault.oneObject}`;
  if ('prints' in fault) return `prints ${fault.prints}`;
  if ('loginBySession' in fault) return `login-by-session ${fault.loginBySession}`;
  if ('wrongPinIs' in fault) return `wrong-pin-is ${fault.wrongPinIs}`;
  if ('tokenFlags' in fault) return `token-flags ${fault.tokenFlags}`;
  if ('loses' in fault) return `lose ${LOSSES.indexOf(fault.loses)}`;
  return `${fault.delayed}-delay ${fault.ms}`;
}

/** How often the module refused a PIN. */
export function refusedLogins(partition: PartitionOptions): number {
  return callsOf(partition).filter((line) => line.startsWith('login ') && line !== 'login 0x0').length;
}

/** How often the module judged a PIN. */
export function logins(partition: PartitionOptions): number {
  return callsOf(partition).filter((line) => line.startsWith('login ')).length;
}

/** How often the module played the fault. */
export function faultsPlayed(
  partition: PartitionOptions,
  fault:
    | 'crash'
    | 'garbage'
    | 'sessions'
    | 'no-mechanism'
    | 'alone'
    | 'overtake'
    | 'finalize'
    | 'C_Login-delay'
    | 'C_Finalize-delay'
    | ModuleFunction
    | Peculiarity,
): number {
  return callsOf(partition).filter((line) => line.startsWith(fault)).length;
}

/** Whether the module was asked to log out. */
export function loggedOut(partition: PartitionOptions): boolean {
  return callsOf(partition).some((line) => line.startsWith('logout '));
}

/** Whether the module was initialised with exactly these parameters; recorded only with the peculiarity `parameters`. */
export function tookParameters(partition: PartitionOptions, parameters: string): boolean {
  return callsOf(partition).includes(`${parameters} 0x0`);
}

/** None before the module is loaded for the first time. */
function callsOf(partition: PartitionOptions): string[] {
  const file = join(homeOf(partition), 'calls');
  return existsSync(file) ? readFileSync(file, 'utf8').split('\n') : [];
}

function homeOf({ pinFile }: PartitionOptions): string {
  return dirname(pinFile);
}

export interface Fault {
  name: string;
  /** What the daemon reports of it in the end. */
  code: string;
  /** Lasts until the result is called. */
  strike(partition: PartitionOptions, daemon: Pick<Daemon, 'pid'>): () => void;
}

export const TOKEN_VANISHES: Fault = {
  name: 'token vanishes',
  code: 'token_not_found',
  strike: takeToken,
};
export const CHILD_KILLED: Fault = { name: 'child killed', code: 'signer_died', strike: keepKilling };
export const CHILD_HANGS: Fault = {
  name: 'child hangs in the module',
  code: 'timed_out',
  strike: hangModule,
};
/** Longer than any time-out: who signs while this lasts never comes back. */
export const SIGNATURE_HANGS = moduleFault('signature hangs', 'timed_out', {
  delayed: 'C_Sign',
  ms: 600_000,
});
export const MODULE_CRASHES = moduleFault('module crashes', 'signer_died', 'crash');
export const GARBAGE_SIGNED = moduleFault('garbage signatures', 'signature_invalid', 'garbage');
/** Only a new child opens a session. */
export const NO_SESSION_LEFT: Fault = {
  name: 'session limit reached',
  code: 'CKR_SESSION_COUNT',
  strike(partition, daemon) {
    setFault(partition, 'sessions');
    killSigner(partition, daemon);
    return () => setFault(partition, undefined);
  },
};
/** Only a new child logs in. */
export const PIN_CHANGED: Fault = {
  name: 'PIN changed',
  code: 'CKR_PIN_INCORRECT',
  strike(partition, daemon) {
    const writePin = changePin(withoutFaults(partition));
    killSigner(partition, daemon);
    return writePin;
  },
};

/** Each of them. */
export const FAULTS: readonly Fault[] = [
  CHILD_KILLED,
  CHILD_HANGS,
  TOKEN_VANISHES,
  SIGNATURE_HANGS,
  MODULE_CRASHES,
  GARBAGE_SIGNED,
  NO_SESSION_LEFT,
  PIN_CHANGED,
];

function moduleFault(name: string, code: string, fault: ModuleFault): Fault {
  return {
    name,
    code,
    strike(partition) {
      setFault(partition, fault);
      return () => setFault(partition, undefined);
    },
  };
}

/** Shorter than any child needs to come up. */
const KILL_INTERVAL_MS = 20;

function keepKilling(partition: PartitionOptions, daemon: Pick<Daemon, 'pid'>): () => void {
  killSigner(partition, daemon);
  const killing = setInterval(() => killSigner(partition, daemon), KILL_INTERVAL_MS);
  return () => clearInterval(killing);
}

/** SIGKILL to the partition's child, if it has one. */
export function killSigner({ region, keyLabel }: PartitionOptions, daemon: Pick<Daemon, 'pid'>): void {
  killSigners(daemon, region, keyLabel);
}

/** SIGKILL to every child of the daemon that these names are arguments of; returns how many those are. */
export function killSigners({ pid }: Pick<Daemon, 'pid'>, ...names: string[]): number {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean);
  const isNamed = (child: number) => names.every((one) => argumentsOf(child).includes(one));
  const signers = children.map(Number).filter(isNamed);
  for (const signer of signers) process.kill(signer, 'SIGKILL');
  return signers.length;
}

/** Empty for a process that has just ended. */
function argumentsOf(pid: number): string[] {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
  } catch {
    return [];
  }
}
