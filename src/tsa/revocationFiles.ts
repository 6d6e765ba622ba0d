import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { MalformedDer } from '../asn1/der.ts';
import { readListFile } from '../asn1/pem.ts';
import { parseAuthorityList, type RevocationList } from '../asn1/revocationList.ts';
import { readWholeFile } from '../base/atomicFile.ts';
import { OperatorError } from '../base/errors.ts';
import type { KeyName } from './installed.ts';

const ENDING = '.crl';

/** Path of the revocation list of a root, in PEM: next to the certificate of the root. */
export function revocationFile(dir: string, { region, keyLabel }: KeyName): string {
  return join(dir, `${region}_${keyLabel}${ENDING}`);
}

/** The revocation list in a file. Its signature is not verified. Throws an OperatorError that names the file. */
export function readRevocationFile(file: string): RevocationList {
  try {
    return parseAuthorityList(readListFile(readWholeFile(file)));
  } catch (cause) {
    if (!(cause instanceof MalformedDer)) throw cause;
    throw new OperatorError(`${file}: the revocation list cannot be used: ${cause.message}`, {
      cause,
      remedy: 'restore the file from a backup: a new list would lack the certificates that were revoked',
    });
  }
}

/** The revocation lists in the folder of certificates. Throws OperatorError. */
export function readRevocationLists(dir: string): RevocationList[] {
  if (!existsSync(dir)) return [];
  return readdirSync(dir)
    .filter((name) => name.endsWith(ENDING))
    .sort()
    .map((name) => readRevocationFile(join(dir, name)));
}
