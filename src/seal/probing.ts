import type { Logger } from 'pino';
import { ServiceError } from '../base/errors.ts';
import { Slots } from '../base/slots.ts';
import { shortNameOf } from '../source/fetchFailure.ts';
import type { SourceClient } from '../source/sourceClient.ts';
import { type DocumentOptions, otherDocument, tooLarge } from './documentPass.ts';

/** Concurrent HEAD requests to sources; one client gets at most half of them. Each takes `answerTimeoutMs` at most. */
const PROBES_MAX = 256;

export interface ProbingOptions {
  source: Pick<SourceClient, 'probe'>;
  document: Pick<DocumentOptions, 'documentBytesMax'>;
  logger: Logger;
  /** Aborts every request. */
  signal: AbortSignal;
}

/** Asks a source about a client's document. */
export type AskSource = (clientId: string, sourceUrl: string, checksumSha256: string) => Promise<void>;

/**
 * Returns a function that asks a source about its document before the job is accepted. It throws ServiceError: `checksum_mismatch` or
 * `document_too_large` if the source announces another document, `source_unreachable` or `source_not_allowed` if the source cannot be
 * asked, `too_many_requests` or `queue_full` if too many such requests are in progress.
 */
export function probing({ source, document, logger, signal }: ProbingOptions): AskSource {
  const probes = new Slots({ of: 'requests to sources', max: PROBES_MAX });
  return async (clientId, sourceUrl, checksumSha256) => {
    const leave = probes.take(clientId);
    try {
      const { sha256, bytes = 0 } = await source.probe(sourceUrl, signal);
      if (bytes > document.documentBytesMax) throw tooLarge('source_url', document.documentBytesMax);
      if (sha256 !== undefined && sha256 !== checksumSha256)
        throw otherDocument('the document that source_url announces');
    } catch (error) {
      if (error instanceof ServiceError)
        logger.info(describeSource(error, sourceUrl), 'a source was refused');
      throw error;
    } finally {
      leave();
    }
  };
}

/** The fields for the log: only the origin of the URL, because the rest can contain secrets. */
export function describeSource({ code, message, cause }: ServiceError, sourceUrl: string): object {
  const reason = code === 'internal_error' ? { err: cause } : { reason: shortNameOf(cause) };
  const { origin } = new URL(sourceUrl);
  return { error_code: code, detail: message, origin, ...(cause !== undefined && reason) };
}
