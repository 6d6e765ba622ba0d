/**
 * The only file that reads the environment. Everything else comes from the configuration file or the command line.
 * Values are here because they are secret, because the service manager passes them this way, or because a shell
 * profile sets them.
 */

/** Folder in which systemd places the credentials of this unit (`LoadCredential=`); undefined outside of one. */
export function credentialsDirectory(): string | undefined {
  return process.env.CREDENTIALS_DIRECTORY || undefined;
}

/** The API key `pdfseal submit` uses when no `--key-file` is given. */
export function apiKeyFromEnvironment(): string | undefined {
  return process.env.PDFSEAL_API_KEY || undefined;
}

/** The config file `pdfseal` uses when no `--config` is given. */
export function configFileFromEnvironment(): string | undefined {
  return process.env.PDFSEAL_CONFIG || undefined;
}

/** Whether `pdfseal` shows the stack of an error. */
export function stackWanted(): boolean {
  return Boolean(process.env.PDFSEAL_STACK);
}

/** The user who called sudo(8), as sudo states; anybody can set this variable. */
export function sudoUser(): string | undefined {
  return process.env.SUDO_USER || undefined;
}

/** Folder that systemd makes for what this unit keeps (`StateDirectory=`); undefined outside of one. */
export function stateDirectory(): string | undefined {
  return process.env.STATE_DIRECTORY || undefined;
}

/** Folder with the sockets of this environment's signers that are units; undefined without such units. */
export function signersFolder(): string | undefined {
  return process.env.PDFSEALD_SIGNERS || undefined;
}

/** The socket on which the service manager expects notifications (sd_notify(3)). */
export function notifySocket(): string | undefined {
  return process.env.NOTIFY_SOCKET || undefined;
}

/** The Unix socket of the egress process, where it is a unit of its own; undefined where the daemon starts it. */
export function egressSocket(): string | undefined {
  return process.env.PDFSEALD_EGRESS_SOCKET || undefined;
}

/** How long this process may be silent before the service manager ends it, in milliseconds (sd_watchdog_enabled(3)). */
export function watchdogMs(): number | undefined {
  const { WATCHDOG_USEC, WATCHDOG_PID } = process.env;
  return isForUs(WATCHDOG_PID) && WATCHDOG_USEC ? Number(WATCHDOG_USEC) / 1000 : undefined;
}

/** Socket of the unit that searches documents for metadata; undefined if this process is to start that itself. */
export function stripperSocket(): string | undefined {
  return process.env.PDFSEALD_STRIPPER_SOCKET || undefined;
}

/** Socket of the unit that asks chronyd, for a daemon without a network; undefined if this process is to ask. */
export function clockSocket(): string | undefined {
  return process.env.PDFSEALD_CLOCK_SOCKET || undefined;
}

/** Device and inode of the stream that leads to the journal (systemd.exec(5)); undefined if there is none. */
export function journalStream(): string | undefined {
  return process.env.JOURNAL_STREAM || undefined;
}

const SD_LISTEN_FDS_START = 3;

/** Sockets that the service manager holds for this process (sd_listen_fds(3)): descriptors from 3 on, by name. */
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
