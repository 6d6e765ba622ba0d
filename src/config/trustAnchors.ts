import { existsSync, readFileSync } from 'node:fs';
import { toBase64 } from '../base/bytes.ts';
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
import type { Store, StoreIdentity } from '../store/store.ts';
import { certificateFile, readInstalled, readRetiredRoots } from '../tsa/installed.ts';
import { certificatesIn } from '../tsa/pki.ts';
import type { Config } from './config.ts';
import { BUILT_IN } from './schema.ts';

/** The part of the configuration that says who may stamp. */
type AuthorityConfig = Pick<Config, 'timestamp' | 'certificatesDir'>;
/** And who may have seen the log. */
type TrustConfig = AuthorityConfig & Pick<Config, 'witness'>;

/**
 * What a verifier of this log's receipts trusts: the epochs of the log, a planned one among them, and who may stamp. Throws
 * OperatorError when the certificates of an authority are not there.
 */
export function trustOf(
  { environment, logOrigin }: Pick<StoreIdentity, 'environment' | 'logOrigin'>,
  epochs: readonly Epoch[],
  config: TrustConfig,
): TrustFile {
  const known = epochs.flatMap(({ roots }) => roots.map((one) => readAuthority(one)));
  return {
    timestampAuthorities: distinct([...configuredRoots(config), ...known]),
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

/** {@link trustOf} the log of a store. */
export async function trustOfStore(
  store: Pick<Store, 'identity' | 'epochs'>,
  config: TrustConfig,
): Promise<TrustFile> {
  return trustOf(store.identity, (await store.epochs.newest()).list, config);
}

/** Who could stamp, as the epochs of the store keep it. Throws OperatorError. */
export function rootsNow(config: AuthorityConfig): Epoch['roots'] {
  return distinct(configuredRoots(config)).map(({ name, root }) => ({ name, root: toBase64(root.der) }));
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

/** All that are configured, in use or not, and the roots of our own that were replaced: old receipts rest on them. */
function configuredRoots({ timestamp, certificatesDir }: AuthorityConfig): TrustedAuthority[] {
  const isBuiltInUsed = timestamp.authorities.includes(BUILT_IN);
  const installed = timestamp.keys
    .filter((key) => isBuiltInUsed || existsSync(certificateFile(certificatesDir, key)))
    .flatMap((key) => readInstalled(certificatesDir, key).chain.slice(-1));
  const own = [...installed, ...readRetiredRoots(certificatesDir)];
  const remotes = Object.entries(timestamp.remotes).flatMap(([name, { rootsFile }]) =>
    certificatesIn(rootsFile).map((root) => ({ name, root })),
  );
  return [...own.map((root) => ({ name: BUILT_IN, root })), ...remotes];
}

function distinct(authorities: readonly TrustedAuthority[]): TrustedAuthority[] {
  const byRoot = new Map(authorities.map((each) => [`${each.name} ${toBase64(each.root.der)}`, each]));
  return [...byRoot.values()];
}
