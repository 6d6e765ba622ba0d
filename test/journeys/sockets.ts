import { readdirSync, readFileSync, readlinkSync } from 'node:fs';

/** State of a socket that listens, as /proc/net/tcp has it (TCP_LISTEN). */
const LISTENS = '0A';

/** Local addresses that a process listens at, in the hexadecimal of proc(5). Throws when it has ended. */
export function listenersOf(pid: number): string[] {
  const own = new Set(readdirSync(`/proc/${pid}/fd`).map((fd) => inodeOf(pid, fd)));
  return ['tcp', 'tcp6']
    .flatMap((table) => readFileSync(`/proc/${pid}/net/${table}`, 'utf8').trim().split('\n').slice(1))
    .map((line) => line.trim().split(/\s+/))
    .filter(([, , , state, , , , , , inode]) => state === LISTENS && own.has(inode))
    .map(([, address = '']) => address);
}

function inodeOf(pid: number, fd: string): string | undefined {
  try {
    return /^socket:\[(\d+)\]$/.exec(readlinkSync(`/proc/${pid}/fd/${fd}`))?.[1];
  } catch {
    // It was closed meanwhile.
    return undefined;
  }
}

/** Process ids of the children of a process. */
export function childrenOf(pid: number): number[] {
  const text = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim();
  return text === '' ? [] : text.split(' ').map(Number);
}
