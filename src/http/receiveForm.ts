import type { IncomingMessage } from 'node:http';
import { ServiceError } from '../base/errors.ts';
import type { Owner } from '../copy/copies.ts';
import type { CreateRequest, FormFields } from '../job/fields.ts';
import { duplicateField, invalidField, quoteName } from '../job/fieldValues.ts';
import { FormParser, type PartSink } from '../multipart/form.ts';
import { boundaryOf, decodeUtf8, malformed, type Part } from '../multipart/headers.ts';
import { IncomingBody } from '../net/incomingBody.ts';
import { type DocumentOptions, DocumentPass, type ReceivedDocument, tooLarge } from '../seal/documentPass.ts';

export interface IntakeOptions extends DocumentOptions {
  /** How long a body may stand still, milliseconds. */
  bodyIdleTimeoutMs: number;
  /** What must arrive on the average of any such time, bytes per second. */
  bodyBytesPerSecondMin: number;
}

/**
 * Everything of a body that is not the document: boundaries, headers, text fields, preamble and epilogue. Twice what a
 * request buffers, since a chunk is counted before it is known what is in it.
 */
const OVERHEAD_BYTES_MAX = 128 * 1024;
const FIELD_BYTES_MAX = 8 * 1024;
const HOW_TO_SEND = 'Send the PDF as the part file with a filename, as curl -F file=@document.pdf does.';

/**
 * Receives a create whose body is the document, through its {@link DocumentPass} and no faster than that can take it. What the
 * create asks for is known before.
 *
 * Throws ServiceError at the first fault, in the middle of the body too; the request is then left as it is, paused. On a
 * throw nothing of the upload remains.
 */
export async function receiveDocument(
  req: IncomingMessage,
  request: CreateRequest,
  options: IntakeOptions,
  owner: Owner,
): Promise<ReceivedDocument> {
  if (announcedBytes(req) > options.documentBytesMax) throw tooLarge('body', options.documentBytesMax);
  const copies = request.preserveMetadata ? undefined : options.copies;
  const document = new DocumentPass({ ...options, copies }, 'body');
  const body = bodyOf(req, options);
  try {
    await body.read((chunk) => {
      const room = document.write(chunk);
      if (room !== undefined) body.hold(room);
    });
    document.end();
    return await document.finish(request, owner);
  } catch (error) {
    document.abort();
    throw error;
  }
}

/**
 * Receives a multipart create in one pass: the text fields go to `fields`, the rest is as in {@link receiveDocument}. Rejects with
 * the reason of the owner's signal when that is aborted.
 */
export async function receiveForm(
  req: IncomingMessage,
  fields: FormFields,
  options: IntakeOptions,
  owner: Owner,
): Promise<ReceivedDocument> {
  const boundary = boundaryOf(req.headers['content-type']);
  // Refuses before the first byte what its length already condemns.
  if (announcedBytes(req) > options.documentBytesMax + OVERHEAD_BYTES_MAX)
    throw tooLarge('file', options.documentBytesMax);
  const body = bodyOf(req, options);
  const upload = new Upload(fields, options, (room) => body.hold(room));
  const form = new FormParser(boundary, (part) => upload.open(part));
  try {
    await body.read((chunk) => {
      upload.count(chunk.length);
      form.write(chunk);
    }, owner.signal);
    form.end();
    return await upload.finish(owner);
  } catch (error) {
    upload.abort();
    throw error;
  }
}

/** What is known of an upload while it arrives. */
class Upload {
  readonly #fields: FormFields;
  readonly #options: IntakeOptions;
  readonly #hold: (room: Promise<void>) => void;
  #document: DocumentPass | undefined;
  #bodyBytes = 0;

  constructor(fields: FormFields, options: IntakeOptions, hold: (room: Promise<void>) => void) {
    this.#fields = fields;
    this.#options = options;
    this.#hold = hold;
  }

  /** Before a chunk is parsed: what came before must have been document, up to the overhead. */
  count(bytes: number): void {
    if (this.#bodyBytes - (this.#document?.bytes ?? 0) > OVERHEAD_BYTES_MAX) {
      throw malformed(`it has more than ${OVERHEAD_BYTES_MAX} bytes beside the document`);
    }
    this.#bodyBytes += bytes;
  }

  open({ name, isFile }: Part): PartSink {
    if (name !== 'file') {
      if (isFile) throw misplacedFile(name);
      return this.#openField(name);
    }
    if (!isFile) throw missingFile('The part file came as a text field.');
    if (this.#document !== undefined) throw duplicateField('file');
    // Fields may follow the file: then it is copied in vain.
    const copies = this.#fields.preserveMetadata === true ? undefined : this.#options.copies;
    this.#document = new DocumentPass({ ...this.#options, copies }, 'file');
    this.#requireOneSource();
    return this.#sinkOf(this.#document);
  }

  /** After the closing boundary. */
  async finish(owner: Owner): Promise<ReceivedDocument> {
    if (this.#document === undefined) throw this.#missingFile();
    return this.#document.finish(this.#fields.finish(), owner);
  }

  abort(): void {
    this.#document?.abort();
  }

  #sinkOf(document: DocumentPass): PartSink {
    return {
      write: (bytes) => {
        const room = document.write(bytes);
        if (room !== undefined) this.#hold(room);
      },
      end: () => document.end(),
    };
  }

  #openField(name: string): PartSink {
    this.#fields.expect(name);
    const chunks: Buffer[] = [];
    let bytes = 0;
    return {
      write: (chunk) => {
        bytes += chunk.length;
        if (bytes > FIELD_BYTES_MAX) throw invalidField(name, `must have at most ${FIELD_BYTES_MAX} bytes.`);
        chunks.push(chunk);
      },
      end: () => {
        const text = decodeUtf8(Buffer.concat(chunks));
        if (text === undefined) throw invalidField(name, 'must be UTF-8.');
        this.#fields.add(name, text);
        this.#requireOneSource();
      },
    };
  }

  #requireOneSource(): void {
    if (this.#document === undefined || this.#fields.sourceUrl === undefined) return;
    const message = 'A request carries either file or source_url, never both. Send one of them.';
    throw new ServiceError('file_and_source_url', message, { parameter: 'source_url' });
  }

  #missingFile(): ServiceError {
    if (this.#fields.sourceUrl === undefined) return missingFile('The part file is missing.');
    return missingFile(
      'The part file is missing; only an application/json request takes a source_url instead.',
    );
  }
}

function bodyOf(req: IncomingMessage, options: IntakeOptions): IncomingBody {
  const { bodyIdleTimeoutMs: idleTimeoutMs, bodyBytesPerSecondMin: bytesPerSecondMin } = options;
  return new IncomingBody(req, { idleTimeoutMs, bytesPerSecondMin });
}

function announcedBytes(req: IncomingMessage): number {
  return Number(req.headers['content-length'] ?? 0);
}

function misplacedFile(name: string): ServiceError {
  return new ServiceError('unknown_parameter', `The part ${quoteName(name)} carries a file. ${HOW_TO_SEND}`);
}

function missingFile(problem: string): ServiceError {
  return new ServiceError('missing_file', `${problem} ${HOW_TO_SEND}`, { parameter: 'file' });
}
