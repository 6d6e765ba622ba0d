import { discardOnFailure, type ReceivedDocument } from '../document.ts';
import type { Fetching } from '../fetching.ts';
import { type IntakeOptions, receiveUpload } from '../intake.ts';
import { CreateFields, type CreateRequest } from '../job/fields.ts';
import { askForBody, requireMediaType } from './body.ts';
import { readJsonCreate } from './json-create.ts';
import type { UploadSlots } from './limits.ts';
import { callerOf, type RequestContext } from './state.ts';

export interface SubmissionOptions {
  slots: UploadSlots;
  intake: IntakeOptions;
  sources: Pick<Fetching, 'probe' | 'accept'>;
}

/** What a request asks for, and the document or where to find it. */
export interface Submission {
  request: CreateRequest;
  documentSha256: string;
  /** Of an upload. */
  received?: ReceivedDocument;
  sourceUrl?: string;
}

/**
 * Reads a request of one form to its end. Throws ServiceError. `onPurpose` is told of the purpose when it comes before the end,
 * and may throw to refuse it.
 */
export type Submit = (
  ctx: RequestContext,
  options: SubmissionOptions,
  onPurpose?: (purpose: string) => void,
) => Promise<Submission>;

const HOW_TO_SEND = 'Content-Type must be multipart/form-data, or application/json with a source_url.';

/** How to read a create, by its media type. Throws ServiceError `unsupported_media_type`. */
export function submissionOf(ctx: RequestContext): Submit {
  const mediaType = requireMediaType(ctx, ['multipart/form-data', 'application/json'], HOW_TO_SEND);
  return mediaType === 'application/json' ? reference : upload;
}

async function reference(ctx: RequestContext, { intake }: SubmissionOptions): Promise<Submission> {
  const request = await readJsonCreate(ctx, intake.bodyIdleTimeoutMs);
  return { request, documentSha256: request.checksumSha256, sourceUrl: request.sourceUrl };
}

/**
 * Asks the source what it has, before a job is accepted; throws ServiceError. A source that is asked takes a place among the uploads: it holds a connection too, and one client
 * is not to hold all.
 */
export async function probe(
  ctx: RequestContext,
  sourceUrl: string,
  documentSha256: string,
  { slots, sources }: SubmissionOptions,
): Promise<void> {
  const leave = slots.take(callerOf(ctx).viewer.clientId);
  try {
    await sources.probe(sourceUrl, documentSha256);
    await callerOf(ctx).confirm();
  } finally {
    leave();
  }
}

async function upload(
  ctx: RequestContext,
  { slots, intake }: SubmissionOptions,
  onPurpose?: (purpose: string) => void,
): Promise<Submission> {
  const leave = slots.take(callerOf(ctx).viewer.clientId);
  try {
    const fields = new CreateFields(onPurpose);
    const receiving = receiveUpload(ctx.req, fields, intake);
    // Faults in the head of the request have shown by now; then the body is not asked for.
    await Promise.race([receiving, undefined]);
    askForBody(ctx);
    const received = await receiving;
    // An upload can last; a key that was revoked or expired meanwhile creates nothing.
    await discardOnFailure(received, () => callerOf(ctx).confirm());
    return { request: fields.finish(), documentSha256: received.content.document.sha256, received };
  } finally {
    leave();
  }
}
