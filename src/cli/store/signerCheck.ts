import { fromBase64 } from '../../base/bytes.ts';
import { systemClock } from '../../base/clock.ts';
import type { Config } from '../../config/config.ts';
import { heldTrees } from '../../kms/heldTrees.ts';
import type { Tree } from '../../kms/protocol.ts';
import { termAt } from '../../log/epochs.ts';
import { kmsKeyId } from '../../log/verifierKey.ts';
import { contradiction } from '../../prove/trail/history.ts';
import type { Store } from '../../store/store.ts';

/** Findings from querying the signers of the log, in lines. */
export interface SignerFindings {
  /** The log contains none of the trees that a signer signed last. */
  problems: string[];
  /** Signers whose memory is unknown here, with the reason. */
  unknown: string[];
}

/**
 * Compares the log with the trees that its signers signed last. Each holds as many trees as there can be batches on their way, and one that
 * was committed.
 */
export async function examineSigners(
  store: Pick<Store, 'identity' | 'epochs' | 'log'>,
  { kms, signersDir: folder }: Pick<Config, 'kms' | 'signersDir'>,
): Promise<SignerFindings> {
  const origin = store.identity.logOrigin;
  const findings: SignerFindings = { problems: [], unknown: [] };
  const { epoch } = termAt(await store.epochs.newest(), systemClock());
  for (const key of epoch.keys) {
    const token = kms.partitions.find(
      ({ region, keyLabel }) => region === key.region && keyLabel === key.partition,
    );
    const name = kmsKeyId(key);
    try {
      const trees = token && (await heldTrees(token, { origin, folder, spki: key.spki }));
      if (trees === undefined)
        findings.unknown.push(`${name}: what its signer remembers is not on this machine`);
      else if (trees.length > 0 && !(await containsOne(store, trees)))
        findings.problems.push(
          `the signer of ${name} signed trees of ${trees.map(({ size }) => size).join(', ')} leaves last, and the log contains none of them: the store is an older copy, or another log. Restore the newest backup`,
        );
    } catch (error) {
      findings.unknown.push(`${name}: ${(error as Error).message}`);
    }
  }
  return findings;
}

/** Read after the signer's answer, so that the log has at least the batches that were committed then. */
async function containsOne(store: Pick<Store, 'identity' | 'log'>, trees: readonly Tree[]): Promise<boolean> {
  const head = await store.log.head();
  for (const { size, root } of trees) {
    const earlier = {
      origin: store.identity.logOrigin,
      treeSize: size,
      root: fromBase64(root) ?? new Uint8Array(),
    };
    if (size === 0 || (await contradiction(store, earlier, head)) === undefined) return true;
  }
  return false;
}
