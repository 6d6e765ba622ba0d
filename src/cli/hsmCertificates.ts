import { InvalidArgumentError } from 'commander';
import { type Certificate, describeSubject } from '../asn1/certificate.ts';
import type { DistinguishedName } from '../asn1/issue.ts';
import { encodePem } from '../asn1/pem.ts';
import { systemClock, toTimestamp } from '../base/clock.ts';
import { OperatorError } from '../base/errors.ts';
import { type Config, loadConfig } from '../config.ts';
import { kmsKeyId } from '../manifest/receipt.ts';
import type { KeyName } from '../tsa/installed.ts';
import { chainForKey, requestCertificate } from '../tsa/pki.ts';
import { findOwnRoot, installChain, issueChain, readCertificateFile } from './authorityCertificates.ts';
import { configuredKeys, type KeyChoice, pickKey, useAuthorityKey } from './hsmKeys.ts';
import { parseDurationArgument } from './options.ts';
import { note, print, printJson } from './terminal.ts';

const DAY_MS = 86_400_000;
export const VALIDITY_DEFAULT_MS = 1825 * DAY_MS;
const VALIDITY_MS_MAX = 36_525 * DAY_MS;

/** Argument parser: milliseconds a certificate is valid. */
export function parseValidityArgument(text: string): number {
  const milliseconds = parseDurationArgument(text);
  if (milliseconds >= DAY_MS && milliseconds <= VALIDITY_MS_MAX) return milliseconds;
  throw new InvalidArgumentError('Expected from 1d to 36525d, a hundred years.');
}

interface KeyOptions extends KeyChoice {
  config: string;
  json?: true;
}

/** `pdfseal hsm csr` */
export async function printRequest(options: KeyOptions & { subject: DistinguishedName }): Promise<void> {
  const token = pickTimestampKey(loadConfig(options.config), options);
  const request = await useAuthorityKey(token, (key) => requestCertificate(options.subject, key));
  const csr = encodePem('CERTIFICATE REQUEST', request);
  if (options.json) printJson({ ...presentName(token), csr });
  else process.stdout.write(csr);
}

/** `pdfseal hsm install-certificate` */
export async function installCertificate(files: string[], options: KeyOptions): Promise<void> {
  const config = loadConfig(options.config);
  const token = pickTimestampKey(config, options);
  const certificates = files.flatMap(readCertificateFile);
  const chain = await useAuthorityKey(token, async ({ key }) =>
    chainForKey(key, certificates, systemClock()),
  );
  report(installChain(config.certificatesDir, token, chain), token, chain, options.json);
}

/** `pdfseal hsm certify` */
export async function certifyKey(
  options: KeyOptions & { organizationName?: string; validity?: number },
): Promise<void> {
  const config = loadConfig(options.config);
  const token = pickTimestampKey(config, options);
  const root = findOwnRoot(config);
  if (root === undefined) {
    throw new OperatorError(
      'there is no root of our own beside any key of timestamp.keys: request a certificate with `pdfseal hsm csr`',
    );
  }
  const key = await useAuthorityKey(token, async ({ key }) => key);
  const chain = await useAuthorityKey(root.token, (rootKey) =>
    issueChain(config, key, root.certificate, rootKey, {
      organization: options.organizationName ?? organizationOf(root.certificate),
      certificateValidityMs:
        options.validity ?? Math.min(VALIDITY_DEFAULT_MS, root.certificate.notAfter - systemClock()),
    }),
  );
  report(installChain(config.certificatesDir, token, chain), token, chain, options.json);
}

function organizationOf({ x509 }: Certificate): string | undefined {
  const { O: name } = x509.toLegacyObject().subject;
  return typeof name === 'string' ? name : undefined;
}

function pickTimestampKey(config: Config, choice: KeyChoice) {
  const keys = configuredKeys(config).filter(({ purpose }) => purpose === 'time-stamp');
  return pickKey(keys, choice).token;
}

function report(file: string, name: KeyName, chain: readonly Certificate[], json: true | undefined): void {
  const until = toTimestamp(Math.min(...chain.map(({ notAfter }) => notAfter)));
  const subjects = chain.map(describeSubject);
  if (json) printJson({ ...presentName(name), chain: subjects, not_after: until, file });
  else print(`${kmsKeyId(name)}  ${subjects[0]}  valid until ${until}  ${file}`);
  note(
    'Next: start pdfseald again, and give verifiers a new trust file if the root is new: pdfseal trust export',
  );
}

function presentName({ region, keyLabel }: KeyName) {
  return { region, key_label: keyLabel };
}
