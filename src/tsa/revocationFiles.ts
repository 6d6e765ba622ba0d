import { statSync } from 'node:fs';
import { join } from 'node:path';
import { MalformedDer } from '../asn1/der.ts';
import { readListFile } from '../asn1/pem.ts';
import { parseAuthorityList, type RevocationList } from '../asn1/revocationList.ts';
import { readWholeFile } from '../base/atomicFile.ts';
import { OperatorError } from '../base/errors.ts';
import { filesOf, type KeyName } from './installed.ts';

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
  return filesOf(dir, ENDING).map(readRevocationFile);
}

/**
 * Returns the function that returns the lists in the folder as they are now: it reads them again once a file is another. A list that is
 * damaged later leaves those that were there. Throws OperatorError if one is damaged now.
 */
export function followRevocationLists(dir: string): () => readonly RevocationList[] {
  let state = stateOf(dir);
  let lists = readRevocationLists(dir);
  return () => {
    const now = stateOf(dir);
    if (now === state) return lists;
    state = now;
    try {
      lists = readRevocationLists(dir);
    } catch (error) {
      if (!(error instanceof OperatorError)) throw error;
    }
    return lists;
  };
}

/** A list is replaced and not changed, so it is another file then. */
function stateOf(dir: string): string {
  return filesOf(dir, ENDING)
    .map((file) => [file, statSync(file, { bigint: true, throwIfNoEntry: false })] as const)
    .map(([file, found]) => `${file} ${found?.ino} ${found?.mtimeNs}`)
    .join('\n');
}
