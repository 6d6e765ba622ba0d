import { type Certificate, describeSubject } from '../../asn1/certificate.ts';
import { OID } from '../../asn1/oid.ts';
import { encodePem } from '../../asn1/pem.ts';
import { toBase64, toHex } from '../../base/bytes.ts';
import { systemClock, toRfc3339 } from '../../base/clock.ts';
import { sha256 } from '../../base/crypto.ts';
import { ownProcess } from '../../base/env.ts';
import { OperatorError } from '../../base/errors.ts';
import { type Config, loadConfig } from '../../config/config.ts';
import { kmsKeyId } from '../../log/verifierKey.ts';
import type { ActObject } from '../../manifest/auditRecord.ts';
import type { CertifiedKey, KeyName } from '../../tsa/installed.ts';
import { chainForKey, requestCertificate } from '../../tsa/pki.ts';
import { argument, command, option } from '../command.ts';
import { parseDateArgument } from '../options.ts';
import { note, printResult } from '../terminal.ts';
import { actOnRecord } from '../withStore.ts';
import {
  findOwnRoot,
  installChain,
  issueChain,
  makeOwnRoot,
  parseValidityArgument,
  ROOT_VALIDITY_DEFAULT_MS,
  readCertificatesFrom,
  VALIDITY_DEFAULT_MS,
} from './authorityCertificates.ts';
import { configuredKeys, KEY_OPTIONS, type KeyOptions, pickKey, useAuthorityKey } from './hsmKeys.ts';
import { requireUncompromised } from './revocations.ts';
import { parseNamePart, parseSubjectArgument } from './subject.ts';

export const csrCommand = command('csr', {
  summary: 'print a certificate request for a time-stamping key',
  description:
    'Prints a certificate request (PKCS#10, PEM) for a time-stamping key, signed by that key, for your certificate authority. The ' +
    'request asks for the critical extended key usage timeStamping only.',
  options: [
    ...KEY_OPTIONS,
    option('--subject <name>', 'such as "CN=Time-stamping 1,O=Example Corp,C=DE"', {
      parse: parseSubjectArgument,
      required: true,
    }),
  ],
  examples: [
    'pdfseal hsm csr --config production.toml --key-label tsa-2026 --subject "CN=Time-stamping 1,O=Example Corp" >tsa.csr',
  ],
  async run(options) {
    const token = pickTimestampKey(loadConfig(options.config), options);
    const request = await useAuthorityKey(token, (key) => requestCertificate(options.subject, key));
    const csr = encodePem('CERTIFICATE REQUEST', request);
    printResult({ ...presentName(token), csr }, () => ownProcess().stdout.write(csr));
  },
});

export const installCertificateCommand = command('install-certificate', {
  summary: 'install the certificate from your certificate authority',
  description:
    'Installs the certificate of a time-stamping key, with all certificates up to the self-signed root: in one file or several, in ' +
    'any order, PEM or DER. First checks that the certificate is for the key in the HSM, that timeStamping is its only usage, and ' +
    'that the chain is valid today, or when the certificate begins. Keeps the previous certificates next to the new ones.',
  arguments: [argument('<file...>', 'files with certificates')],
  options: KEY_OPTIONS,
  notes: `Restart the daemon: it reads certificates only at its start.`,
  examples: [
    'pdfseal hsm install-certificate tsa.pem site-ca.pem --config production.toml --key-label tsa-2026',
  ],
  async run(options, files) {
    const config = loadConfig(options.config);
    const token = pickTimestampKey(config, options);
    const certificates = files.flatMap(readCertificatesFrom);
    const chain = await useAuthorityKey(token, async ({ key }) =>
      chainForKey(key, certificates, beginOf(certificates, key)),
    );
    const installed = await actOnRecord(
      options.config,
      ['hsm.install_certificate', { key: kmsKeyId(token), ...audited(chain) }],
      async () => installChain(config.certificatesDir, token, chain),
    );
    report(installed, token, chain);
  },
});

/** The description of a chain, leaf first, for the audit trail. */
function audited(chain: readonly Certificate[]): ActObject {
  return { certificates_sha256: chain.map(({ der }) => toHex(sha256(der))) };
}

/** The present, or the beginning of the certificate if that is later. */
function beginOf(certificates: readonly Certificate[], { spki }: CertifiedKey): number {
  const own = certificates.filter((certificate) => toBase64(certificate.spki) === spki);
  return Math.max(systemClock(), ...own.map(({ notBefore }) => notBefore));
}

export const certifyCommand = command('certify', {
  summary: 'certify a time-stamping key with the root in the HSM',
  description:
    'For sites without a certificate authority: issues and installs a certificate for a time-stamping key, for a new key or before ' +
    'the old certificate expires. The issuer is the root that `pdfseal init` created in the HSM. If that root is lost, or never ' +
    'existed, --new-root creates one first.',
  options: [
    ...KEY_OPTIONS,
    option(
      '--new-root',
      'create a root with the same algorithm in the token of this key, and certify with that root',
    ),
    option(
      '--subject-organization <name>',
      'organization (O) in the certificate (default: as in the root)',
      parseNamePart,
    ),
    option(
      '--validity <duration>',
      'how long the certificate is valid (default: 1825d, but not longer than the root)',
      parseValidityArgument,
    ),
    option('--from <date>', 'when the certificate begins (default: now)', parseDateArgument),
  ],
  formerly: { '--organization-name': '--subject-organization' },
  notes: `Restart the daemon: it reads certificates only at its start. To change to a new key on a date: put the new key before the old
one in timestamp.keys, certify it with --from, and restart the daemon before that date.`,
  examples: [
    'pdfseal hsm certify --config production.toml --key-label tsa-2027 --subject-organization "Example Corp"',
    'pdfseal hsm certify --config production.toml --key-label tsa-2027 --new-root',
  ],
  async run(options) {
    const config = loadConfig(options.config);
    const token = pickTimestampKey(config, options);
    const key = await useAuthorityKey(token, async ({ key }) => key);
    requireUncompromised(config, key);
    const root = options.newRoot
      ? await makeOwnRoot(config, token, {
          algorithm: key.algorithm,
          organization: options.subjectOrganization,
          rootValidityMs: ROOT_VALIDITY_DEFAULT_MS,
        })
      : findOwnRoot(config);
    if (root === undefined)
      throw new OperatorError(
        'no key of timestamp.keys has a root in the HSM: create one with --new-root, or request a certificate with `pdfseal hsm csr`',
      );
    const from = options.from ?? systemClock();
    const terms = {
      organization: options.subjectOrganization ?? organizationOf(root.certificate),
      certificateValidityMs:
        options.validity ?? Math.min(VALIDITY_DEFAULT_MS, root.certificate.notAfter - from),
    };
    const { chain, file } = await actOnRecord(
      options.config,
      ['hsm.certify', { key: kmsKeyId(token), root: kmsKeyId(root.token), from: toRfc3339(from) }],
      async () => {
        const chain = await useAuthorityKey(root.token, (rootKey) =>
          issueChain(config, key, root.certificate, rootKey, terms, from),
        );
        return { chain, file: installChain(config.certificatesDir, token, chain) };
      },
      ({ chain }) => audited(chain),
    );
    report(file, token, chain);
  },
});

function organizationOf({ name }: Certificate): string | undefined {
  return name.find(({ type }) => type === OID.organizationName)?.text;
}

function pickTimestampKey(config: Config, choice: KeyOptions) {
  const keys = configuredKeys(config).filter(({ purpose }) => purpose === 'time-stamp');
  return pickKey(keys, choice).token;
}

function report(file: string, name: KeyName, chain: readonly Certificate[]): void {
  const until = toRfc3339(Math.min(...chain.map(({ notAfter }) => notAfter)));
  const subjects = chain.map(describeSubject);
  printResult(
    { ...presentName(name), chain: subjects, not_after: until, file },
    `${kmsKeyId(name)}  ${subjects[0]}  valid until ${until}  ${file}`,
  );
  note(
    'Next: restart pdfseald. If the root is new, also give verifiers a new trust file: pdfseal trust export',
  );
}

function presentName({ region, keyLabel }: KeyName) {
  return { region, key_label: keyLabel };
}
