import { CommanderError } from 'commander';
import { stackWanted } from '../base/env.ts';
import { type ErrorCode, OperatorError, ServiceError } from '../base/errors.ts';
import { ERROR_CODES, ERROR_KINDS } from '../http/errorKinds.ts';
import { EXIT, type ExitStatus } from './exit.ts';
import { isJson, note, noteJson } from './terminal.ts';

/** What a failed command tells a script: one line of JSON, the last on standard error. */
export interface CommandFailure {
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
  daemon_starting:
    'Wait until its tokens are open; journalctl --namespace=+pdfseald -u pdfseald@<environment> says how far it is.',
  daemon_silent:
    'Look into its log: journalctl --namespace=+pdfseald -u pdfseald@<environment>. A restart may help.',
  server_untrusted:
    'Name the authority of the server’s certificate with --tls-ca, or have the certificate renewed.',
  server_unreachable: 'Check --url: its scheme, its name and its port.',
  permission_denied: 'Run it as root, as the user of the daemon, or as a member of its group.',
  no_such_file: 'Check the name of the file or folder.',
  failed: 'Do what the message says.',
  internal_error: 'Report it, with what PDFSEAL_STACK=1 in the environment makes it say.',
} as const satisfies Record<string, string>;

const CORRECT = 'Correct the command as the message says, and repeat it.';
const REPEAT = 'Repeat the command later: nothing is sealed twice.';

/** Codes of the API, where the status does not say what is to be done about a command. The API's own remedies speak of requests. */
const OF_API: Partial<Record<ErrorCode, string>> = {
  authentication_required: 'Name the API key: --key-file, or PDFSEAL_API_KEY in the environment.',
  invalid_api_key:
    'Check the key and its environment; `pdfseal keys list` shows whether it expired or was revoked.',
  insufficient_scope: 'Take a key with the scope that the message names: `pdfseal keys issue --scopes`.',
  source_not_allowed: 'List its origin in sources.allow of the configuration.',
  webhook_url_not_allowed:
    'List its origin, or its network if it is not a public one, in webhooks.allow of the configuration.',
  too_many_webhook_endpoints: 'Remove one with `pdfseal webhooks remove`.',
  webhook_endpoint_not_found: 'See `pdfseal webhooks list`.',
  job_not_found: 'Check the id and the environment: `pdfseal jobs list`.',
  partition_not_ready:
    'Only a partition that signs can be taken out; `pdfseal doctor` says what is wrong with it.',
  below_quorum: 'Mend the other partitions first, or say --below-quorum: sealing may stop meanwhile.',
  storage_full: 'Make room on the disk of the store; `pdfseal status` shows how much is free.',
};

/** Says why a command failed, as text or as {@link CommandFailure}; the status it ends with. */
export function report(error: unknown, failed: ExitStatus = EXIT.failed): ExitStatus {
  if (error instanceof CommanderError) return reportUsage(error);
  const failure = commandFailure(error);
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
    const failure: CommandFailure = { code: 'wrong_usage', message, remedy: FAILURES.wrong_usage };
    noteJson({ error: failure });
  }
  return EXIT.usage;
}

export function commandFailure(error: unknown): CommandFailure {
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

/** In terms of what the caller of a command uses. */
export function remedyOf(code: string): string {
  if (Object.hasOwn(FAILURES, code)) return FAILURES[code as keyof typeof FAILURES];
  const ofApi = ERROR_CODES.find((known) => known === code);
  if (ofApi === undefined) return FAILURES.failed;
  return OF_API[ofApi] ?? (ERROR_KINDS[ofApi].status >= TOO_MANY_REQUESTS ? REPEAT : CORRECT);
}

/** From here on the statuses say that the same request may succeed later. */
const TOO_MANY_REQUESTS = 429;
