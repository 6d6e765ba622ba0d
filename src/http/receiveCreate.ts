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
import type { Content } from '../job/job.ts';
import { discardOnFailure, type ReceivedDocument } from '../seal/documentPass.ts';
import type { Fetching } from '../seal/fetching.ts';
import { readJson } from './json.ts';
import { type IntakeOptions, receiveDocument, receiveForm } from './receiveForm.ts';
import { askForBody, requireMediaType } from './requestBody.ts';
import { callerOf, type RequestContext } from './requestContext.ts';

export interface SubmissionOptions {
  slots: Slots;
  intake: IntakeOptions;
  sources: Pick<Fetching, 'probe' | 'accept'>;
}

/** What a request asks for, and the document, its digests, or where to find it. */
export type Submission = { request: CreateRequest; documentSha256: string } & (
  | { source: 'upload'; received: ReceivedDocument }
  | { source: 'url'; sourceUrl: string }
  | { source: 'digest'; content: Content }
);

/**
 * Reads a request of one form to its end. Throws ServiceError. `onPurpose` is told of the purpose when it comes before the end,
 * and may throw to refuse it.
 */
export type Submit = (
  ctx: RequestContext,
  options: SubmissionOptions,
  onPurpose?: (purpose: string) => void,
) => Promise<Submission>;

const MEDIA_TYPES = ['multipart/form-data', 'application/pdf', 'application/json'] as const;
const HOW_TO_SEND =
  'Content-Type must be multipart/form-data, application/pdf with the fields in the query, or application/json with a source_url.';

/** How to read a create, by its media type. Throws ServiceError for what its head already condemns. */
export function submissionOf(ctx: RequestContext): Submit {
  const mediaType = requireMediaType(ctx, MEDIA_TYPES, HOW_TO_SEND);
  if (mediaType === 'application/pdf') return document(parseQueryCreate(ctx.querystring));
  refuseQuery(ctx);
  return mediaType === 'application/json' ? reference : form;
}

/** A field in the wrong place must not be overlooked: `?mode=blocking` would seal asynchronously. */
export function refuseQuery({ querystring }: RequestContext): void {
  const [name] = new URLSearchParams(querystring).keys();
  if (name === undefined) return;
  const shown = JSON.stringify(name.slice(0, 64));
  throw new ServiceError(
    'unknown_parameter',
    `There is no query parameter ${shown}. Send the fields of a job in the body.`,
  );
}

/** How to read a create by digests. Throws ServiceError for what its head already condemns. */
export function digestsOf(ctx: RequestContext): Submit {
  refuseQuery(ctx);
  requireMediaType(ctx, ['application/json'], 'Content-Type must be application/json.');
  return async (_, { intake }) => {
    const request = parseDigestCreate(await readJson(ctx, intake.bodyIdleTimeoutMs));
    await callerOf(ctx).confirm();
    return submissionOfDigests(request);
  };
}

/** The document itself is neither received nor scanned, and never will be. */
export function submissionOfDigests(request: DigestCreateRequest): Submission {
  const { document } = request;
  const content: Content = { document, scan: { verdict: 'not_scanned' } };
  return { source: 'digest', request, documentSha256: document.sha256, content };
}

async function reference(ctx: RequestContext, { intake }: SubmissionOptions): Promise<Submission> {
  intake.scanner?.admit();
  const request = parseJsonCreate(await readJson(ctx, intake.bodyIdleTimeoutMs));
  const { checksumSha256, sourceUrl } = request;
  return { source: 'url', request, documentSha256: checksumSha256, sourceUrl };
}

/** Asks the source what it has, before a job is accepted. Throws ServiceError. */
export async function probe(
  ctx: RequestContext,
  sourceUrl: string,
  documentSha256: string,
  { sources }: SubmissionOptions,
): Promise<void> {
  await sources.probe(callerOf(ctx).viewer.clientId, sourceUrl, documentSha256);
  await callerOf(ctx).confirm();
}

const form: Submit = (ctx, options, onPurpose) => {
  const fields = new FormFields(onPurpose);
  return upload(ctx, options, {
    receive: (intake, owner) => receiveForm(ctx.req, fields, intake, owner),
    request: () => fields.finish(),
  });
};

function document(request: CreateRequest): Submit {
  return async (ctx, options, onPurpose) => {
    if (request.purpose !== undefined) onPurpose?.(request.purpose);
    return upload(ctx, options, {
      receive: (intake, owner) => receiveDocument(ctx.req, request, intake, owner),
      request: () => request,
    });
  };
}

interface Upload {
  receive(intake: IntakeOptions, owner: Owner): Promise<ReceivedDocument>;
  /** After the last byte. */
  request(): CreateRequest;
}

async function upload(
  ctx: RequestContext,
  { slots, intake }: SubmissionOptions,
  { receive, request }: Upload,
): Promise<Submission> {
  intake.scanner?.admit();
  const { clientId } = callerOf(ctx).viewer;
  const leave = slots.take(clientId);
  const gone = goneSignal(ctx);
  try {
    const receiving = receive(intake, { clientId, signal: gone.signal, isAwaited: true });
    // Faults in the head of the request have shown by now; then the body is not asked for.
    await Promise.race([receiving, undefined]);
    askForBody(ctx);
    const received = await receiving;
    // An upload can last; a key that was revoked or expired meanwhile creates nothing.
    await discardOnFailure(received, () => callerOf(ctx).confirm());
    const { sha256 } = received.content.document;
    return { source: 'upload', request: request(), documentSha256: sha256, received };
  } finally {
    leave();
    gone.release();
  }
}

/** Aborted when the client is gone: then nobody waits for what is done for it. */
function goneSignal({ res }: RequestContext): { signal: AbortSignal; release(): void } {
  const gone = new AbortController();
  const leave = () =>
    gone.abort(new ServiceError('incomplete_body', 'The connection ended before the request was answered.'));
  res.once('close', leave);
  if (res.closed) leave();
  return { signal: gone.signal, release: () => res.off('close', leave) };
}
