import { Command } from 'commander';
import { type Certificate, describeSubject } from '../../asn1/certificate.ts';
import type { DistinguishedName } from '../../asn1/issue.ts';
import { OID } from '../../asn1/oid.ts';
import { encodePem } from '../../asn1/pem.ts';
import { toBase64, toHex } from '../../base/bytes.ts';
import { systemClock, toRfc3339 } from '../../base/clock.ts';
import { sha256 } from '../../base/crypto.ts';
import { OperatorError } from '../../base/errors.ts';
import { type Config, loadConfig } from '../../config/config.ts';
import { kmsKeyId } from '../../log/verifierKey.ts';
import type { ActObject } from '../../manifest/auditRecord.ts';
import type { CertifiedKey, KeyName } from '../../tsa/installed.ts';
import { chainForKey, requestCertificate } from '../../tsa/pki.ts';
import { explain } from '../help.ts';
import { actOnRecord, jsonOption, parseDateArgument } from '../options.ts';
import { note, print, printJson } from '../terminal.ts';
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
import { configuredKeys, type KeyChoice, pickKey, useAuthorityKey, withKeyOptions } from './hsmKeys.ts';
import { parseNamePart, parseSubjectArgument } from './subject.ts';

interface KeyOptions extends KeyChoice {
  config: string;
  json?: true;
}

export function csrCommand(): Command {
  return explain(
    withKeyOptions(new Command('csr'))
      .summary('print a certificate request for a time-stamping key')
      .description(
        'Prints a request (PKCS#10, PEM) for the certificate of a time-stamping key, signed by that key, for the ' +
          'certificate authority of your site. It asks for the critical extended key usage timeStamping and no other.',
      )
      .requiredOption(
        '--subject <name>',
        'such as "CN=Time-stamping 1,O=Example Corp,C=DE"',
        parseSubjectArgument,
      )
      .addOption(jsonOption())
      .action(printRequest),
    {
      examples: [
        'pdfseal hsm csr --config production.toml --key-label tsa-2026 --subject "CN=Time-stamping 1,O=Example Corp" >tsa.csr',
      ],
    },
  );
}

async function printRequest(options: KeyOptions & { subject: DistinguishedName }): Promise<void> {
  const token = pickTimestampKey(loadConfig(options.config), options);
  const request = await useAuthorityKey(token, (key) => requestCertificate(options.subject, key));
  const csr = encodePem('CERTIFICATE REQUEST', request);
  if (options.json) printJson({ ...presentName(token), csr });
  else process.stdout.write(csr);
}

export function installCertificateCommand(): Command {
  return explain(
    withKeyOptions(new Command('install-certificate'))
      .summary('install what your certificate authority sent')
      .description(
        'Installs what your certificate authority sent for a time-stamping key: its certificate and those above it up to ' +
          'the self-signed root, in one file or several, in any order, PEM or DER. Checks first that the key in the HSM is ' +
          'the certified one, that timeStamping is the only usage, and that all of them are a chain that is valid today, or ' +
          'from the day on which the certificate begins. ' +
          'What was installed before is kept beside it.',
      )
      .argument('<file...>', 'files with certificates')
      .addOption(jsonOption())
      .action(installCertificate),
    {
      notes: `The running daemon goes on with the certificates it has: start it again.`,
      examples: [
        'pdfseal hsm install-certificate tsa.pem site-ca.pem --config production.toml --key-label tsa-2026',
      ],
    },
  );
}

async function installCertificate(files: string[], options: KeyOptions): Promise<void> {
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
  report(installed, token, chain, options.json);
}

/** What the audit trail says of a chain, leaf first. */
function audited(chain: readonly Certificate[]): ActObject {
  return { certificates_sha256: chain.map(({ der }) => toHex(sha256(der))) };
}

/** Now or, for a certificate that begins later, then. */
function beginOf(certificates: readonly Certificate[], { spki }: CertifiedKey): number {
  const own = certificates.filter((certificate) => toBase64(certificate.spki) === spki);
  return Math.max(systemClock(), ...own.map(({ notBefore }) => notBefore));
}

export function certifyCommand(): Command {
  return explain(
    withKeyOptions(new Command('certify'))
      .summary('certify a time-stamping key with the root in the HSM')
      .description(
        'For sites without a certificate authority: issues a time-stamping key a new certificate from the root that `pdfseal ' +
          'init` made in the HSM, and installs it: for a new key, or before the old certificate ends. Where that root is ' +
          'lost, or there never was one, --new-root makes one beside the key first.',
      )
      .option(
        '--new-root',
        'make a root beside this key, in its token and of its algorithm, and certify with that',
      )
      .option(
        '--subject-organization <name>',
        'organization (O) in the certificate (default: the root’s)',
        parseNamePart,
      )
      .option(
        '--validity <duration>',
        'how long (default 1825d, at most as long as the root)',
        parseValidityArgument,
      )
      .option('--from <date>', 'when it begins (default: now)', parseDateArgument)
      .addOption(jsonOption())
      .action(certifyKey),
    {
      formerly: { '--organization-name': '--subject-organization' },
      notes: `The running daemon goes on with the certificate it has: start it again. A new key takes over on a date so: put it before the
old one in timestamp.keys, certify it with --from, and start the daemon again before that date.`,
      examples: [
        'pdfseal hsm certify --config production.toml --key-label tsa-2027 --subject-organization "Example Corp"',
        'pdfseal hsm certify --config production.toml --key-label tsa-2027 --new-root',
      ],
    },
  );
}

async function certifyKey(
  options: KeyOptions & { subjectOrganization?: string; validity?: number; from?: number; newRoot?: true },
): Promise<void> {
  const config = loadConfig(options.config);
  const token = pickTimestampKey(config, options);
  const key = await useAuthorityKey(token, async ({ key }) => key);
  const root = options.newRoot
    ? await makeOwnRoot(config, token, {
        algorithm: key.algorithm,
        organization: options.subjectOrganization,
        rootValidityMs: ROOT_VALIDITY_DEFAULT_MS,
      })
    : findOwnRoot(config);
  if (root === undefined) {
    throw new OperatorError(
      'there is no root of our own beside any key of timestamp.keys: make one with --new-root, or request a certificate with `pdfseal hsm csr`',
    );
  }
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
  report(file, token, chain, options.json);
}

function organizationOf({ name }: Certificate): string | undefined {
  return name.find(({ type }) => type === OID.organizationName)?.text;
}

function pickTimestampKey(config: Config, choice: KeyChoice) {
  const keys = configuredKeys(config).filter(({ purpose }) => purpose === 'time-stamp');
  return pickKey(keys, choice).token;
}

function report(file: string, name: KeyName, chain: readonly Certificate[], json: true | undefined): void {
  const until = toRfc3339(Math.min(...chain.map(({ notAfter }) => notAfter)));
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
