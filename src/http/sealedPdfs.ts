import { createHash } from 'node:crypto';
import { assert } from '../base/assert.ts';
import { BoundedMap } from '../base/bounded.ts';
import { readCiphered } from '../copy/copies.ts';
import type { CipheredFile } from '../copy/spool.ts';
import type { DocumentDigests, Job } from '../job/job.ts';

/** A document, followed by the revision that attaches its receipt. */
export interface AssembledPdf {
  bytes: number;
  /** Lower-case hex. */
  sha256: string;
  /** The bytes from `start` to before `end`. */
  read(start: number, end: number): AsyncGenerator<Uint8Array>;
}

/** More than are downloaded at the same time. */
const DIGESTS_MAX = 1000;

/** Opens sealed PDFs. Their digests are remembered, so that those who read one in parts do not have it hashed each time. */
export class SealedPdfs {
  /** By job. */
  readonly #digests = new BoundedMap<string, Promise<string>>({
    max: DIGESTS_MAX,
    whenFull: 'forget the oldest',
  });

  /** Throws an Error if the document in the file is damaged: then nothing has been sent yet. */
  async open(job: Job, file: CipheredFile, suffix: Uint8Array): Promise<AssembledPdf> {
    const known = this.#digests.get(job.id);
    const digest = known ?? digestOf(file, beginningOf(job).sha256, suffix);
    if (known === undefined) {
      // It goes on if one of those who wait for it leaves.
      this.#digests.set(job.id, digest);
      digest.catch(() => this.#digests.delete(job.id));
    }
    async function* read(start: number, end: number): AsyncGenerator<Uint8Array> {
      const { bytes } = file;
      if (start < bytes) yield* readCiphered(file, start, Math.min(end, bytes));
      if (end > bytes) yield suffix.subarray(Math.max(0, start - bytes), end - bytes);
    }
    return { bytes: file.bytes + suffix.length, sha256: await digest, read };
  }
}

/** The document with which a sealed PDF begins: in compliance mode, the copy without metadata. */
export function beginningOf({ content }: Job): DocumentDigests {
  assert(content, 'a job with a sealed PDF has a document');
  return content.sealedDocument ?? content.document;
}

async function digestOf(file: CipheredFile, documentSha256: string, suffix: Uint8Array): Promise<string> {
  const hash = createHash('sha256');
  for await (const chunk of readCiphered(file)) hash.update(chunk);
  if (hash.copy().digest('hex') !== documentSha256)
    throw new Error(`the copy in ${file.path} is damaged: its SHA-256 is wrong`);
  return hash.update(suffix).digest('hex');
}
