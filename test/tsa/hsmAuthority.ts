import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Test } from 'tap';
import type { Certificate } from '../../src/asn1/certificate.ts';
import type { AuthorityAlgorithm } from '../../src/asn1/signatureAlgorithm.ts';
import { initKey, useKey } from '../../src/kms/keyOperations.ts';
import { openPartitions, type Partitions } from '../../src/kms/partitions.ts';
import { unitSigner } from '../../src/seal/timestamping.ts';
import { type BuiltInAuthority, openAuthority } from '../../src/tsa/builtInAuthority.ts';
import { issueRoot, issueTimestampingCertificate } from '../../src/tsa/pki.ts';
import { openTrustedClock, type TrustedClock } from '../../src/tsa/trustedClock.ts';
import { DAY_MS, POLICY, SILENT } from '../support/authority.ts';
import { makeToken } from '../support/partitions.ts';

export interface HsmAuthority {
  authority: BuiltInAuthority;
  /** With the key that stamps, and nothing else. */
  partitions: Partitions<AuthorityAlgorithm>;
  clock: TrustedClock;
  root: Certificate;
  certificate: Certificate;
}

/** A built-in authority whose keys, its root's too, are in a SoftHSM token; valid from now on. Closed with the test. */
export async function openHsmAuthority(
  t: Test,
  algorithm: AuthorityAlgorithm = 'ecdsa-p256',
  signTimeoutMs = 60_000,
): Promise<HsmAuthority> {
  const dir = mkdtempSync(join(tmpdir(), 'pdfseal-authority-'));
  t.teardown(() => rmSync(dir, { recursive: true, force: true }));
  const rootToken = makeToken(dir, { label: 'vault', region: 'eu', keyLabel: 'root' });
  const unitToken = { ...rootToken, keyLabel: 'time' };
  await initKey(rootToken, algorithm);
  const key = await initKey(unitToken, algorithm);
  const validity = { notBefore: Date.now(), notAfter: Date.now() + 100 * DAY_MS };
  const [root, certificate] = await useKey(rootToken, async ({ spki }, sign) => {
    const rootKey = { key: { algorithm, spki }, sign };
    const root = await issueRoot({ subject: { commonName: 'Root' }, ...validity }, rootKey);
    const options = { subject: { commonName: 'TSU' }, key, issuer: root, ...validity };
    return [root, await issueTimestampingCertificate(options, rootKey)] as const;
  });
  const partitions = await openPartitions({
    partitions: [unitToken],
    keys: [key],
    quorum: { needed: 1 },
    duties: { timestamps: { policy: POLICY, accuracyMs: 1000 } },
    sessions: 2,
    signTimeoutMs,
    logger: SILENT,
  });
  t.teardown(() => partitions.close());
  const clock = await openTrustedClock({
    source: { trust: 'system' },
    accuracyMs: 1000,
    newest: 0,
    logger: SILENT,
  });
  t.teardown(() => clock.close());
  const units = partitions.signers.map((signer) => ({
    signer: unitSigner(signer),
    chain: [certificate, root],
  }));
  const authority = openAuthority({ units, policy: POLICY, clock, logger: SILENT });
  return { authority, partitions, clock, root, certificate };
}
