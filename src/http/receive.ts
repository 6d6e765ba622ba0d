import type { IncomingMessage } from 'node:http';
import { BoundedBytes } from '../base/bounded.ts';
import { ServiceError } from '../base/errors.ts';
import type { Slots } from '../base/slots.ts';
import type { Owner } from '../copy/spool.ts';
import {
  type CreateRequest,
  type DigestCreateRequest,
  FormFields,
  parseDigestCreate,
  parseJsonCreate,
  parseQueryCreate,
} from '../job/fields.ts';
import { duplicateField, invalidField, quoteName } from '../job/fieldValues.ts';
import type { Content, JobSource } from '../job/job.ts';
import { type DocumentOptions, DocumentPass, requireSealable, tooLarge } from '../seal/documentPass.ts';
import type { StoredCopy } from '../store/store.ts';
import { askForBody, IncomingBody, type Patience } from '../web/incomingBody.ts';
import { readJson } from './json.ts';
import { unknownParameter } from './listQuery.ts';
import { FormParser, type PartSink } from './multipart/form.ts';
import { boundaryOf, decodeUtf8, malformed, type Part } from './multipart/headers.ts';
import { requireMediaType } from './requestBody.ts';
import { callerOf, type RequestContext } from './requestContext.ts';

export interface IntakeOptions extends DocumentOptions {
  /** How slowly a body may arrive. */
  patience: Patience;
}

export interface ReceiveOptions {
  /** Limits concurrent uploads. */
  slots: Slots;
  intake: IntakeOptions;
}

/** A create whose body is a form with the document, or the document itself: then the query has the other fields. */
type UploadForm = { kind: 'multipart' } | { kind: 'pdf'; request: CreateRequest };

/** The form of a create. A line of a batch is already read. */
export type CreateForm =
  | UploadForm
  | { kind: 'reference' }
  | { kind: 'digests' }
  | { kind: 'line'; request: DigestCreateRequest };

/** The request of a create, with the content of its document, or its URL. */
export interface ReceivedCreate {
  request: CreateRequest;
  source: JobSource;
  documentSha256: string;
  content?: Content;
  sourceUrl?: string;
  copy?: StoredCopy;
  /** Must be called if the create is not accepted after all. */
  discard(): Promise<void>;
}

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

type MediaType = 'multipart/form-data' | 'application/pdf' | 'application/json';
/** The media types that each create accepts. */
const ACCEPTED = {
  createSealJob: ['multipart/form-data', 'application/pdf', 'application/json'],
  sealDocument: ['application/pdf'],
  sealForm: ['multipart/form-data'],
  sealSource: ['application/json'],
  createDigestJob: ['application/json'],
} as const satisfies Record<string, readonly MediaType[]>;
export type CreateOperation = keyof typeof ACCEPTED;

/** The form of a create. Throws ServiceError if the head of the request is already invalid. */
export function formOf(ctx: RequestContext, operation: CreateOperation): CreateForm {
  const accepted: readonly MediaType[] = ACCEPTED[operation];
  const remedy = accepted.length > 1 ? HOW_TO_SEND : `Content-Type must be ${accepted[0]}.`;
  const mediaType = requireMediaType(ctx, accepted, remedy);
  if (mediaType === 'application/pdf') return { kind: 'pdf', request: parseQueryCreate(ctx.querystring) };
  refuseQuery(ctx);
  if (mediaType === 'multipart/form-data') return { kind: 'multipart' };
  return { kind: operation === 'createDigestJob' ? 'digests' : 'reference' };
}

/** A field in the query must not be ignored: with `?mode=blocking` ignored, the job would be asynchronous. */
export function refuseQuery({ querystring }: RequestContext): void {
  if (querystring === '') return;
  const [name] = new URLSearchParams(querystring).keys();
  if (name !== undefined) throw unknownParameter(name, '. Send the fields of a job in the body.');
}

/**
 * Reads a create to its end. Throws ServiceError. Calls `onPurpose` if the purpose is known before the end; `onPurpose` may throw to
 * refuse it.
 */
export async function receive(
  ctx: RequestContext,
  form: CreateForm,
  { slots, intake }: ReceiveOptions,
  onPurpose?: (purpose: string) => void,
): Promise<ReceivedCreate> {
  if (form.kind === 'line') return digestsOf(form.request);
  if (form.kind === 'digests')
    return digestsOf(parseDigestCreate(await readJson(ctx, intake.patience.idleTimeoutMs)));
  if (form.kind === 'pdf' && form.request.purpose !== undefined) onPurpose?.(form.request.purpose);
  intake.scanner?.admit();
  if (form.kind === 'reference') {
    const request = parseJsonCreate(await readJson(ctx, intake.patience.idleTimeoutMs));
    requireSealable(intake, request);
    const { checksumSha256: documentSha256, sourceUrl } = request;
    return { source: 'url', request, documentSha256, sourceUrl, discard: async () => {} };
  }
  const owner = new Uploader(ctx);
  using held = new DisposableStack();
  held.defer(slots.take(owner.clientId));
  const upload = openUpload(ctx.req, form, intake, onPurpose);
  askForBody(ctx);
  return await readUpload(ctx.req, upload, intake, owner);
}

/** The service never receives or scans the document of this create. */
function digestsOf(request: DigestCreateRequest): ReceivedCreate {
  const { document } = request;
  const content: Content = { document, scan: { verdict: 'not_scanned' } };
  return { source: 'digest', request, documentSha256: document.sha256, content, discard: async () => {} };
}

/**
 * The client of an upload. This is a class because of its accessor: for each object literal with an accessor, V8 makes a hidden class that
 * keeps everything the accessor can see, that is the whole request, until the whole heap is collected.
 */
class Uploader implements Owner {
  readonly clientId: string;
  readonly isAwaited = true;
  readonly #ctx: RequestContext;
  #gone: AbortController | undefined;

  constructor(ctx: RequestContext) {
    this.clientId = callerOf(ctx).viewer.clientId;
    this.#ctx = ctx;
  }

  /**
   * Aborted when the client closes the connection, because the answer is then no longer needed. Created on demand: few uploads last long
   * enough to need it.
   */
  get signal(): AbortSignal {
    if (this.#gone !== undefined) return this.#gone.signal;
    const gone = new AbortController();
    this.#gone = gone;
    const { res } = this.#ctx;
    const leave = () => {
      // The event also follows a completed answer.
      if (res.writableFinished) return;
      gone.abort(
        new ServiceError('incomplete_body', 'The connection ended before the request was answered.'),
      );
    };
    if (res.closed) leave();
    else res.once('close', leave);
    return gone.signal;
  }
}

/** An upload that is still arriving. */
interface Upload {
  /** Absent until the document begins. */
  readonly document: DocumentPass | undefined;
  /** Takes the next bytes, and owns them. A returned promise means: wait until it resolves before the next chunk. */
  write(chunk: Buffer): Promise<void> | undefined;
  /** Called after the last byte. */
  end(): { request: CreateRequest; document: DocumentPass };
}

/** Throws ServiceError if the head of the request is already invalid. */
export function openUpload(
  { headers }: IncomingMessage,
  form: UploadForm,
  intake: IntakeOptions,
  onPurpose?: (purpose: string) => void,
): Upload {
  const { documentBytesMax } = intake;
  const bodyBytes = Number(headers['content-length'] ?? 0);
  if (form.kind === 'multipart') {
    const boundary = boundaryOf(headers['content-type']);
    if (bodyBytes > documentBytesMax + OVERHEAD_BYTES_MAX) throw tooLarge('file', documentBytesMax);
    return new UploadedForm(boundary, intake, onPurpose);
  }
  if (bodyBytes > documentBytesMax) throw tooLarge('body', documentBytesMax);
  const { request } = form;
  const document = new DocumentPass(intake, 'body', request);
  const end = () => {
    document.end();
    return { request, document };
  };
  return { document, write: (chunk) => document.write(chunk), end };
}

/**
 * Reads an upload in one pass, no faster than the document's {@link DocumentPass} takes it. Throws ServiceError at the first fault, and the
 * reason of the owner's signal if the signal is aborted. After a throw nothing of the upload remains, and the request stays paused.
 */
export async function readUpload(
  req: IncomingMessage,
  upload: Upload,
  { patience }: IntakeOptions,
  owner: Owner,
): Promise<ReceivedCreate> {
  const body = new IncomingBody(req, patience);
  try {
    await body.read((chunk) => {
      const room = upload.write(chunk);
      if (room !== undefined) body.hold(room);
    }, owner);
    const { request, document } = upload.end();
    const received = await document.finish(request, owner);
    return { source: 'upload', request, documentSha256: received.content.document.sha256, ...received };
  } catch (error) {
    upload.document?.abort();
    throw error;
  }
}

/** A multipart form: the text fields go to {@link FormFields}, and the file goes through its {@link DocumentPass}. */
class UploadedForm implements Upload {
  readonly #form: FormParser;
  readonly #fields: FormFields;
  readonly #intake: IntakeOptions;
  document: DocumentPass | undefined;
  #room: Promise<void> | undefined;
  #bodyBytes = 0;

  constructor(boundary: string, intake: IntakeOptions, onPurpose?: (purpose: string) => void) {
    this.#form = new FormParser(boundary, (part) => this.#open(part));
    this.#fields = new FormFields(onPurpose);
    this.#intake = intake;
  }

  write(chunk: Buffer): Promise<void> | undefined {
    // Besides the document, earlier chunks may contain at most the overhead.
    if (this.#bodyBytes - (this.document?.bytes ?? 0) > OVERHEAD_BYTES_MAX) {
      throw malformed(`it has more than ${OVERHEAD_BYTES_MAX} bytes beside the document`);
    }
    this.#bodyBytes += chunk.length;
    this.#room = undefined;
    this.#form.write(chunk);
    return this.#room;
  }

  end(): { request: CreateRequest; document: DocumentPass } {
    this.#form.end();
    if (this.document === undefined) {
      throw missingFile(
        this.#fields.sourceUrl === undefined
          ? 'The form has no part named file.'
          : 'The form has no part named file. Only an application/json request can have a source_url instead.',
      );
    }
    return { request: this.#fields.finish(), document: this.document };
  }

  #open({ name, isFile }: Part): PartSink {
    if (name === 'file') return this.#openDocument(isFile);
    if (!isFile) return this.#openField(name);
    const problem = `The part ${quoteName(name)} carries a file.`;
    throw new ServiceError('unknown_parameter', `${problem} ${HOW_TO_SEND_A_FILE}`);
  }

  #openDocument(isFile: boolean): PartSink {
    if (!isFile) throw missingFile('The part named file is a text field.');
    if (this.document !== undefined) throw duplicateField('file');
    // Fields can follow the file. If preserve_metadata follows, the copy is made in vain.
    const document = new DocumentPass(this.#intake, 'file', this.#fields);
    this.document = document;
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
    if (name === 'sealed_pdf' && this.document !== undefined)
      throw invalidField(
        name,
        'must precede file in the form: a document that was not kept cannot be sealed.',
      );
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
    if (this.document === undefined || this.#fields.sourceUrl === undefined) return;
    const message = 'The request has both file and source_url. Send only one of them.';
    throw new ServiceError('file_and_source_url', message, { parameter: 'source_url' });
  }
}

function missingFile(problem: string): ServiceError {
  return new ServiceError('missing_file', `${problem} ${HOW_TO_SEND_A_FILE}`, { parameter: 'file' });
}
