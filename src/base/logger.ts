import { existsSync } from 'node:fs';
import { type DestinationStream, type Logger, pino } from 'pino';
import { isJournal, JOURNAL_SOCKET, openDatagramAddon, toJournal } from './journal.ts';
import { type LogOutput, LogWriter, toDescriptor } from './logWriter.ts';

const STDOUT = 1;
const STDERR = 2;

/**
 * Structured logs: one JSON object per line, to stdout unless a destination is given; where stdout is the journal, one entry of it for
 * each. Values are JSON-escaped, so nothing a client sends can start a line of its own.
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

/** Tells why the process does not even begin: a line of plain words, or an entry of the journal where that is what listens. */
export function refuseStart(text: string): void {
  if (isJournal(STDERR) && isJournal(STDOUT)) createLogger('info').error({ event: 'start_refused' }, text);
  else process.stderr.write(`${text}\n`);
}

/** Without the add-on, or where its socket cannot be seen, the journal gets the lines as anybody would. */
function openOutput(): LogOutput {
  if (!isJournal(STDOUT) || !existsSync(JOURNAL_SOCKET)) return toDescriptor(STDOUT);
  try {
    return toJournal(openDatagramAddon());
  } catch {
    return toDescriptor(STDOUT);
  }
}

/** pino gives a child the level its parent has at that time; here a changed level holds for all. */
function follow(parent: Logger, child: Logger): void {
  // A child has the listeners of its parent, and so hears of its own changes here too.
  parent.on('level-change', (level, _value, _earlier, _earlierValue, changed) => {
    if (changed === parent) child.level = level;
  });
}

/** A net below the rule that none of these is ever handed to the logger. */
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

/** By hand because it is done for every line: pino's own redaction by path takes longer than all the rest of it. */
function withoutSecrets(fields: Fields, depth = 0): Fields {
  let safe = fields;
  for (const [name, value] of Object.entries(fields)) {
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
 * An error for the log, with the causes below it. Only these fields: parsers hang whole request bodies on their errors.
 */
export function describeError(error: unknown, depth = 0): ErrorDescription {
  if (!(error instanceof Error)) return { type: typeof error, message: String(error) };
  return {
    type: error.name,
    message: error.message,
    ...('code' in error && { code: String(error.code) }),
    ...(error.stack !== undefined && { stack: error.stack }),
    ...(error.cause !== undefined && depth < 5 && { cause: describeError(error.cause, depth + 1) }),
  };
}
