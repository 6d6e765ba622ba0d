import { existsSync, readFileSync } from 'node:fs';
import { type Certificate, describeSubject } from '../asn1/certificate.ts';
import { isListOf } from '../asn1/revocationList.ts';
import { toBase64, toHex } from '../base/bytes.ts';
import { sha256 } from '../base/crypto.ts';
import { OperatorError } from '../base/errors.ts';
import { systemReason } from '../base/systemReason.ts';
import type { Epoch } from '../log/epochs.ts';
import { environmentId } from '../manifest/manifest.ts';
import {
  readAuthority,
  type TrustedAuthority,
  type TrustedEpoch,
  type TrustFile,
} from '../manifest/trustFile.ts';
import { type CertificatesOnRecord, certificatesOnRecord } from '../store/certificatesOnRecord.ts';
import type { Store, StoreIdentity } from '../store/store.ts';
import { certificateFile, readInstalled, readRetiredRoots } from '../tsa/installed.ts';
import { certificatesIn } from '../tsa/pki.ts';
import { readRevocationLists } from '../tsa/revocationFiles.ts';
import type { Config } from './config.ts';
import { BUILT_IN } from './schema.ts';

/** The part of the configuration that names the authorities who may stamp. */
type AuthorityConfig = Pick<Config, 'timestamp' | 'certificatesDir'>;
/** Also names the witnesses that may have seen the log. */
type TrustConfig = AuthorityConfig & Pick<Config, 'witness'>;

/**
 * The keys and authorities that a verifier of this log's receipts trusts: the epochs of the log, a planned one among them, and who may
 * stamp. A root in the folder of certificates counts only if an epoch or an audit record names it: {@link strangers}. A revocation list
 * counts if such a root signed it. Throws OperatorError when the certificates of an authority are not there, or a list cannot be read.
 */
export function trustOf(
  { environment, logOrigin }: Pick<StoreIdentity, 'environment' | 'logOrigin'>,
  epochs: readonly Epoch[],
  config: TrustConfig,
  onRecord: CertificatesOnRecord,
): TrustFile {
  const known = epochs.flatMap(({ roots }) => roots.map((one) => readAuthority(one)));
  const own = ownRoots(config).filter(({ root }) => onRecord.has(digestOfRoot(root)));
  const timestampAuthorities = distinct([...own, ...remoteRoots(config), ...known]);
  const revocationLists = readRevocationLists(config.certificatesDir).filter((list) =>
    timestampAuthorities.some(({ root }) => isListOf(list, root)),
  );
  return {
    timestampAuthorities,
    ...(revocationLists.length > 0 && { revocationLists }),
    logs: [
      {
        origin: logOrigin,
        environment: environmentId(environment),
        epochs: epochs.map(trustedEpoch),
        ...witnessPolicy(config),
      },
    ],
  };
}

function witnessPolicy({ witness: { policy } }: TrustConfig): { witnessPolicy?: string } {
  if (policy === undefined) return {};
  try {
    return { witnessPolicy: readFileSync(policy, 'utf8') };
  } catch (cause) {
    throw new OperatorError(`witness.policy: cannot read ${policy} (${systemReason(cause)})`, { cause });
  }
}

/** The {@link trustOf} of a store's log. */
export async function trustOfStore(
  store: Pick<Store, 'identity' | 'epochs' | 'trail'>,
  config: TrustConfig,
): Promise<TrustFile> {
  const { list } = await store.epochs.newest();
  return trustOf(store.identity, list, config, await certificatesOnRecord(store));
}

/**
 * Messages about roots in the folder of certificates that neither an epoch nor an audit record names: anyone who can write to the folder
 * can have put them there.
 */
export function strangers(
  epochs: readonly Epoch[],
  config: AuthorityConfig,
  onRecord: CertificatesOnRecord,
): string[] {
  const known = new Set(epochs.flatMap(({ roots }) => roots.map(({ root }) => root)));
  return ownRoots(config)
    .filter(({ root }) => !known.has(toBase64(root.der)) && !onRecord.has(digestOfRoot(root)))
    .map(
      ({ root }) =>
        `${config.certificatesDir} has the root ${describeSubject(root)} (SHA-256 ${digestOfRoot(root)}), which no epoch and no audit record names`,
    );
}

export const STRANGER_REMEDY =
  'if you know the root, install its certificates again with `pdfseal hsm install-certificate`, which records it; if not, remove the file, and find out who put it there';

/** The {@link strangers} of a store. Throws OperatorError. */
export async function strangersOf(
  store: Pick<Store, 'epochs' | 'trail'>,
  config: AuthorityConfig,
): Promise<string[]> {
  return strangers((await store.epochs.newest()).list, config, await certificatesOnRecord(store));
}

/** The authorities that could stamp now, in the form that the store keeps for an epoch. Throws OperatorError. */
export function rootsNow(config: AuthorityConfig): Epoch['roots'] {
  return distinct([...ownRoots(config), ...remoteRoots(config)]).map(({ name, root }) => ({
    name,
    root: toBase64(root.der),
  }));
}

function trustedEpoch(
  { from, keys, quorum, timestamps }: Epoch,
  index: number,
  epochs: readonly Epoch[],
): TrustedEpoch {
  const next = epochs[index + 1];
  return {
    notBefore: from,
    ...(next && { notAfter: next.from - 1 }),
    quorum,
    timestamps,
    keys: keys.map(({ partition: _, ...key }) => key),
  };
}

/** All own authorities that are configured, in use or not, and those that were replaced: old receipts rest on them. */
function ownRoots({ timestamp, certificatesDir }: AuthorityConfig): TrustedAuthority[] {
  const isBuiltInUsed = timestamp.authorities.includes(BUILT_IN);
  const installed = timestamp.keys
    .filter((key) => isBuiltInUsed || existsSync(certificateFile(certificatesDir, key)))
    .flatMap((key) => readInstalled(certificatesDir, key).chain.slice(-1));
  const roots = [...installed, ...readRetiredRoots(certificatesDir)];
  return distinct(roots.map((root) => ({ name: BUILT_IN, root })));
}

/** All remote authorities that are configured, in use or not. */
function remoteRoots({ timestamp }: AuthorityConfig): TrustedAuthority[] {
  return Object.entries(timestamp.remotes).flatMap(([name, { rootsFile }]) =>
    certificatesIn(rootsFile).map((root) => ({ name, root })),
  );
}

function digestOfRoot({ der }: Certificate): string {
  return toHex(sha256(der));
}

function distinct(authorities: readonly TrustedAuthority[]): TrustedAuthority[] {
  const byRoot = new Map(authorities.map((each) => [`${each.name} ${toBase64(each.root.der)}`, each]));
  return [...byRoot.values()];
}
