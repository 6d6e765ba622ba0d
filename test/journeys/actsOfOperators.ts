/** Acts of an operator with the keys of the log, of a thief of keys, and of forgers: in what is shown and handed out. */
import { KeyDuties } from '../../src/kms/duties.ts';
import { encodeCheckpoint } from '../../src/log/checkpoint.ts';
import { encodeTlogProof } from '../../src/log/tlogProof.ts';
import { encodeReceipt, type Receipt, receiptDigest } from '../../src/manifest/receipt.ts';
import { encodeTrust, parseTrust } from '../../src/manifest/trustFile.ts';
import { actOfProcess } from '../../src/store/acts.ts';
import { openTrustedClock } from '../../src/tsa/trustedClock.ts';
import { SILENT } from '../support/authority.ts';
import { makeKey, signNote } from '../support/sealing.ts';
import { type Act, audit, check, codeOf, monitor, signers, verify, witness } from './noticers.ts';
import { cosignAt, type OperatedLog, ORIGIN } from './operatedLog.ts';
import {
  alpha,
  DAY_MS,
  day,
  EXPORTED,
  forger,
  forkOf,
  HOUR_MS,
  NEXT,
  own,
  present,
  sealNext,
} from './wholeLog.ts';

/** The text of a checkpoint of the newest size, with another root. */
async function otherRoot(log: OperatedLog): Promise<string> {
  const treeSize = (await log.head()).treeSize;
  return encodeCheckpoint({ origin: ORIGIN, treeSize, root: Buffer.alloc(32, 7) });
}

/** What a forger does last: the checksum is no secret. */
function finish(forged: Receipt): string {
  return encodeReceipt({ ...forged, receipt_sha512: receiptDigest(forged) });
}

const bytes = (base64: string) => Buffer.from(base64, 'base64');

export const ACTS_OF_OPERATORS: Record<string, Act> = {
  'Two copies of the log grow apart, and one is witnessed': {
    noticed: {
      ...{ verify: 'unknown witnesses_not_shown', monitor: 'unknown', check: 'bad' },
      ...{ signers: 'tree_unknown', witness: '422', audit: 'bad' },
    },
    async do(_, log) {
      const { fork, receipt } = await forkOf(log);
      const { checkpoint } = await log.head();
      await sealNext(log);
      await log.haveWitnessed();
      await log.noteLastCheckpoint();
      fork.write('theirs.txt', (await log.head()).checkpoint);
      log.write('receipt.json', encodeReceipt(receipt));
      for (const name of ['state/signers', 'witness']) log.lend(name, fork);
      const shown = { 'checkpoint/witnessed': cosignAt(checkpoint, Date.now() - 25 * HOUR_MS) };
      return {
        verify: () => verify(log, 'receipt.json', '--require', 'witness'),
        monitor: () => monitor(fork, shown),
        check: () => check(fork, '--against', 'theirs.txt'),
        signers: () => signers(fork),
        witness: () => witness(fork),
        audit: async () => {
          log.lend('state/last-checkpoint', fork);
          return audit(fork);
        },
      };
    },
  },
  'The log shows two roots of one size, and withholds its tiles': {
    noticed: { monitor: 'bad', check: 'bad', signers: 'tree_inconsistent', witness: '422' },
    async do(_, log) {
      const text = await otherRoot(log);
      const note = signNote(ORIGIN, text, [present.key]);
      log.write('shown.txt', note);
      return {
        monitor: () => monitor(log, { checkpoint: note, 'tile/': undefined }),
        check: () => check(log, '--against', 'shown.txt'),
        signers: () => signers(log, text),
        witness: () => witness(log, text),
      };
    },
  },
  'The store is replaced by an older copy, with its last-checkpoint file': {
    noticed: { monitor: 'bad', check: 'bad', signers: 'tree_unknown', witness: '409', audit: 'bad' },
    async do(_, log) {
      const older = log.copy();
      await log.inStore(({ trail }) => trail.append(actOfProcess('daemon', 'daemon.start', {})), NEXT);
      for (const days of [0, 1, 2]) await sealNext(log, { at: NEXT + days * DAY_MS });
      await log.haveWitnessed();
      await monitor(log);
      for (const name of ['state/store', 'state/last-checkpoint']) older.lend(name, log);
      return { audit: () => audit(log, '--newest', '7') };
    },
  },
  'Keys of the log and of its time-stamps are stolen, and make a receipt beside the log': {
    noticed: { verify: 'unknown witnesses_not_shown', monitor: 'bad', check: 'bad' },
    async do(_, log) {
      const { receipt } = await forkOf(log);
      log.give('receipt.json', encodeReceipt(receipt));
      return {
        verify: () => verify(log, 'receipt.json', '--require', 'witness'),
        check: () => check(log, '--against', 'receipt.json'),
      };
    },
  },
  'The key of a time-stamp authority is stolen': {
    noticed: { verify: 'unknown authority_unknown', monitor: 'unknown' },
    async do(_, log) {
      const { timestampAuthorities, ...trust } = parseTrust(log.read('trust.json'));
      const without = timestampAuthorities.filter(({ name }) => name !== 'beta');
      log.write('trust.json', encodeTrust({ ...trust, timestampAuthorities: without }));
    },
  },
  'A receipt is altered, and its checksum computed anew': {
    noticed: { verify: 'bad leaf_failed', monitor: 'bad', check: 'unknown' },
    async do(_, log) {
      const receipt = await log.receiptOf(own);
      const customer_reference = 'order 8';
      const manifest = { ...receipt.manifest, customer_reference };
      log.give('receipt.json', finish({ ...receipt, manifest, customer_reference }));
      return {
        check: () => check(log, '--against', 'receipt.json'),
      };
    },
  },
  'A bundle has the proof of another receipt': {
    noticed: { verify: 'bad proof_wrong', monitor: 'bad' },
    async do(t, log) {
      const receipt = await log.receiptOf(own);
      const ofOther = await log.witnessedProof(receipt.evidence.leaf_index + 1);
      log.give('bundle.json', await log.bundleOf(receipt));
      t.equal(await verify(log, 'bundle.json', '--require', 'time,witness'), 'good');
      log.give('bundle.json', await log.bundleOf(receipt, ofOther));
      return { verify: () => verify(log, 'bundle.json') };
    },
  },
  'A bundle has the proof of a fork': {
    noticed: {
      verify: 'bad log_forked',
      monitor: 'bad',
      check: 'bad',
      signers: 'tree_inconsistent',
      witness: '422',
    },
    async do(_, log) {
      const text = await otherRoot(log);
      const checkpoint = cosignAt(signNote(ORIGIN, text, [present.key]), NEXT);
      const receipt = await log.receiptOf(own);
      const { leaf_index: index, inclusion_proof: hashes } = receipt.evidence;
      const proof = encodeTlogProof({ index, proof: hashes.map(bytes), checkpoint });
      log.give('bundle.json', await log.bundleOf(receipt, proof));
      log.write('shown.txt', checkpoint);
      return {
        verify: () => verify(log, 'bundle.json'),
        check: () => check(log, '--against', 'shown.txt'),
        signers: () => signers(log, text),
        witness: () => witness(log, text),
      };
    },
  },
  'A receipt of a later epoch meets an older trust file': {
    noticed: { verify: 'unknown epoch_unknown', monitor: 'unknown', audit: 'unknown' },
    async do(_, log) {
      log.write('trust.json', log.read('older.json'));
      return { audit: () => audit(log, ...EXPORTED) };
    },
  },
  'A trust file gets a key of the forger': {
    noticed: { audit: 'bad' },
    async do(_, log) {
      const { logs, ...trust } = parseTrust(log.read('trust.json'));
      const forged = logs.map(({ epochs, ...one }) => ({
        ...one,
        epochs: epochs.map((epoch) => ({
          ...epoch,
          keys: [...epoch.keys, { ...forger.half, keyLabel: 'other' }],
        })),
      }));
      log.write('trust.json', encodeTrust({ ...trust, logs: forged }));
      return { audit: () => audit(log, ...EXPORTED) };
    },
  },
  'A document is sealed with a date in the future': {
    noticed: { verify: 'unknown in_the_future', monitor: 'unknown' },
    async do(_, log) {
      await sealNext(log, { at: Date.now() + 30 * DAY_MS });
    },
  },
  'A document is sealed before it was accepted': {
    noticed: { verify: 'unknown accepted_after_sealed', monitor: 'unknown' },
    async do(_, log) {
      await sealNext(log, {}, { acceptedAt: NEXT + HOUR_MS });
    },
  },
  'A document is sealed with a date far from its time-stamp': {
    noticed: { verify: 'bad time_stamp_failed', monitor: 'bad', check: 'bad' },
    async do(_, log) {
      await sealNext(log, { stampedAt: NEXT + HOUR_MS });
    },
  },
  'A witness cosigns a tree before it was sealed': {
    noticed: { verify: 'unknown cosigned_before_sealed', monitor: 'unknown' },
    async do(_, log) {
      const [wrong, { treeSize, checkpoint }] = [log.copy(), await log.head()];
      await wrong.putWitnessed(treeSize, cosignAt(checkpoint, day(6, 2) - HOUR_MS));
      log.give('bundle.json', await wrong.bundleOf(await log.receiptOf(own)));
      return { verify: () => verify(log, 'bundle.json') };
    },
  },
  'A time-stamp ends, and was not renewed': {
    noticed: { verify: 'unknown certificate_expired', check: 'good lapses' },
    async do(t, log) {
      await sealNext(log, { authority: alpha });
      t.equal(await verify(log), 'good', 'receipts verify for ever');
      return { verify: () => verify(log, 'receipt.json', '--require', 'time') };
    },
  },
  'The clock of the machine is set two years ahead': {
    noticed: {},
    async do(t) {
      let [wall, monotonic] = [NEXT, 0];
      const clock = await openTrustedClock({
        ...{ source: { trust: 'system' }, accuracyMs: 1000, newest: day(6, 2), lastDate: NEXT },
        ...{ aheadMsMax: DAY_MS, logger: SILENT, clock: () => wall, monotonicMs: () => monotonic },
      });
      t.teardown(() => clock.close());
      t.equal(clock.now(), NEXT);
      wall += 730 * DAY_MS;
      await clock.read();
      for (const one of [5_000, DAY_MS]) {
        wall += one;
        monotonic += one;
        await clock.read();
        t.throws(() => clock.now(), { name: 'TimestampUnavailable', trouble: 'clock_ahead' });
      }
    },
  },
  'A signer is asked for an ML-DSA line of another time': {
    noticed: { signers: 'time_refused' },
    async do(_, log) {
      const pq = makeKey('mldsa44', 'eu');
      const folder = { origin: ORIGIN, folder: log.file('state/signers'), sessions: 2, isUnit: false };
      const duties = new KeyDuties({ log: folder }, pq);
      const time = Math.floor(Date.now() / 1000) - 60;
      const asked = async () =>
        duties.assign({ kind: 'signCheckpoint', text: await otherRoot(log), time }, 1_000);
      return { signers: () => codeOf(asked()) };
    },
  },
};
