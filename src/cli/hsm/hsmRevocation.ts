import { existsSync } from 'node:fs';
import { type Certificate, describeSubject, isSelfIssued } from '../../asn1/certificate.ts';
import { type RevocationList, type RevocationReason, revocationsIn } from '../../asn1/revocationList.ts';
import { bytesEqual, toHex } from '../../base/bytes.ts';
import { systemClock, toRfc3339 } from '../../base/clock.ts';
import { sha256 } from '../../base/crypto.ts';
import { OperatorError } from '../../base/errors.ts';
import { type Config, loadConfig } from '../../config/config.ts';
import { kmsKeyId } from '../../log/verifierKey.ts';
import type { ActObject } from '../../manifest/auditRecord.ts';
import {
  certificateFile,
  certificateFiles,
  type Installed,
  type KeyName,
  readInstalled,
} from '../../tsa/installed.ts';
import { readRevocationLists } from '../../tsa/revocationFiles.ts';
import { argument, command, option } from '../command.ts';
import { CONFIG, parseDateArgument } from '../options.ts';
import { note, print, printResult } from '../terminal.ts';
import { actOnRecord } from '../withStore.ts';
import {
  type OwnRoot,
  ownRoots,
  parseValidityArgument,
  readCertificatesFrom,
} from './authorityCertificates.ts';
import { configuredKeys } from './hsmKeys.ts';
import { isIssuedBy, listBefore, signList, withRevoked } from './revocations.ts';

/** The reasons that verifiers tell apart, under their names in OpenSSL and RFC 5280 with dashes. */
const REASONS = {
  superseded: 'superseded',
  'cessation-of-operation': 'cessationOfOperation',
  'affiliation-changed': 'affiliationChanged',
  'key-compromise': 'keyCompromise',
} as const satisfies Record<string, RevocationReason>;

const DAY_MS = 86_400_000;
const LIST_VALIDITY_DEFAULT_MS = 90 * DAY_MS;

const VALIDITY = option(
  '--validity <duration>',
  'how long until the next list is due (default: 90d)',
  parseValidityArgument,
);

export const revokeCertificateCommand = command('revoke-certificate', {
  asks: () => 'A certificate stays revoked for ever.',
  summary: 'revoke a certificate that a root in the HSM issued',
  description:
    'Puts a time-stamping certificate on the revocation list of the root in the HSM that issued it, and signs the list with that root. ' +
    'With --reason key-compromise, all certificates of the same key come on the list, and verifiers believe none of its time-stamps ' +
    'any longer, unless another key renewed them before. With the other reasons, the time-stamps from before the revocation still ' +
    'count. A certificate on the list stays there for ever.',
  arguments: [
    argument(
      '<certificate>',
      'a file with the certificate, or its key as <region>/<label>: the certificate that is installed for the key',
    ),
  ],
  options: [
    CONFIG,
    option('--reason <text>', Object.keys(REASONS).join(', '), {
      choices: Object.keys(REASONS) as (keyof typeof REASONS)[],
      required: true,
    }),
    option(
      '--invalid-since <time>',
      'since when the key may be in other hands (default: not known)',
      parseDateArgument,
    ),
    option('--in-use', 'revoke it even if it is installed, so that its key stamps nothing more'),
    VALIDITY,
  ],
  notes: `A running daemon stamps nothing more with a revoked certificate, from the next time-stamp on. So restart it before you revoke a
certificate that you have replaced: until then, it stamps with the old one. Then give verifiers a new trust file: pdfseal trust export.`,
  examples: [
    'pdfseal hsm revoke-certificate old-tsa.pem --reason superseded --config production.toml',
    'pdfseal hsm revoke-certificate eu-west/tsa-2026 --reason key-compromise --invalid-since 2027-03-01 --in-use --config production.toml',
  ],
  async run({ config: file, reason: name, invalidSince, inUse, validity }, wanted) {
    const config = loadConfig(file);
    const now = systemClock();
    if (invalidSince !== undefined && invalidSince > now)
      throw new OperatorError(`--invalid-since ${toRfc3339(invalidSince)} is in the future`);
    const reason = REASONS[name];
    const named = findCertificate(config, wanted);
    const root = ownRoots(config).find(({ certificate }) => isIssuedBy(named, certificate));
    if (root === undefined)
      throw new OperatorError(
        `${describeSubject(named)} was issued by none of the roots in the HSM: have the authority that issued it revoke it`,
      );
    const certificates = reason === 'keyCompromise' ? allOfItsKey(config, named, root.certificate) : [named];
    if (!inUse) requireStamping(config, certificates);
    const before = await listBefore(config, root);
    const added = certificates.map((certificate) => ({
      certificate,
      reason,
      invalidSince,
    }));
    const revoked = withRevoked(before.list, added, now);
    const object = {
      root: kmsKeyId(root.token),
      certificates_sha256: certificates.map(({ der }) => toHex(sha256(der))),
      reason,
      ...(invalidSince !== undefined && { invalid_since: toRfc3339(invalidSince) }),
    };
    const list = await actOnRecord(
      file,
      ['hsm.revoke_certificate', object],
      () => signList(root, before, { revoked, validityMs: validity ?? LIST_VALIDITY_DEFAULT_MS, now }),
      audited,
    );
    const subjects = certificates.map(describeSubject);
    printResult({ revoked: subjects, reason: name, ...presentList(root, list, before.file) }, () => {
      for (const subject of subjects) print(`revoked  ${subject}  ${name}`);
      print(describeList(root, list, before.file));
    });
    note(
      'Next: restart the daemon if it still stamps with such a certificate; then give verifiers a new trust file: pdfseal trust export',
    );
  },
});

export const signRevocationListCommand = command('sign-revocation-list', {
  summary: 'sign the revocation lists of the roots in the HSM again',
  description:
    'Signs the next revocation list of each root in the HSM, with the same certificates on it as before. Verifiers learn from a list ' +
    'that is newer than a time-stamp that its certificate was not revoked. Run it before the next list is due, and before you ' +
    'export a trust file.',
  options: [CONFIG, VALIDITY],
  examples: ['pdfseal hsm sign-revocation-list --config production.toml --validity 180d'],
  async run({ config: file, validity }) {
    const config = loadConfig(file);
    const roots = ownRoots(config);
    if (roots.length === 0)
      throw new OperatorError(
        'no key of timestamp.keys has a root in the HSM: the authority that issued the certificates signs the revocation lists',
      );
    const signed: ReturnType<typeof presentList>[] = [];
    const lines: string[] = [];
    for (const root of roots) {
      const before = await listBefore(config, root);
      const now = systemClock();
      const revoked = withRevoked(before.list, [], now);
      const list = await actOnRecord(
        file,
        ['hsm.sign_revocation_list', { root: kmsKeyId(root.token) }],
        () => signList(root, before, { revoked, validityMs: validity ?? LIST_VALIDITY_DEFAULT_MS, now }),
        audited,
      );
      signed.push(presentList(root, list, before.file));
      lines.push(describeList(root, list, before.file));
    }
    printResult({ lists: signed }, lines.join('\n'));
    note('Next: give verifiers a new trust file: pdfseal trust export');
  },
});

/** The certificate of a key, or the first in a file that is not a root. Throws OperatorError. */
function findCertificate(config: Config, wanted: string): Certificate {
  const key = configuredKeys(config).find(({ token }) => kmsKeyId(token) === wanted);
  const found =
    key?.purpose === 'time-stamp'
      ? installedFor(config, key.token)
      : readCertificatesFrom(wanted).find((one) => !isSelfIssued(one));
  if (found !== undefined) return found;
  throw new OperatorError(
    `${wanted} has only a root: a root cannot revoke itself. Take it out of the trust files of verifiers`,
  );
}

function installedFor({ certificatesDir }: Config, key: KeyName): Certificate | undefined {
  return readInstalled(certificatesDir, key).chain[0];
}

/** All certificates of the key that the root issued: those in the folder, and the one that was named. */
function allOfItsKey(config: Config, named: Certificate, root: Certificate): Certificate[] {
  const all = certificateFiles(config.certificatesDir).flatMap(readCertificatesFrom);
  const known = all.filter(
    (one) => bytesEqual(one.spki, named.spki) && !bytesEqual(one.der, named.der) && isIssuedBy(one, root),
  );
  return [named, ...new Map(known.map((one) => [toHex(one.serial), one])).values()];
}

/** Throws OperatorError if no configured key would be left that can stamp. */
function requireStamping(config: Config, certificates: readonly Certificate[]): void {
  const lists = readRevocationLists(config.certificatesDir);
  const installed = config.timestamp.keys
    .filter((key) => existsSync(certificateFile(config.certificatesDir, key)))
    .map((key) => readInstalled(config.certificatesDir, key));
  const isRevoked = ({ chain }: Installed) =>
    certificates.some(({ der }) => chain.some((one) => bytesEqual(one.der, der)));
  const inUse = installed.find(isRevoked);
  const isAnotherLeft = installed.some(
    (one) => !isRevoked(one) && revocationsIn(one.chain, lists).length === 0,
  );
  if (inUse === undefined || isAnotherLeft) return;
  throw new OperatorError(
    `${certificates.map(describeSubject).join(', ')} is installed for ${kmsKeyId(inUse.key)}, and nothing would be stamped any more. ` +
      'Certify the key again, or another key, first (pdfseal hsm certify); or revoke it all the same, with --in-use',
  );
}

function audited(list: RevocationList): ActObject {
  return { number: String(list.number), list_sha256: toHex(sha256(list.der)) };
}

function presentList({ token }: OwnRoot, { number, revoked, nextUpdate = 0 }: RevocationList, file: string) {
  return {
    root: kmsKeyId(token),
    number: String(number),
    entries: revoked.size,
    next_update: toRfc3339(nextUpdate),
    file,
  };
}

function describeList(root: OwnRoot, list: RevocationList, file: string): string {
  const { number, entries, next_update: next } = presentList(root, list, file);
  return `list     ${kmsKeyId(root.token)}  number ${number}  ${entries} certificates  next list due ${next}  ${file}`;
}
