import { existsSync, mkdirSync, readdirSync } from 'node:fs';
import { basename, join } from 'node:path';
import { InvalidArgumentError } from 'commander';
import type { Certificate } from '../../asn1/certificate.ts';
import type { DistinguishedName } from '../../asn1/issue.ts';
import { encodePem } from '../../asn1/pem.ts';
import type { AuthorityAlgorithm } from '../../asn1/signatureAlgorithm.ts';
import { createFileAtomically, syncName, unusable, writeFileAtomically } from '../../base/atomicFile.ts';
import { toBase64, toHex } from '../../base/bytes.ts';
import { systemClock, toRfc3339 } from '../../base/clock.ts';
import { sha256 } from '../../base/crypto.ts';
import { OperatorError } from '../../base/errors.ts';
import type { Config } from '../../config/config.ts';
import { initKey } from '../../kms/keyOperations.ts';
import type { PartitionOptions } from '../../kms/partitions.ts';
import { kmsKeyId } from '../../log/verifierKey.ts';
import {
  type CertifiedKey,
  certificateFile,
  type KeyName,
  readInstalled,
  retiredDir,
} from '../../tsa/installed.ts';
import { issueRoot, issueTimestampingCertificate, type KeyInUse, readCertificates } from '../../tsa/pki.ts';
import { readSmallFile, readTextFile } from '../files.ts';
import { parseDurationArgument } from '../options.ts';
import { findKey, rootBeside, useAuthorityKey } from './hsmKeys.ts';
import { NAME_CHARACTERS_MAX } from './subject.ts';

/** Content of a certificate of the built-in authority, in addition to the key. */
export interface CertificateTerms {
  organization?: string | undefined;
  rootValidityMs: number;
  certificateValidityMs: number;
}

export interface RootTerms extends Pick<CertificateTerms, 'organization' | 'rootValidityMs'> {
  algorithm: AuthorityAlgorithm;
}

/** The root of a site without a certificate authority. */
export interface OwnRoot {
  token: PartitionOptions;
  certificate: Certificate;
}

const FILE_BYTES_MAX = 1 << 20;

const DAY_MS = 86_400_000;
export const VALIDITY_DEFAULT_MS = 1825 * DAY_MS;
/** Receipts depend on a root for decades. */
export const ROOT_VALIDITY_DEFAULT_MS = 9125 * DAY_MS;
const VALIDITY_MS_MAX = 36_525 * DAY_MS;

/** Argument parser: validity of a certificate in milliseconds. */
export function parseValidityArgument(text: string): number {
  const milliseconds = parseDurationArgument(text);
  if (milliseconds >= DAY_MS && milliseconds <= VALIDITY_MS_MAX) return milliseconds;
  throw new InvalidArgumentError('Expected a duration from 1d to 36525d (a hundred years).');
}

/** Reads the certificates in a file that a user named. Throws OperatorError. */
export function readCertificatesFrom(file: string): Certificate[] {
  return readCertificates(readSmallFile(file, FILE_BYTES_MAX), file);
}

/** The root of the first time-stamping key that has one. Undefined if an external authority issues the certificates. */
export function findOwnRoot({ timestamp, certificatesDir }: Config): OwnRoot | undefined {
  return timestamp.keys.map(rootBeside).flatMap((token) => rootIn(certificatesDir, token))[0];
}

/**
 * The roots whose keys can be in the tokens of the time-stamping keys, by their certificates in the folder: also that of a key that the
 * configuration no longer names, if another key of its region leads to its token.
 */
export function ownRoots({ timestamp, certificatesDir }: Config): OwnRoot[] {
  const names = existsSync(certificatesDir) ? readdirSync(certificatesDir).sort() : [];
  const tokens = timestamp.keys.flatMap((key) => {
    const labels = names
      .filter((name) => name.startsWith(`${key.region}_`) && name.endsWith('-root.pem'))
      .map((name) => name.slice(key.region.length + 1, -'.pem'.length));
    return [rootBeside(key), ...labels.map((keyLabel) => ({ ...key, keyLabel }))];
  });
  const distinct = new Map(tokens.map((token) => [kmsKeyId(token), token]));
  return [...distinct.values()].flatMap((token) => rootIn(certificatesDir, token));
}

function rootIn(certificatesDir: string, token: PartitionOptions): OwnRoot[] {
  const file = certificateFile(certificatesDir, token);
  const [certificate] = existsSync(file) ? readCertificatesFrom(file) : [];
  return certificate === undefined ? [] : [{ token, certificate }];
}

/**
 * Creates a root in the token of a time-stamping key: its key, unless an earlier attempt created it, and its certificate. Throws
 * OperatorError, also if a root already exists.
 */
export async function makeOwnRoot(config: Config, key: PartitionOptions, terms: RootTerms): Promise<OwnRoot> {
  const token = rootBeside(key);
  const file = certificateFile(config.certificatesDir, token);
  if (existsSync(file)) {
    throw new OperatorError(
      `${kmsKeyId(token)} is already a root, with its certificate in ${file}: certify with that root, or choose another key_label`,
    );
  }
  if ((await findKey({ purpose: 'root', token })) === undefined) await initKey(token, terms.algorithm);
  makeSubfolder(config.certificatesDir);
  const certificate = await useAuthorityKey(token, (rootKey) => rootOf(config, rootKey, terms));
  return { token, certificate };
}

/**
 * Creates the root certificate and a certificate for each key, except those from an earlier attempt. Never overwrites. Throws OperatorError
 * if a file is the certificate of another key.
 */
export async function certifyKeys(
  config: Config,
  keys: readonly CertifiedKey[],
  rootToken: PartitionOptions,
  terms: CertificateTerms,
): Promise<string[]> {
  makeSubfolder(config.certificatesDir);
  return useAuthorityKey(rootToken, async (rootKey) => {
    const issuer = await rootOf(config, rootKey, terms);
    const files: string[] = [];
    for (const key of keys) files.push(await certifyOnce(config, key, issuer, rootKey, terms));
    return files;
  });
}

async function rootOf(
  config: Config,
  { key, sign }: { key: CertifiedKey; sign: KeyInUse['sign'] },
  { organization, rootValidityMs }: Pick<CertificateTerms, 'organization' | 'rootValidityMs'>,
): Promise<Certificate> {
  const file = certificateFile(config.certificatesDir, key);
  const now = systemClock();
  if (!existsSync(file)) {
    const subject = { ...nameOf(organization), commonName: commonName(config, 'time-stamping root') };
    const root = await issueRoot({ subject, notBefore: now, notAfter: now + rootValidityMs }, { key, sign });
    createFileAtomically(file, encodeChain([root]));
  }
  const [root] = readCertificatesFrom(file);
  if (root !== undefined && toBase64(root.spki) === key.spki) return root;
  throw foreign(file, key);
}

async function certifyOnce(
  config: Config,
  key: CertifiedKey,
  issuer: Certificate,
  rootKey: KeyInUse,
  terms: CertificateTerms,
): Promise<string> {
  const file = certificateFile(config.certificatesDir, key);
  if (!existsSync(file)) {
    const chain = await issueChain(config, key, issuer, rootKey, terms);
    createFileAtomically(file, encodeChain(chain));
  }
  if (readInstalled(config.certificatesDir, key).key.spki === key.spki) return file;
  throw foreign(file, key);
}

/** Issues a new certificate of the key, valid from `notBefore` on; returned with the root that issued it. */
export async function issueChain(
  config: Config,
  key: CertifiedKey,
  issuer: Certificate,
  rootKey: KeyInUse,
  { organization, certificateValidityMs }: Omit<CertificateTerms, 'rootValidityMs'>,
  notBefore = systemClock(),
): Promise<Certificate[]> {
  const subject = {
    ...nameOf(organization),
    ...unitName(key),
    commonName: commonName(config, 'time-stamping'),
  };
  const notAfter = notBefore + certificateValidityMs;
  return [await issueTimestampingCertificate({ subject, key, issuer, notBefore, notAfter }, rootKey), issuer];
}

/**
 * Installs a chain, leaf first, for the key. Keeps the previous chain: receipts that were stamped with it need its root. Throws
 * OperatorError if the new certificate begins later and would leave the key without a certificate until then.
 */
export function installChain(dir: string, name: KeyName, chain: readonly Certificate[]): string {
  const file = certificateFile(dir, name);
  const begin = Math.max(...chain.map(({ notBefore }) => notBefore));
  if (begin > systemClock() && existsSync(file)) {
    throw new OperatorError(
      `${kmsKeyId(name)} has a certificate. A certificate that begins at ${toRfc3339(begin)} would replace it at once and leave a gap: create another key for it`,
    );
  }
  const text = encodeChain(chain);
  makeSubfolder(dir);
  if (existsSync(file)) retire(dir, file, text);
  writeFileAtomically(file, text);
  return file;
}

function retire(dir: string, file: string, successor: string): void {
  const text = readTextFile(file, FILE_BYTES_MAX);
  if (text === successor) return;
  const version = toHex(sha256(Buffer.from(text))).slice(0, 16);
  // No receipt depends on an unreadable file, and its ending keeps it apart from the roots that receipts need.
  const ending = isReadable(file) ? 'pem' : 'unreadable';
  makeSubfolder(retiredDir(dir));
  createFileAtomically(join(retiredDir(dir), `${basename(file, '.pem')}-${version}.${ending}`), text);
}

/** Whether a file has certificates, and no damage. */
export function isReadable(file: string): boolean {
  try {
    return readCertificatesFrom(file).length > 0;
  } catch (error) {
    if (error instanceof OperatorError) return false;
    throw error;
  }
}

/** Does not create the folders above: `pdfseal init` sets their rights. */
function makeSubfolder(dir: string): void {
  try {
    if (existsSync(dir)) return;
    mkdirSync(dir);
    syncName(dir);
  } catch (cause) {
    throw unusable('write', dir, cause);
  }
}

function encodeChain(chain: readonly Certificate[]): string {
  return chain.map(({ der }) => encodePem('CERTIFICATE', der)).join('');
}

/** X.509 limits the length of a name; an origin may be longer. */
function commonName({ log, environment }: Config, what: string): string {
  const name = `${log.origin} ${what}`;
  return name.length <= NAME_CHARACTERS_MAX ? name : `pdfseald ${environment} ${what}`;
}

function nameOf(organization: string | undefined): Pick<DistinguishedName, 'organization'> {
  return organization === undefined ? {} : { organization };
}

/** Distinguishes the time-stamping units of one authority. */
function unitName(key: KeyName): Pick<DistinguishedName, 'organizationalUnit'> {
  const name = kmsKeyId(key);
  return { organizationalUnit: name.length <= NAME_CHARACTERS_MAX ? name : key.keyLabel };
}

function foreign(file: string, key: KeyName): OperatorError {
  return new OperatorError(
    `${file} is the certificate of another key than ${kmsKeyId(key)}; nothing is overwritten: move the file away`,
  );
}
