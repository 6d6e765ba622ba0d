import type { ClientRequest, IncomingMessage } from 'node:http';
import { BoundedBytes } from '../base/bounded.ts';
import { NoAnswer } from './noAnswer.ts';

/** Largest number of informational answers (1xx) before the final one. */
const INTERIM_MAX = 10;

/**
 * Resolves with the head of the answer. Rejects if the request ends in any other way: Node.js only closes a connection that is answered
 * with 101, and only closes a request whose connection ends without an answer. Later failures show when the body is read.
 */
export function answerTo(request: ClientRequest): Promise<IncomingMessage> {
  let interim = 0;
  return new Promise((resolve, reject) => {
    request.on('information', () => {
      interim += 1;
      if (interim > INTERIM_MAX) request.destroy(new NoAnswer('invalid_answer', 'too many interim answers'));
    });
    request.on('upgrade', (_, socket) => {
      socket.destroy();
      reject(switching());
    });
    request.on('response', (answer) => {
      answer.on('error', () => {});
      // Without an Upgrade header, Node.js treats status 101 as an answer.
      if (answer.statusCode === 101) request.destroy(switching());
      else resolve(answer);
    });
    request.on('error', reject);
    request.on('close', () =>
      reject(new NoAnswer('connection_reset', 'the connection ended without an answer')),
    );
  });
}

function switching(): NoAnswer {
  return new NoAnswer('invalid_answer', 'answered with status 101, though no other protocol was asked for');
}

/** Reads the body of an answer, which must be complete and no longer than `bytesMax`. Throws Error and closes the connection. */
export async function readBody(answer: IncomingMessage, bytesMax: number): Promise<Buffer> {
  const body = new BoundedBytes(bytesMax);
  for await (const chunk of answer as AsyncIterable<Buffer>)
    if (!body.add(chunk)) throw new NoAnswer('invalid_answer', `an answer of more than ${bytesMax} bytes`);
  return body.bytes;
}

/** Discards the body of an answer to keep its connection. A body that is too long or too slow closes the connection. */
export async function discardBody(
  answer: IncomingMessage,
  bytesMax: number,
  timeoutMs: number,
): Promise<void> {
  using _timer = setTimeout(() => answer.destroy(), timeoutMs);
  let bytes = 0;
  answer.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes > bytesMax) answer.destroy();
  });
  if (!answer.closed) await new Promise((resolve) => answer.on('close', resolve));
}
