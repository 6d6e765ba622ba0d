import { request } from 'node:http';
import { fromEnvironment } from '../../base/env.ts';
import { OperatorError } from '../../base/errors.ts';
import { systemReason } from '../../base/systemReason.ts';
import { formatAddress, type SocketPath } from '../../web/address.ts';
import { answerTo, readBody } from '../../web/response.ts';

/** No process listens there: no daemon runs with this configuration. */
export class NobodyAnswers extends OperatorError {
  override readonly name = 'NobodyAnswers';
}

const WHO_MAY =
  'run this as root or as the user of the daemon, or set PDFSEAL_API_KEY to an API key with the scope admin';
const REMEDIES: Record<string, string> = {
  authentication_required: WHO_MAY,
  invalid_api_key: WHO_MAY,
  insufficient_scope: WHO_MAY,
};

/** The daemon refused, with its own code and message. */
export class AdminRefusal extends OperatorError {
  override readonly name = 'AdminRefusal';
  declare readonly code: string;
  /** The message of the daemon. */
  readonly told: string;

  constructor(code: string, told: string) {
    super(`${code}: ${told}`, { code, remedy: REMEDIES[code] });
    this.told = told;
  }
}

interface Content {
  body?: string;
  headers?: Record<string, string>;
}

/** A status is answered at once; a canary may take longer. */
const SILENCE_MS_MAX = { GET: 5_000, POST: 60_000 };
const ANSWER_BYTES_MAX = 4 << 20;

/**
 * Sends a request to the administration of a running daemon. Throws NobodyAnswers, AdminRefusal, or another OperatorError if the socket may
 * not be opened.
 */
export async function askAdministration<Answer>(
  address: SocketPath,
  method: 'GET' | 'POST',
  path: string,
  content: Content = {},
): Promise<Answer> {
  const { status, text } = await send(address, method, path, content);
  const answer: unknown = parse(text, address);
  if (status === 200) return answer as Answer;
  const { error } = answer as { error?: { code: string; message: string } };
  throw new AdminRefusal(error?.code ?? `status ${status}`, error?.message ?? text.slice(0, 200));
}

async function send(
  address: SocketPath,
  method: 'GET' | 'POST',
  path: string,
  { body = '', headers: own = {} }: Content,
): Promise<{ status: number; text: string }> {
  const apiKey = fromEnvironment('PDFSEAL_API_KEY');
  const headers = { ...own, ...(apiKey !== undefined && { Authorization: `Bearer ${apiKey}` }) };
  const asked = request({ socketPath: address.path, method, path, headers, agent: false });
  const silenceMsMax = SILENCE_MS_MAX[method];
  const late = () => asked.destroy(new Error(`no answer within ${silenceMsMax / 1000} s`));
  const timer = setTimeout(late, silenceMsMax);
  asked.end(body);
  try {
    const answer = await answerTo(asked);
    return { status: answer.statusCode ?? 0, text: (await readBody(answer, ANSWER_BYTES_MAX)).toString() };
  } catch (cause) {
    throw unreachable(address, cause as Error);
  } finally {
    clearTimeout(timer);
    asked.destroy();
  }
}

function unreachable(address: SocketPath, cause: NodeJS.ErrnoException): OperatorError {
  const where = formatAddress(address);
  // EINVAL: no daemon can listen at a path that is too long for a socket.
  if (['ENOENT', 'ECONNREFUSED', 'EINVAL'].includes(cause.code ?? '')) {
    return new NobodyAnswers(`no pdfseald answers at ${where}`, {
      cause,
      code: 'no_daemon',
      remedy: 'start the daemon, or name its config file with --config',
    });
  }
  if (cause.code === 'EACCES') {
    const remedy = 'run this as root, as the daemon’s user, or as a member of the socket’s group';
    const message = `cannot open ${where} (${systemReason(cause)})`;
    return new OperatorError(message, { cause, code: 'permission_denied', remedy });
  }
  const remedy = 'read the log of the daemon; a restart may help';
  const message = `pdfseald does not answer at ${where}: ${systemReason(cause)}`;
  return new OperatorError(message, { cause, code: 'daemon_silent', remedy });
}

function parse(text: string, address: SocketPath): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new OperatorError(`${formatAddress(address)} does not answer like the administration of pdfseald`, {
      cause,
    });
  }
}
