import { CommanderError } from 'commander';
import { stackWanted } from '../base/env.ts';
import { OperatorError, ServiceError } from '../base/errors.ts';
import { ERROR_CODES, ERROR_KINDS } from '../http/errors.ts';
import { EXIT, type ExitStatus } from './exit.ts';
import { isJson, note, noteJson } from './terminal.ts';

/** What a failed command tells a script: one line of JSON, the last on standard error. */
export interface Failure {
  /** Stable: of {@link FAILURES}, of the API, or what an HSM said. */
  code: string;
  message: string;
  /** What to do. */
  remedy: string;
}

/** Codes that are not of the API, with what can be done in general; a message often says it more exactly. */
export const FAILURES = {
  wrong_usage: 'See the --help of the command.',
  invalid_config: 'Correct the file; pdfseald.toml(5) explains every key.',
  not_found: 'Check the name; the list command of its kind shows what there is.',
  no_daemon: 'Start it (systemctl start pdfseald@<environment>), or name its configuration with --config.',
  daemon_starting: 'Wait until its tokens are open; journalctl -u pdfseald@<environment> says how far it is.',
  daemon_silent: 'Look into its log: journalctl -u pdfseald@<environment>. A restart may help.',
  permission_denied: 'Run it as root, as the user of the daemon, or as a member of its group.',
  no_such_file: 'Check the name of the file or folder.',
  failed: 'Do what the message says.',
  internal_error: 'Report it, with what PDFSEAL_STACK=1 in the environment makes it say.',
} as const satisfies Record<string, string>;

/** Says why a command failed, as text or as {@link Failure}; the status it ends with. */
export function report(error: unknown, failed: ExitStatus = EXIT.failed): ExitStatus {
  if (error instanceof CommanderError) return reportUsage(error);
  const failure = failureOf(error);
  if (isJson()) noteJson({ error: failure });
  else {
    for (const line of failure.message.split('\n')) note(`pdfseal: ${line}`);
    if (error instanceof OperatorError && error.remedy !== undefined) note(`  → ${error.remedy}`);
    if (failure.code === 'internal_error') note(`  → ${failure.remedy}`);
  }
  if (failure.code !== 'internal_error') return failed;
  if (stackWanted()) console.error(error);
  return EXIT.software;
}

/** In commander's own words, which are on standard error already unless JSON is wanted. */
function reportUsage(error: CommanderError): ExitStatus {
  if (error.exitCode === 0) return EXIT.ok;
  if (isJson()) {
    const message = error.message.replace(/^error: /, '').replaceAll('\n', ' ');
    const failure: Failure = { code: 'wrong_usage', message, remedy: FAILURES.wrong_usage };
    noteJson({ error: failure });
  }
  return EXIT.usage;
}

export function failureOf(error: unknown): Failure {
  if (error instanceof OperatorError) {
    const code = codeOf(error);
    return { code, message: error.message, remedy: error.remedy ?? remedyOf(code) };
  }
  if (error instanceof ServiceError)
    return { code: error.code, message: error.message, remedy: remedyOf(error.code) };
  const message = error instanceof Error ? error.message : String(error);
  return { code: 'internal_error', message: `internal error: ${message}`, remedy: FAILURES.internal_error };
}

const SYSTEM_CODES: Readonly<Record<string, keyof typeof FAILURES>> = {
  EACCES: 'permission_denied',
  EPERM: 'permission_denied',
  ENOENT: 'no_such_file',
};

/** Its own, or that of what is behind it: the system's in our words, the HSM's in its own. */
function codeOf({ code, cause }: OperatorError): string {
  if (code !== undefined) return code;
  const behind = cause instanceof Error && 'code' in cause ? String(cause.code) : '';
  return SYSTEM_CODES[behind] ?? (/^[a-z][a-z_]+$/.test(behind) ? behind : 'failed');
}

function remedyOf(code: string): string {
  const ofService = ERROR_CODES.find((known) => known === code);
  if (ofService !== undefined) return ERROR_KINDS[ofService].remedy;
  return Object.hasOwn(FAILURES, code) ? FAILURES[code as keyof typeof FAILURES] : FAILURES.failed;
}
