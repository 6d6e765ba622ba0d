/**
 * The only file that reads the environment: everything else is told by the config file or the command line. What is
 * here is here because it must not stand in either (secrets), or because the service manager says it this way.
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

/** Whether `pdfseal` is to show where in its own code it failed. */
export function stackWanted(): boolean {
  return Boolean(process.env.PDFSEAL_STACK);
}

/** Who called sudo(8), as it says; anybody can say so. */
export function sudoUser(): string | undefined {
  return process.env.SUDO_USER || undefined;
}

/** Where the service manager wants to be told of readiness (sd_notify(3)). */
export function notifySocket(): string | undefined {
  return process.env.NOTIFY_SOCKET || undefined;
}

/** How long this process may be silent before the service manager ends it, in milliseconds (sd_watchdog_enabled(3)). */
export function watchdogMs(): number | undefined {
  const { WATCHDOG_USEC, WATCHDOG_PID } = process.env;
  return isForUs(WATCHDOG_PID) && WATCHDOG_USEC ? Number(WATCHDOG_USEC) / 1000 : undefined;
}

/** Device and inode of the stream that leads to the journal (systemd.exec(5)); undefined where nothing does. */
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

/** The environment is handed on to children; what it says is for one process. */
function isForUs(pid: string | undefined): boolean {
  return pid === String(process.pid);
}
