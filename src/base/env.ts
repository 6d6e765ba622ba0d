/**
 * The only file that reads the environment. All other settings come from the configuration file or the command line. A value is read here
 * because it is secret, because the service manager passes it this way, or because a shell profile sets it.
 */
import { AsyncLocalStorage } from 'node:async_hooks';

export type Variable =
  /** Folder in which systemd places the credentials of this unit (`LoadCredential=`). */
  | 'CREDENTIALS_DIRECTORY'
  /** The API key that `pdfseal submit` uses without `--key-file`. */
  | 'PDFSEAL_API_KEY'
  /** The config file that `pdfseal` uses without `--config`. */
  | 'PDFSEAL_CONFIG'
  /** The URL that `pdfseal submit` uses without `--url`. */
  | 'PDFSEAL_URL'
  /** Whether `pdfseal` shows the stack of an error. */
  | 'PDFSEAL_STACK'
  /** The user who called sudo(8), according to sudo; any user can set this variable. */
  | 'SUDO_USER'
  /** Folder that systemd creates for the state of this unit (`StateDirectory=`). */
  | 'STATE_DIRECTORY'
  /** Folder with the sockets of those signers of this environment that are units. */
  | 'PDFSEALD_SIGNERS'
  /** For commands: the parent folder of those in which these signers remember refused PINs. */
  | 'PDFSEALD_REFUSED_PINS'
  /** The socket on which the service manager expects notifications (sd_notify(3)). */
  | 'NOTIFY_SOCKET'
  /** The Unix socket of the egress process, if it is a separate unit. */
  | 'PDFSEALD_EGRESS_SOCKET'
  /** Socket of the unit that searches documents for metadata, unless this process starts it itself. */
  | 'PDFSEALD_STRIPPER_SOCKET'
  /** Socket of the unit that queries chronyd, for a daemon without network access. */
  | 'PDFSEALD_CLOCK_SOCKET'
  /** Device and inode of the stream that leads to the journal (systemd.exec(5)). */
  | 'JOURNAL_STREAM';

/** A command's view of its process. */
export interface OwnProcess {
  readonly argv: readonly string[];
  readonly env: NodeJS.ProcessEnv;
  readonly stdin: NodeJS.ReadableStream & { isTTY?: boolean };
  readonly stdout: Output;
  readonly stderr: Output;
  exitCode?: number | string | null | undefined;
}

type Output = NodeJS.WritableStream & { isTTY?: boolean; columns?: number; rows?: number };

const owners = new AsyncLocalStorage<OwnProcess>();

/** Runs `work` as if `process` were its own, so that one process can run many commands, even concurrently. */
export function asProcess<T>(process: OwnProcess, work: () => T): T {
  return owners.run(process, work);
}

/** The process of the command that calls this. */
export function ownProcess(): OwnProcess {
  return owners.getStore() ?? process;
}

/** Undefined if it is not set, or empty. */
export function fromEnvironment(name: Variable): string | undefined {
  return ownProcess().env[name] || undefined;
}

/** How long this process may stay silent before the service manager ends it, in milliseconds (sd_watchdog_enabled(3)). */
export function watchdogMs(): number | undefined {
  const { WATCHDOG_USEC, WATCHDOG_PID } = process.env;
  return isForUs(WATCHDOG_PID) && WATCHDOG_USEC ? Number(WATCHDOG_USEC) / 1000 : undefined;
}

const SD_LISTEN_FDS_START = 3;

/** Sockets that the service manager opened for this process (sd_listen_fds(3)): descriptors from 3 on, by name. */
export function inheritedSockets(): { fd: number; name: string }[] {
  const { LISTEN_PID, LISTEN_FDS, LISTEN_FDNAMES } = process.env;
  if (!isForUs(LISTEN_PID)) return [];
  const names = LISTEN_FDNAMES?.split(':') ?? [];
  return Array.from({ length: Number(LISTEN_FDS) }, (_, index) => ({
    fd: SD_LISTEN_FDS_START + index,
    name: names[index] ?? '',
  }));
}

/** Child processes inherit the environment, but these variables are meant for one process. */
function isForUs(pid: string | undefined): boolean {
  return pid === String(process.pid);
}
