import { createInterface, type Interface } from 'node:readline';
import { ownProcess } from '../base/env.ts';
import { OperatorError } from '../base/errors.ts';

/** Parses an answer; throws OperatorError with the reason if it is not acceptable. */
export type ReadAnswer<T> = (text: string) => T | Promise<T>;

/** Asks a person at a terminal, or takes lines of standard input, in the order of the questions. */
export class Questions {
  readonly #lines: Interface;
  readonly #answers: AsyncIterator<string>;

  constructor(input: NodeJS.ReadableStream = ownProcess().stdin) {
    this.#lines = createInterface({ input });
    this.#answers = this.#lines[Symbol.asyncIterator]();
  }

  /** Asks until the answer is acceptable; an empty one means the default, if there is one. Throws OperatorError if no more answers come. */
  async ask<T>(question: string, read: ReadAnswer<T>, fallback?: string): Promise<T> {
    for (;;) {
      ownProcess().stderr.write(`${question}${fallback === undefined ? '' : ` [${fallback}]`}: `);
      const { value, done } = await this.#answers.next();
      if (done === true) throw new OperatorError(`no answer to "${question}"`);
      const text = (value as string).trim() || (fallback ?? '');
      const answer: { value?: T } = {};
      const reads = async () => {
        answer.value = await read(text);
      };
      if (await this.accepts(reads)) return answer.value as T;
    }
  }

  /** Whether answers are acceptable; prints the reason if `work` throws OperatorError. */
  async accepts(work: () => Promise<void>): Promise<boolean> {
    try {
      await work();
      return true;
    } catch (error) {
      if (!(error instanceof OperatorError)) throw error;
      ownProcess().stderr.write(`  ✗ ${error.message.replaceAll('\n', '\n    ')}\n`);
      return false;
    }
  }

  close(): void {
    this.#lines.close();
  }
}

/** Asks a person at a terminal before an act that cannot be undone. Throws OperatorError unless the answer is yes. */
export async function confirm(question: string): Promise<void> {
  const questions = new Questions();
  try {
    const answer = await questions.ask(`${question} Type yes to go on`, (text) => text);
    if (answer !== 'yes') throw new OperatorError('nothing was done');
  } finally {
    questions.close();
  }
}
