import { writeFileAtomically } from '../../base/atomicFile.ts';
import { fromUtf8, toHex } from '../../base/bytes.ts';
import { toRfc3339 } from '../../base/clock.ts';
import { sha256 } from '../../base/crypto.ts';
import { ownProcess } from '../../base/env.ts';
import { OperatorError } from '../../base/errors.ts';
import type { Config } from '../../config/config.ts';
import { STRANGER_REMEDY, strangers, trustOf } from '../../config/trustAnchors.ts';
import type { Epoch } from '../../log/epochs.ts';
import { encodeTrust } from '../../manifest/trustFile.ts';
import { EpochSeal } from '../../prove/epochs/epochSeal.ts';
import { missingRoots } from '../../prove/renewal/renewalCheck.ts';
import { doubtOf } from '../../prove/trail/lastCheckpoint.ts';
import { actOfProcess } from '../../store/acts.ts';
import type { CertificatesOnRecord } from '../../store/certificatesOnRecord.ts';
import type { Store } from '../../store/store.ts';
import { command, group, option } from '../command.ts';
import { CONFIG } from '../options.ts';
import { note, printResult } from '../terminal.ts';
import { withStore } from '../withStore.ts';

const exportCommand = command('export', {
  description:
    'Writes the trust file: the log, the keys and the quorum of each epoch (also of a planned one, once its plan is sealed), and the ' +
    'time-stamp authorities. Refuses if the epochs in the store are not those that the log sealed, and leaves out roots in the folder of certificates that no sealed record names. ' +
    'Give it to everyone who verifies receipts, through a channel that they trust. It contains no secrets.',
  options: [CONFIG, option('--output <path>', 'write to this file instead of standard output')],
  examples: [
    'pdfseal trust export --config /etc/pdfseal/production.toml --output trust.json',
    'pdfseal verify contract.pdf contract.pdf.receipt.json --trust trust.json',
  ],
  async run({ config: file, output }) {
    const { text, digest } = await withStore(file, 'write', async (store, config) => {
      const { epochs, onRecord } = await published(store, config);
      const trust = trustOf(store.identity, epochs, config, onRecord);
      for (const { detail, remedy } of await missingRoots(store, trust.timestampAuthorities)) {
        note(`pdfseal: ${detail}`);
        note(`  → ${remedy}`);
      }
      const text = encodeTrust(trust);
      const digest = toHex(sha256(fromUtf8(text)));
      await store.trail.append(actOfProcess('command', 'trust.export', { sha256: digest }));
      return { text, digest };
    });
    if (output === undefined) {
      ownProcess().stdout.write(text);
      return;
    }
    writeFileAtomically(output, text);
    printResult({ trust_file: output, sha256: digest }, () =>
      note(`wrote ${output}, SHA-256 ${digest}; verifiers compare this with what pdfseal verify prints`),
    );
  },
});

export const trustCommand = group('trust', 'Exports the trust file.', [exportCommand]);

/**
 * The epochs and certificates that the log sealed, and no others. Reports on standard error which are left out, and why. Throws
 * OperatorError.
 */
async function published(
  store: Store,
  config: Config,
): Promise<{ epochs: Epoch[]; onRecord: CertificatesOnRecord }> {
  const { epochs, sealed, sealedUntil, certificates: all } = await new EpochSeal(store).read();
  // The log itself can be another one: the checkpoints outside the store show that.
  const doubt = await doubtOf(store, config.log.lastCheckpointFile);
  if (doubt !== undefined) throw new OperatorError(doubt.reason, { remedy: doubt.remedy });
  // Only in a log without leaves, the first epoch is not sealed.
  const isPublished = (index: number) => index === 0 || sealed.list[index]?.isSealed === true;
  for (const { from } of epochs.list.filter((_, index) => !isPublished(index)))
    note(
      `pdfseal: the epoch from ${toRfc3339(from)} on is left out: the log has not sealed its plan yet. Start the daemon, and export again`,
    );
  const isEmpty = (await store.log.head()) === undefined;
  const onRecord = new Map([...all].filter(([, number]) => isEmpty || number <= sealedUntil));
  for (const stranger of strangers(epochs.list, config, all)) {
    note(`pdfseal: left out: ${stranger}`);
    note(`  → ${STRANGER_REMEDY}`);
  }
  if (strangers(epochs.list, config, onRecord).length > strangers(epochs.list, config, all).length)
    note(
      'pdfseal: the root of a new certificate is left out: the log has not sealed its audit record yet. Start the daemon, and export again',
    );
  return { epochs: epochs.list.filter((_, index) => isPublished(index)), onRecord };
}
