import { createPublicKey } from 'node:crypto';
import type { Logger } from 'pino';
import { readKey } from '../kms/keyOperations.ts';
import { bytesOrder } from '../kms/order.ts';
import { openPartitions } from '../kms/partitions.ts';
import type { TokenOptions } from '../kms/protocol.ts';
import { cosignerOf } from './keyFile.ts';
import type { CosigningKey } from './witness.ts';

/** Limit on one signature by the HSM. A log waits longer for its witness. */
const SIGN_MS_MAX = 5_000;

/**
 * An Ed25519 key in an HSM, by PKCS#11. Like a partition of a log, it signs in a separate process, which is replaced if the module hangs or
 * dies. Throws OperatorError.
 */
export async function openHsmKey(token: TokenOptions, name: string, logger: Logger): Promise<CosigningKey> {
  const partition = { region: 'witness', ...token };
  const key = await readKey(partition);
  const spki = createPublicKey({ key: Buffer.from(key.spki, 'base64'), format: 'der', type: 'spki' });
  const cosigner = cosignerOf(name, spki);
  const partitions = await openPartitions({
    partitions: [partition],
    keys: [key],
    quorum: { needed: 1 },
    sessions: 1,
    duties: { anything: true },
    signTimeoutMs: SIGN_MS_MAX,
    logger,
  });
  return {
    cosigner,
    sign: async (message) => {
      const signature = await partitions.signers[0]?.sign(bytesOrder(message));
      if (signature === undefined) throw new Error('the HSM cannot sign at the moment');
      return signature;
    },
    close: () => partitions.close(),
  };
}
