/** Everything that can happen to a partition of a running daemon, each undone by what it returns. */
import { readFileSync } from 'node:fs';
import type { PartitionOptions } from '../../src/kms/partitions.ts';
import { type ModuleFault, setFault, withoutFaults } from './faultyModule.ts';
import type { Daemon } from './sandbox.ts';
import { changePin, hangModule, takeToken } from './tamper.ts';

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
export const SIGNATURE_HANGS = moduleFault('signature hangs', 'timed_out', { signDelayMs: 600_000 });
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
export function killSigner({ region }: PartitionOptions, { pid }: Pick<Daemon, 'pid'>): void {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean);
  for (const child of children.map(Number).filter((one) => argumentsOf(one).includes(region))) {
    process.kill(child, 'SIGKILL');
  }
}

/** Empty for a process that has just ended. */
function argumentsOf(pid: number): string[] {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
  } catch {
    return [];
  }
}
