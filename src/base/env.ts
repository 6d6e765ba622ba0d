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
