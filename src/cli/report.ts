import { Console } from 'node:console';
import { CommanderError } from 'commander';
import { BrokenInvariant, DamagedRecord } from '../base/assert.ts';
import { fromEnvironment, ownProcess } from '../base/env.ts';
import { type ErrorCode, OperatorError, ServiceError } from '../base/errors.ts';
import { diskRemedy, systemReason } from '../base/systemReason.ts';
import { UnknownOutcome } from '../store/store.ts';
import { asAnswer } from '../store/storeAnswers.ts';
import { EXIT, type ExitStatus } from './exit.ts';
import { isJson, note, noteJson } from './terminal.ts';

/** The output of a failed command for scripts: one JSON object, the last line on standard error. */
export interface CommandFailure {
  /** Stable: one of {@link FAILURES}, of the API's codes, or of an HSM. */
  code: string;
  message: string;
  /** The action to take. */
  remedy: string;
}

/** Codes that the API does not have, each with a general remedy; the message is often more exact. */
export const FAILURES = {
  wrong_usage: 'See the --help of the command.',
  invalid_config: 'Correct the file; pdfseald.toml(5) explains every key.',
  not_found: 'Check the name; the matching list command shows all of them.',
  no_daemon:
    'Start the daemon (systemctl start pdfseald@<environment>), or name its config file with --config.',
  daemon_starting:
    'Wait until the daemon has opened its tokens; journalctl --namespace=+pdfseald -u pdfseald@<environment> shows its progress.',
  daemon_silent:
    'Read the log of the daemon: journalctl --namespace=+pdfseald -u pdfseald@<environment>. A restart may help.',
  older_daemon: 'Restart the daemon, so that it runs the version that is installed.',
  server_untrusted:
    'Name the authority of the server’s certificate with --tls-ca, or have the certificate renewed.',
  server_unreachable: 'Check the scheme, the name and the port in --url.',
  permission_denied: 'Run the command as root, as the user of the daemon, or as a member of its group.',
  no_such_file: 'Check the name of the file or folder.',
  failed: 'Do what the message says.',
  internal_error:
    'Report this bug. Set PDFSEAL_STACK=1 in the environment, run the command again, and send the output.',
} as const satisfies Record<string, string>;

const UNKNOWN =
  'Repair the disk or the database, or free space on it. Then check whether the command has taken effect, and run it again if it has not.';

const REPEAT = 'Repeat the command later; no document is sealed twice.';

/** Remedies for codes of the API, in the terms of a command: the API's own remedies refer to requests. */
const OF_API: Partial<Record<ErrorCode, string>> = {
  authentication_required: 'Name the API key: --key-file, or PDFSEAL_API_KEY in the environment.',
  invalid_api_key:
    'Check the key and its environment; `pdfseal keys list` shows whether it has expired or was revoked.',
  insufficient_scope: 'Use an API key with the scope that the message names (`pdfseal keys issue --scopes`).',
  source_not_allowed: 'Add the origin of the URL to sources.allow in the config file.',
  webhook_url_not_allowed:
    'Add the origin of the URL, or its network if that is not public, to webhooks.allow in the config file. Allow an address that is not of this machine in IPAddressAllow= of pdfseal-egress@ too. Then restart the daemon.',
  too_many_webhook_endpoints: 'Remove an endpoint with `pdfseal webhooks remove`.',
  webhook_endpoint_not_found: 'Check the id; `pdfseal webhooks list` shows all endpoints.',
  job_not_found: 'Check the id and the environment; `pdfseal jobs list` shows the jobs.',
  partition_not_ready:
    'Only a partition that signs can be taken out of service; `pdfseal doctor` reports what is wrong with this one.',
  below_quorum:
    'Repair the other partitions first, or add --below-quorum; sealing may then stop for that time.',
  storage_full: 'Free space on the disk of the store; `pdfseal status` shows how much is free.',
};

/** Reports why a command failed, as text or as {@link CommandFailure}. Returns its exit status. */
export function report(error: unknown, failed: ExitStatus = EXIT.failed): ExitStatus {
  if (error instanceof CommanderError) return reportUsage(error);
  const failure = commandFailure(error);
  // LMDB itself has begun a line about a failed write, and does not end it.
  if (error instanceof UnknownOutcome) note('');
  if (isJson()) noteJson({ error: failure });
  else {
    for (const line of failure.message.split('\n')) note(`pdfseal: ${line}`);
    const mendable = error instanceof OperatorError || error instanceof DamagedRecord ? error : failure;
    if (mendable.remedy !== undefined) note(`  → ${mendable.remedy}`);
  }
  if (failure.code !== 'internal_error') return failed;
  if (fromEnvironment('PDFSEAL_STACK')) new Console(ownProcess().stderr).error(error);
  return EXIT.software;
}

/** Does work that ends as undecided, or as `failed` says, if an administrator can correct the fault that prevented it. */
export async function orUndecided(
  work: () => Promise<void>,
  failed: ExitStatus = EXIT.unknown,
): Promise<void> {
  try {
    await work();
  } catch (error) {
    if (!(error instanceof OperatorError)) throw error;
    ownProcess().exitCode = report(error, failed);
  }
}

/** Commander has written its own words to standard error already, unless JSON is wanted. */
function reportUsage(error: CommanderError): ExitStatus {
  if (error.exitCode === 0) return EXIT.ok;
  if (isJson()) {
    const message = error.message.replace(/^error: /, '').replaceAll('\n', ' ');
    const failure: CommandFailure = { code: 'wrong_usage', message, remedy: FAILURES.wrong_usage };
    noteJson({ error: failure });
  }
  return EXIT.usage;
}

export function commandFailure(thrown: unknown): CommandFailure {
  const error = asAnswer(thrown);
  if (error instanceof OperatorError) {
    const code = codeOf(error);
    return { code, message: error.message, remedy: error.remedy ?? remedyOf(code) };
  }
  if (error instanceof ServiceError)
    return { code: error.code, message: error.message, remedy: remedyOf(error.code) };
  if (error instanceof DamagedRecord) return { code: 'failed', message: error.message, remedy: error.remedy };
  const message = error instanceof Error ? error.message : String(error);
  if (error instanceof UnknownOutcome) {
    const reason = systemReason(error.cause);
    return { code: 'internal_error', message: `${message} (${reason})`, remedy: UNKNOWN };
  }
  const remedyOfDisk = diskRemedy(error);
  if (remedyOfDisk !== undefined) return { code: 'failed', message, remedy: remedyOfDisk };
  const broken = message.startsWith('MDB_') ? new BrokenInvariant(message) : error;
  const remedy = broken instanceof BrokenInvariant ? broken.remedy : FAILURES.internal_error;
  return { code: 'internal_error', message: `internal error: ${message}`, remedy };
}

const SYSTEM_CODES: Readonly<Record<string, keyof typeof FAILURES>> = {
  EACCES: 'permission_denied',
  EPERM: 'permission_denied',
  ENOENT: 'no_such_file',
};

/** The code of the error, or of its cause: our own code for a system's error, an HSM's code unchanged. */
function codeOf({ code, cause }: OperatorError): string {
  if (code !== undefined) return code;
  const behind = cause instanceof Error && 'code' in cause ? String(cause.code) : '';
  return SYSTEM_CODES[behind] ?? (/^[a-z][a-z_]+$/.test(behind) ? behind : 'failed');
}

/** Codes of the API that the same command may not meet later. */
const PASSING: readonly string[] = [
  'kms_partition_unavailable',
  'queue_full',
  'quota_exceeded',
  'rate_limit_exceeded',
  'scanner_unavailable',
  'shutting_down',
  'timestamp_unavailable',
  'too_many_requests',
  'too_many_uploads',
  'witness_unavailable',
] satisfies ErrorCode[];

/** The remedy for a code, for the user of a command. */
export function remedyOf(code: string): string {
  const remedies: Readonly<Record<string, string>> = { ...OF_API, ...FAILURES };
  return remedies[code] ?? (PASSING.includes(code) ? REPEAT : FAILURES.failed);
}
