import { type DestinationStream, type Logger, pino } from 'pino';

/**
 * Structured logs: one JSON object per line, to stdout unless a destination is given. Values are JSON-escaped, so nothing a
 * client sends can start a line of its own.
 */
export function createLogger(level: string, destination?: DestinationStream): Logger {
  const options = {
    level,
    base: null,
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label: string) => ({ level: label }) },
    serializers: { err: describeError },
    redact: { paths: SECRETS, censor: '[redacted]' },
  };
  return destination ? pino(options, destination) : pino(options);
}

/** A net below the rule that none of these is ever handed to the logger. */
const SECRETS = [
  'authorization',
  'apiKey',
  'api_key',
  'pin',
  'customerReference',
  'customer_reference',
].flatMap((name) => [name, `*.${name}`, `*.*.${name}`]);

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
