import { codeOf } from './systemReason.ts';

/** The exit status for a fault of the program itself (sysexits.h, EX_SOFTWARE): the service manager restarts it. */
export const EXIT_SOFTWARE = 70;

/** Resolves with the first signal that requests a stop. A second signal ends the process at once. */
export function stopSignal(): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => resolve(signal));
  });
}

/** Whether `parseArgs` refused the command line. */
export function isUsageError(error: unknown): boolean {
  return error instanceof TypeError && codeOf(error).startsWith('ERR_PARSE_ARGS_');
}

/** The stack of an error, if it has one. */
export function inspectError(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
