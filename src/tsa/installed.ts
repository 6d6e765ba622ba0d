import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Certificate, describeSubject, isSelfIssued } from '../asn1/certificate.ts';
import { modulusBits } from '../asn1/publicKey.ts';
import { AUTHORITY_ALGORITHMS, type AuthorityAlgorithm } from '../asn1/signatureAlgorithm.ts';
import { assert } from '../base/assert.ts';
import { toBase64 } from '../base/bytes.ts';
import { OperatorError } from '../base/errors.ts';
import { certificatesIn, chainForKey, readCertificates } from './pki.ts';

/** A time-stamping key, as named in the configuration. */
export interface KeyName {
  region: string;
  keyLabel: string;
}

/** A time-stamping key, as described by its certificate. */
export interface CertifiedKey extends KeyName {
  algorithm: AuthorityAlgorithm;
  /** Base64 of the DER SubjectPublicKeyInfo. */
  spki: string;
}

export interface Installed {
  key: CertifiedKey;
  /** The key's own certificate, its issuers, and the self-signed root last. */
  chain: Certificate[];
}

/**
 * Path of a key's certificates: a PEM file with the whole chain. A region has no underscore, so no two keys share a
 * name.
 */
export function certificateFile(dir: string, { region, keyLabel }: KeyName): string {
  return join(dir, `${region}_${keyLabel}.pem`);
}

/** Folder of former certificates. Receipts stamped under them still need their roots. */
export function retiredDir(dir: string): string {
  return join(dir, 'retired');
}

/** The roots of all former certificates in `dir`. Throws OperatorError. */
export function readRetiredRoots(dir: string): Certificate[] {
  return filesOf(retiredDir(dir), '.pem').flatMap(certificatesIn).filter(isSelfIssued);
}

/** The files with certificates in `dir`, in use and replaced. */
export function certificateFiles(dir: string): string[] {
  return [dir, retiredDir(dir)].flatMap((folder) => filesOf(folder, '.pem'));
}

/** The files in a folder whose names end so, in the order of their names; none if there is no folder. */
export function filesOf(folder: string, ending: string): string[] {
  if (!existsSync(folder)) return [];
  const names = readdirSync(folder).filter((name) => name.endsWith(ending));
  return names.sort().map((name) => join(folder, name));
}

/**
 * The certificates installed for a key: a whole chain, in which each was valid when the newest began. The caller must check whether they
 * are still valid, because old receipts need the root of an expired chain too. Throws OperatorError with the remedy if there are no
 * certificates, or no usable ones.
 */
export function readInstalled(dir: string, name: KeyName): Installed {
  const file = certificateFile(dir, name);
  const certificates = readCertificates(readBytes(file, name), file);
  try {
    return inspect(name, certificates);
  } catch (cause) {
    if (!(cause instanceof OperatorError)) throw cause;
    throw new OperatorError(`${file}: ${cause.message}; ${REMEDY}`, { cause });
  }
}

const REMEDY = 'install one with `pdfseal hsm install-certificate`';

function inspect(name: KeyName, certificates: readonly Certificate[]): Installed {
  const [leaf] = certificates;
  assert(leaf !== undefined, 'a file without a certificate is refused above');
  const key = { ...name, algorithm: algorithmOf(leaf), spki: toBase64(leaf.spki) };
  const begun = Math.max(...certificates.map(({ notBefore }) => notBefore));
  return { key, chain: chainForKey(key, certificates, begun) };
}

/** The signature algorithm of a certified key. Throws OperatorError for a type of key that this service never creates. */
export function algorithmOf(certificate: Certificate): AuthorityAlgorithm {
  const { publicKey } = certificate;
  const name =
    publicKey?.type === 'rsa'
      ? `rsa-${modulusBits(publicKey.modulus)}`
      : publicKey?.type === 'ec' && `ecdsa-${publicKey.curve.replace('-', '').toLowerCase()}`;
  const known = AUTHORITY_ALGORITHMS.find((one) => one === name);
  if (known !== undefined) return known;
  throw new OperatorError(
    `${describeSubject(certificate)} is for a key of another kind than ${AUTHORITY_ALGORITHMS.join(', ')}`,
  );
}

function readBytes(file: string, { region, keyLabel }: KeyName): Buffer {
  try {
    return readFileSync(file);
  } catch (cause) {
    if (!(cause instanceof Error && 'code' in cause)) throw cause;
    const what =
      cause.code === 'ENOENT'
        ? `the time-stamping key ${region}/${keyLabel} has no certificate: there is no ${file}; ${REMEDY}`
        : `cannot read ${file}, the certificate of the time-stamping key ${region}/${keyLabel} (${cause.code})`;
    throw new OperatorError(what, { cause });
  }
}
