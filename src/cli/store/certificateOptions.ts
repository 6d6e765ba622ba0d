import { X509Certificate } from 'node:crypto';
import { sha256Of } from '../../asn1/x509Names.ts';
import { systemClock, toRfc3339 } from '../../base/clock.ts';
import { OperatorError } from '../../base/errors.ts';
import { readTextFile } from '../files.ts';

const FILE_BYTES_MAX = 1 << 20;

/** The SHA-256 of the first certificate in a PEM file, lower-case hex. Throws OperatorError. */
export function readBinding(file: string): string {
  const certificate = parse(file, readTextFile(file, FILE_BYTES_MAX));
  const end = certificate.validToDate.getTime();
  if (end <= systemClock())
    throw new OperatorError(`the certificate in ${file} expired at ${toRfc3339(end)}; name the present one`);
  return sha256Of(certificate);
}

function parse(file: string, pem: string): X509Certificate {
  try {
    return new X509Certificate(pem);
  } catch (cause) {
    throw new OperatorError(`${file} has no certificate in PEM`, { cause });
  }
}
