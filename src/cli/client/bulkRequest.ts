import type { DocumentDigests } from '../../job/job.ts';
import { encodeReceipt, type Receipt } from '../../manifest/receipt.ts';
import { RECEIPT_LENGTH_MAX } from '../../prove/verify/receiptText.ts';
import type { ApiRequest } from './apiClient.ts';
import {
  Attempts,
  type AttemptsOptions,
  assertReceiptFor,
  bodyOf,
  digestFields,
  idempotencyKeyOf,
  mayPass,
  parseObject,
  Refused,
  type SealFields,
  type Submitted,
} from './sealRequests.ts';

export interface BulkRequestOptions extends AttemptsOptions {
  fields: SealFields;
}

interface LineAnswer {
  line: number;
  status: number;
  job?: { id?: unknown };
  replayed?: true;
  receipt?: object;
  error?: { code: string; message: string };
  retry_after?: number;
}

/** Enough for a receipt and its job. */
const LINE_LENGTH_MAX = 2 * RECEIPT_LENGTH_MAX;

/**
 * Seals documents by their digests, all in one request. Repeats the request with the documents that are still open. `onEnd` is called for
 * each document as soon as its receipt arrives or it is refused.
 */
export async function submitInBulk<Item extends { document: DocumentDigests }>(
  items: readonly Item[],
  options: BulkRequestOptions,
  onEnd: (item: Item, end: Submitted | Refused) => void,
): Promise<void> {
  const open = new Set(items);
  const end = (item: Item, how: Submitted | Refused) => {
    open.delete(item);
    onEnd(item, how);
  };
  const attempts = new Attempts(options);
  try {
    while (open.size > 0) {
      const round = new Round(options, open, end);
      await attempts.send(round.request());
      if (open.size > 0) await attempts.pause(round.pauseSeconds, round.why);
    }
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    for (const item of open) end(item, error);
  }
}

/** One request with all open documents. */
class Round<Item extends { document: DocumentDigests }> {
  readonly #options: BulkRequestOptions;
  readonly #open: ReadonlySet<Item>;
  readonly #end: (item: Item, how: Submitted | Refused) => void;
  /** The reason why documents are still open; `pauseSeconds` says when to repeat the request. */
  why = 'the answer has too few lines';
  pauseSeconds = 1;

  constructor(
    options: BulkRequestOptions,
    open: ReadonlySet<Item>,
    end: (item: Item, how: Submitted | Refused) => void,
  ) {
    this.#options = options;
    this.#open = open;
    this.#end = end;
  }

  /** After a failed connection, a repeat has only the documents that are still open. */
  request(): ApiRequest {
    let sent: Item[] = [];
    const body = () => {
      sent = [...this.#open];
      return bodyOf('application/x-ndjson', sent.map((item) => this.#line(item)).join(''));
    };
    return {
      method: 'POST',
      path: '/batches/seal',
      get body() {
        return body();
      },
      save: async (answer) => {
        for await (const line of linesOf(answer)) this.#take(parseObject(line) as LineAnswer, sent);
      },
    };
  }

  #line({ document }: Item): string {
    const { fields } = this.#options;
    const create = { ...digestFields(document), ...fields };
    const idempotency_key = idempotencyKeyOf(document, fields);
    return `${JSON.stringify({ ...create, mode: 'blocking', receipt: true, idempotency_key })}\n`;
  }

  #take(answer: LineAnswer, sent: Item[]): void {
    const item = sent[answer.line - 1];
    if (item === undefined)
      throw new Refused('unexpected_answer', 'the server answered for a line that was not sent');
    if (!this.#open.has(item)) return;
    const { status, error, job, receipt, replayed = false, retry_after: retryAfter } = answer;
    if (error !== undefined && !mayPass({ status }, error.code)) {
      this.#end(item, new Refused(error.code, error.message));
      return;
    }
    const jobId = String(job?.id);
    if (receipt === undefined) {
      this.why = error === undefined ? `${jobId} is not sealed yet` : `${error.code}: ${error.message}`;
      this.pauseSeconds = Math.max(this.pauseSeconds, retryAfter ?? 0);
      return;
    }
    // Exactly as the API serves a receipt: the same members in the same order.
    const text = encodeReceipt(receipt as Receipt);
    assertReceiptFor(item.document, jobId, text);
    this.#end(item, { jobId, replayed, receipt: text });
  }
}

async function* linesOf(body: AsyncIterable<Buffer>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = '';
  for await (const chunk of body) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split('\n');
    rest = lines.pop() ?? '';
    if (rest.length > LINE_LENGTH_MAX) throw new Error('a line of the answer is too long');
    yield* lines;
  }
}
