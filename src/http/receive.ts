import type { IncomingMessage } from 'node:http';
import { BoundedBytes } from '../base/bounded.ts';
import { ServiceError } from '../base/errors.ts';
import type { Slots } from '../base/slots.ts';
import type { Owner } from '../copy/copies.ts';
import {
  type CreateRequest,
  type DigestCreateRequest,
  FormFields,
  parseDigestCreate,
  parseJsonCreate,
  parseQueryCreate,
} from '../job/fields.ts';
import { duplicateField, invalidField, quoteName } from '../job/fieldValues.ts';
import type { Content } from '../job/job.ts';
import {
  type DocumentField,
  type DocumentOptions,
  DocumentPass,
  discardOnFailure,
  type ReceivedDocument,
  tooLarge,
} from '../seal/documentPass.ts';
import { IncomingBody } from '../web/incomingBody.ts';
import { readJson } from './json.ts';
import { unknownParameter } from './listQuery.ts';
import { FormParser, type PartSink } from './multipart/form.ts';
import { boundaryOf, decodeUtf8, malformed, type Part } from './multipart/headers.ts';
import { askForBody, requireMediaType } from './requestBody.ts';
import { callerOf, type RequestContext } from './requestContext.ts';

export interface IntakeOptions extends DocumentOptions {
  /** Maximum time without a byte of the body, in milliseconds. */
  bodyIdleTimeoutMs: number;
  /** The minimum rate of the body, averaged over any such time, in bytes per second. */
  bodyBytesPerSecondMin: number;
}

export interface ReceiveOptions {
  /** Limits concurrent uploads. */
  slots: Slots;
  intake: IntakeOptions;
}

/** The request of a create, with its document, the digests of the document, or its URL. */
export type ReceivedCreate = { request: CreateRequest; documentSha256: string } & (
  | { source: 'upload'; upload: ReceivedDocument }
  | { source: 'url'; sourceUrl: string }
  | { source: 'digest'; content: Content }
);

/**
 * Reads a create to its end. Throws ServiceError. Calls `onPurpose` if the purpose arrives before the end; `onPurpose` may throw to
 * refuse it.
 */
export type Receive = (
  ctx: RequestContext,
  options: ReceiveOptions,
  onPurpose?: (purpose: string) => void,
) => Promise<ReceivedCreate>;

const MEDIA_TYPES = ['multipart/form-data', 'application/pdf', 'application/json'] as const;
const HOW_TO_SEND =
  'Content-Type must be multipart/form-data, application/pdf with the fields in the query, or application/json with a source_url.';
const HOW_TO_SEND_A_FILE =
  'Send the PDF as the part file with a filename, as curl -F file=@document.pdf does.';

/**
 * The maximum size of everything in a body except the document: boundaries, headers, text fields, preamble and epilogue. The value is
 * twice the size that a request buffers, because a chunk is counted before its content is known.
 */
const OVERHEAD_BYTES_MAX = 128 * 1024;
const FIELD_BYTES_MAX = 8 * 1024;

/** Returns the reader of a create with a document or with its URL. Throws ServiceError if the head of the request is already invalid. */
export function receiverOfDocument(ctx: RequestContext): Receive {
  const mediaType = requireMediaType(ctx, MEDIA_TYPES, HOW_TO_SEND);
  if (mediaType === 'application/pdf') return receiverOfPdf(parseQueryCreate(ctx.querystring));
  refuseQuery(ctx);
  if (mediaType === 'application/json') return receiveReference;
  return (ctx, options, onPurpose) => {
    const fields = new FormFields(onPurpose);
    const receive = (owner: Owner) =>
      receiveForm(ctx.req, fields, options.intake, owner, () => askForBody(ctx));
    return receiveUpload(ctx, options, receive, () => fields.finish());
  };
}

/** Returns the reader of a create by digests. Throws ServiceError if the head of the request is already invalid. */
export function receiverOfDigests(ctx: RequestContext): Receive {
  refuseQuery(ctx);
  requireMediaType(ctx, ['application/json'], 'Content-Type must be application/json.');
  return async (_, { intake }) => {
    const request = parseDigestCreate(await readJson(ctx, intake.bodyIdleTimeoutMs));
    await callerOf(ctx).confirm();
    return receivedDigests(request);
  };
}

/** The service never receives or scans the document of this create. */
export function receivedDigests(request: DigestCreateRequest): ReceivedCreate {
  const { document } = request;
  const content: Content = { document, scan: { verdict: 'not_scanned' } };
  return { source: 'digest', request, documentSha256: document.sha256, content };
}

/** A field in the query must not be ignored: with `?mode=blocking` ignored, the job would be asynchronous. */
export function refuseQuery({ querystring }: RequestContext): void {
  if (querystring === '') return;
  const [name] = new URLSearchParams(querystring).keys();
  if (name !== undefined) throw unknownParameter(name, '. Send the fields of a job in the body.');
}

async function receiveReference(ctx: RequestContext, { intake }: ReceiveOptions): Promise<ReceivedCreate> {
  intake.scanner?.admit();
  const request = parseJsonCreate(await readJson(ctx, intake.bodyIdleTimeoutMs));
  const { checksumSha256, sourceUrl } = request;
  return { source: 'url', request, documentSha256: checksumSha256, sourceUrl };
}

/** `request` is called after the last byte. */
async function receiveUpload(
  ctx: RequestContext,
  { slots, intake }: ReceiveOptions,
  receive: (owner: Owner) => Promise<ReceivedDocument>,
  request: () => CreateRequest,
): Promise<ReceivedCreate> {
  intake.scanner?.admit();
  const owner = new Uploader(ctx);
  using held = new DisposableStack();
  held.defer(slots.take(owner.clientId));
  const upload = await receive(owner);
  // An upload can take long. A key that was revoked or has expired in the meantime must not create anything.
  await discardOnFailure(upload, () => callerOf(ctx).confirm());
  const { sha256 } = upload.content.document;
  return { source: 'upload', request: request(), documentSha256: sha256, upload };
}

/**
 * The client of an upload. This is a class because of its accessor: for each object literal with an accessor, V8 makes a hidden class that
 * keeps everything the accessor can see, that is the whole request, until the whole heap is collected.
 */
class Uploader implements Owner {
  readonly clientId: string;
  readonly isAwaited = true;
  readonly #ctx: RequestContext;
  #gone: AbortSignal | undefined;

  constructor(ctx: RequestContext) {
    this.clientId = callerOf(ctx).viewer.clientId;
    this.#ctx = ctx;
  }

  /** Created on demand: few uploads last long enough to need it. */
  get signal(): AbortSignal {
    this.#gone ??= goneSignal(this.#ctx);
    return this.#gone;
  }
}

/** Aborted when the client closes the connection, because the answer is then no longer needed. */
function goneSignal({ res }: RequestContext): AbortSignal {
  const gone = new AbortController();
  const leave = () => {
    // The event also follows a completed answer.
    if (res.writableFinished) return;
    gone.abort(new ServiceError('incomplete_body', 'The connection ended before the request was answered.'));
  };
  if (res.closed) leave();
  else res.once('close', leave);
  return gone.signal;
}

/** For a body that is the document itself: the fields of the create are known beforehand. */
function receiverOfPdf(request: CreateRequest): Receive {
  return async (ctx, options, onPurpose) => {
    if (request.purpose !== undefined) onPurpose?.(request.purpose);
    const { intake } = options;
    const receive = (owner: Owner) =>
      receiveBody(ctx.req, 'body', intake, owner, () => {
        askForBody(ctx);
        const copies = request.preserveMetadata ? undefined : intake.copies;
        const document = new DocumentPass({ ...intake, copies }, 'body');
        return {
          write: (chunk) => document.write(chunk),
          finish: () => {
            document.end();
            return document.finish(request, owner);
          },
          abort: () => document.abort(),
        };
      });
    return receiveUpload(ctx, options, receive, () => request);
  };
}

/**
 * Receives a multipart form in one pass: the text fields go to `fields`, the file goes through its {@link DocumentPass}. Throws
 * ServiceError at the first fault, and the reason of the owner's signal if the signal is aborted. After a throw nothing of the upload
 * remains.
 */
export async function receiveForm(
  req: IncomingMessage,
  fields: FormFields,
  options: IntakeOptions,
  owner: Owner,
  onOpen?: () => void,
): Promise<ReceivedDocument> {
  const boundary = boundaryOf(req.headers['content-type']);
  return receiveBody(req, 'file', options, owner, () => {
    onOpen?.();
    return new UploadedForm(boundary, fields, options, owner);
  });
}

/** Consumes the bytes of a body. It owns every chunk that it gets. */
interface BodyTaker {
  /** A returned promise means: wait until it resolves before the next chunk. */
  write(chunk: Buffer): Promise<void> | undefined;
  /** Called after the last byte. */
  finish(): Promise<ReceivedDocument>;
  abort(): void;
}

/**
 * Reads a body no faster than its taker consumes it. `open` is called once the head has been checked. After it has thrown, the request
 * stays paused.
 */
async function receiveBody(
  req: IncomingMessage,
  field: DocumentField,
  options: IntakeOptions,
  owner: Owner,
  open: () => BodyTaker,
): Promise<ReceivedDocument> {
  const { documentBytesMax, bodyIdleTimeoutMs, bodyBytesPerSecondMin } = options;
  // Refuses a body before its first byte if its declared length is too large.
  const bytesMax = documentBytesMax + (field === 'file' ? OVERHEAD_BYTES_MAX : 0);
  if (Number(req.headers['content-length'] ?? 0) > bytesMax) throw tooLarge(field, documentBytesMax);
  const taker = open();
  const body = new IncomingBody(req, {
    idleTimeoutMs: bodyIdleTimeoutMs,
    bytesPerSecondMin: bodyBytesPerSecondMin,
  });
  try {
    await body.read((chunk) => {
      const room = taker.write(chunk);
      if (room !== undefined) body.hold(room);
    }, owner);
    return await taker.finish();
  } catch (error) {
    taker.abort();
    throw error;
  }
}

/** A multipart form that is still arriving. */
class UploadedForm implements BodyTaker {
  readonly #form: FormParser;
  readonly #fields: FormFields;
  readonly #options: IntakeOptions;
  readonly #owner: Owner;
  #document: DocumentPass | undefined;
  #room: Promise<void> | undefined;
  #bodyBytes = 0;

  constructor(boundary: string, fields: FormFields, options: IntakeOptions, owner: Owner) {
    this.#form = new FormParser(boundary, (part) => this.#open(part));
    this.#fields = fields;
    this.#options = options;
    this.#owner = owner;
  }

  write(chunk: Buffer): Promise<void> | undefined {
    // Besides the document, earlier chunks may contain at most the overhead.
    if (this.#bodyBytes - (this.#document?.bytes ?? 0) > OVERHEAD_BYTES_MAX) {
      throw malformed(`it has more than ${OVERHEAD_BYTES_MAX} bytes beside the document`);
    }
    this.#bodyBytes += chunk.length;
    this.#room = undefined;
    this.#form.write(chunk);
    return this.#room;
  }

  async finish(): Promise<ReceivedDocument> {
    this.#form.end();
    if (this.#document === undefined) {
      throw missingFile(
        this.#fields.sourceUrl === undefined
          ? 'The form has no part named file.'
          : 'The form has no part named file. Only an application/json request can have a source_url instead.',
      );
    }
    return this.#document.finish(this.#fields.finish(), this.#owner);
  }

  abort(): void {
    this.#document?.abort();
  }

  #open({ name, isFile }: Part): PartSink {
    if (name === 'file') return this.#openDocument(isFile);
    if (!isFile) return this.#openField(name);
    const problem = `The part ${quoteName(name)} carries a file.`;
    throw new ServiceError('unknown_parameter', `${problem} ${HOW_TO_SEND_A_FILE}`);
  }

  #openDocument(isFile: boolean): PartSink {
    if (!isFile) throw missingFile('The part named file is a text field.');
    if (this.#document !== undefined) throw duplicateField('file');
    // Fields can follow the file. If preserve_metadata follows, the copy is made in vain.
    const copies = this.#fields.preserveMetadata === true ? undefined : this.#options.copies;
    const document = new DocumentPass({ ...this.#options, copies }, 'file');
    this.#document = document;
    this.#requireOneSource();
    return {
      // Writes at most one piece of a part per chunk of the body.
      write: (bytes) => {
        this.#room = document.write(bytes);
      },
      end: () => document.end(),
    };
  }

  #openField(name: string): PartSink {
    this.#fields.expect(name);
    const value = new BoundedBytes(FIELD_BYTES_MAX);
    return {
      write: (chunk) => {
        if (!value.add(chunk)) throw invalidField(name, `must have at most ${FIELD_BYTES_MAX} bytes.`);
      },
      end: () => {
        const text = decodeUtf8(value.bytes);
        if (text === undefined) throw invalidField(name, 'must be UTF-8.');
        this.#fields.add(name, text);
        this.#requireOneSource();
      },
    };
  }

  #requireOneSource(): void {
    if (this.#document === undefined || this.#fields.sourceUrl === undefined) return;
    const message = 'The request has both file and source_url. Send only one of them.';
    throw new ServiceError('file_and_source_url', message, { parameter: 'source_url' });
  }
}

function missingFile(problem: string): ServiceError {
  return new ServiceError('missing_file', `${problem} ${HOW_TO_SEND_A_FILE}`, { parameter: 'file' });
}
