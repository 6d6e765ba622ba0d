import { toRfc3339 } from '../base/clock.ts';
import { sha512 } from '../base/crypto.ts';
import type { DocumentDigests, JobSource, ReceivedJob, ScanResult, Visibility } from '../job/job.ts';
import { encodeCanonical } from './jcs.ts';

export const MANIFEST_SCHEMA = 'pdfseal-manifest/1';

/** The sealed statement. Its members have the names used on the wire. An unset member is absent. */
export interface Manifest {
  schema: typeof MANIFEST_SCHEMA;
  job_id: string;
  /** `env_<name>`. */
  environment: string;
  document: DocumentDigests;
  source: JobSource;
  scan: ScanResult;
  /** The copy without metadata (compliance mode). */
  sealed_document?: DocumentDigests;
  visibility: Visibility;
  purpose?: string;
  customer_reference?: string;
  /** RFC 3339, UTC, milliseconds. */
  accepted_at: string;
  sealed_at: string;
}

/** The name of an environment on the wire (section 2.1 of the contract): `env_<name>`. */
export function environmentId(environment: string): string {
  return `env_${environment}`;
}

/** The manifest of a job that is sealed at `sealedAtMs`. The same arguments always give the same manifest. */
export function manifestOf(job: ReceivedJob, environment: string, sealedAtMs: number): Manifest {
  const { document, scan, sealedDocument } = job.content;
  return {
    schema: MANIFEST_SCHEMA,
    job_id: job.id,
    environment: environmentId(environment),
    document: digestsOf(document),
    source: job.source,
    scan: {
      verdict: scan.verdict,
      ...(scan.engine !== undefined && { engine: scan.engine }),
      ...(scan.signatures !== undefined && { signatures: scan.signatures }),
    },
    ...(sealedDocument !== undefined && { sealed_document: digestsOf(sealedDocument) }),
    visibility: job.visibility,
    ...(job.purpose !== undefined && { purpose: job.purpose }),
    ...(job.customerReference !== undefined && { customer_reference: job.customerReference }),
    accepted_at: toRfc3339(job.acceptedAt),
    sealed_at: toRfc3339(sealedAtMs),
  };
}

/** Copies exactly these members. Other members of the object must not be sealed. */
export function digestsOf({ sha256, sha512, bytes }: DocumentDigests): DocumentDigests {
  return { sha256, sha512, bytes };
}

/** Canonical form (RFC 8785) of a manifest, our own or a received one. Throws an Error if there is none. */
export function encodeManifest(manifest: object): Uint8Array {
  return encodeCanonical(manifest);
}

/** The log's leaf data: SHA-512 of the canonical form, 64 bytes. It reveals nothing about the document. */
export function leafData(manifest: object): Uint8Array {
  return sha512(encodeManifest(manifest));
}
