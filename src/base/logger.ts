import { existsSync } from 'node:fs';
import { type DestinationStream, type Logger, pino } from 'pino';
import { BrokenInvariant, DamagedRecord } from './assert.ts';
import { EXIT_SOFTWARE, inspectError, isUsageError } from './ending.ts';
import { OperatorError } from './errors.ts';
import { isJournal, JOURNAL_SOCKET, openDatagramAddon, toJournal } from './journal.ts';
import { type LogOutput, LogWriter, toDescriptor } from './logWriter.ts';

const STDOUT = 1;
const STDERR = 2;

/**
 * Structured logs: one JSON object per line, on stdout by default. If stdout is the journal, each line becomes a journal entry. Values are
 * JSON-escaped, so client input can never start a line of its own.
 */
export function createLogger(
  level: string,
  destination: DestinationStream = new LogWriter(openOutput()),
): Logger {
  const options = {
    level,
    base: null,
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: {
      level: (label: string) => ({ level: label }),
      bindings: withoutSecrets,
      log: withoutSecrets,
    },
    serializers: { err: describeError },
  };
  const logger: Logger = pino({ ...options, onChild: (child) => follow(logger, child) }, destination);
  return logger;
}

/**
 * Ends a program with the error from its start: status 1 if an administrator can remedy it, and 70 with the stack for a bug. The error is a
 * line of plain text, or a journal entry if stdout and stderr lead to the journal.
 */
export function endRefused(program: string, error: unknown): never {
  const isMendable = error instanceof OperatorError || error instanceof DamagedRecord || isUsageError(error);
  const hasRemedy = error instanceof OperatorError || error instanceof BrokenInvariant;
  const remedy = hasRemedy && error.remedy ? `\n  → ${error.remedy}` : '';
  const text = `${program}: ${isMendable ? (error as Error).message : inspectError(error)}${remedy}`;
  if (isJournal(STDERR) && isJournal(STDOUT)) createLogger('info').error({ event: 'start_refused' }, text);
  else process.stderr.write(`${text}\n`);
  process.exit(isMendable ? 1 : EXIT_SOFTWARE);
}

/** Without the add-on, or if the journal's socket is hidden, the journal gets plain lines. */
function openOutput(): LogOutput {
  if (!isJournal(STDOUT) || !existsSync(JOURNAL_SOCKET)) return toDescriptor(STDOUT);
  try {
    return toJournal(openDatagramAddon());
  } catch {
    return toDescriptor(STDOUT);
  }
}

/** pino gives a child the current level of its parent. Here a later change of the level applies to all children. */
function follow(parent: Logger, child: Logger): void {
  // A child inherits the listeners of its parent, so it also gets its own changes here.
  parent.on('level-change', (level, _value, _earlier, _earlierValue, changed) => {
    if (changed === parent) child.level = level;
  });
}

/** A safety net: code must never pass these to the logger. */
const SECRETS = new Set([
  'authorization',
  'apiKey',
  'api_key',
  'pin',
  'customerReference',
  'customer_reference',
]);
const SECRETS_DEPTH_MAX = 2;

type Fields = Record<string, unknown>;

/** Implemented by hand because every line needs it: pino's redaction by path takes longer than the rest of the logger. */
function withoutSecrets(fields: Fields, depth = 0): Fields {
  let safe = fields;
  for (const name of Object.keys(fields)) {
    const value = fields[name];
    const shown = SECRETS.has(name) ? '[redacted]' : safeValue(value, depth);
    if (shown === value) continue;
    if (safe === fields) safe = { ...fields };
    safe[name] = shown;
  }
  return safe;
}

function safeValue(value: unknown, depth: number): unknown {
  const isPlain =
    typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype;
  return isPlain && depth < SECRETS_DEPTH_MAX ? withoutSecrets(value as Fields, depth + 1) : value;
}

interface ErrorDescription {
  type: string;
  message: string;
  code?: string;
  stack?: string;
  cause?: ErrorDescription;
}

/**
 * An error and its causes for the log. Only these fields: parsers attach whole request bodies to their errors.
 */
export function describeError(error: unknown, depth = 0): ErrorDescription {
  if (!(error instanceof Error)) return { type: typeof error, message: String(error) };
  return {
    type: error.name,
    message: error.message,
    ...('code' in error && { code: String(error.code) }),
    stack: error.stack,
    ...(error.cause !== undefined && depth < 5 && { cause: describeError(error.cause, depth + 1) }),
  };
}
