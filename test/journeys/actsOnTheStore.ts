/** Acts of somebody who can write the store, or the folder next to it. */
import { mkdirSync } from 'node:fs';
import { encodePem } from '../../src/asn1/pem.ts';
import { BrokenInvariant } from '../../src/base/assert.ts';
import { faultOfWaiting } from '../../src/job/acceptedJob.ts';
import { newJobId } from '../../src/job/id.ts';
import type { ReceivedJob } from '../../src/job/job.ts';
import type { Epoch } from '../../src/log/epochs.ts';
import { HASH_BYTES } from '../../src/log/tiles.ts';
import { encodeReceipt } from '../../src/manifest/receipt.ts';
import { actOfProcess } from '../../src/store/acts.ts';
import { encodeJob } from '../../src/store/jobCodec.ts';
import type { NamedDatabase } from '../../src/store/lmdb/databases.ts';
import { counterKey, idKey } from '../../src/store/lmdb/keyLayout.ts';
import { encodeRecord, parseRecord } from '../../src/store/records.ts';
import { YearlyAuthority } from '../support/renewals.ts';
import { tamper } from '../support/wholeStore.ts';
import { type Act, audit, verify } from './noticers.ts';
import { forger, NEXT, OLD, old, own, sealNext } from './wholeLog.ts';

async function flip(database: NamedDatabase, key: Uint8Array, at: number): Promise<void> {
  const value = Buffer.from(database.getBinary(key) ?? '');
  value.writeUInt8(value.readUInt8(at) ^ 1, at);
  await database.put(key, value);
}

async function empty(database: NamedDatabase): Promise<void> {
  for (const key of [...database.getKeys({})]) await database.remove(Buffer.from(key));
}

const BY_HAND = { ...own, id: newJobId() };

export const ACTS_ON_THE_STORE: Record<string, Act> = {
  'An unknown root is put into the folder of certificates': {
    noticed: { verify: 'unknown authority_unknown', monitor: 'bad', check: 'bad', audit: 'bad' },
    async do(_, log) {
      const stranger = await YearlyAuthority.make('stranger', 20);
      mkdirSync(log.file('state/certificates/retired'), { recursive: true });
      const { der } = stranger.trusted.root;
      log.write('state/certificates/retired/x.pem', encodePem('CERTIFICATE', der));
      log.write('trust.json', await log.exportTrust());
      const receipt = await sealNext(log.copy(), { authority: stranger, byThief: true });
      log.give('receipt.json', encodeReceipt(receipt));
    },
  },
  'A job that no request makes is written into the embedded store': {
    noticed: { check: 'bad' },
    async do(t, log) {
      const job = { ...BY_HAND, mode: 'whatever' as ReceivedJob['mode'] };
      t.match(faultOfWaiting(job, undefined), /^mode/, 'the daemon fails it at its start');
      await log.inStore(({ jobs }) => jobs.accept(job));
    },
  },
  'A job such as a client could send is written into the embedded store': {
    noticed: {},
    async do(_, log) {
      await log.inStore(({ jobs }) => jobs.accept(BY_HAND));
    },
  },
  'A job in the store is altered after it was sealed': {
    noticed: { check: 'bad', audit: 'unknown' },
    async do(t, log) {
      const altered = encodeJob({ ...own, customerReference: 'order 8' });
      await tamper(log.storeDir, ({ jobs }) => jobs.put(idKey('job', own.id) ?? altered, altered));
      await t.rejects(log.receiptOf(own), BrokenInvariant);
    },
  },
  'A leaf in the store is altered': {
    noticed: { check: 'bad' },
    async do(_, log) {
      const { evidence } = await log.receiptOf(own);
      await tamper(log.storeDir, ({ leaves }) => flip(leaves, counterKey(evidence.leaf_index), 60));
    },
  },
  'A tile in the store is altered': {
    noticed: {
      ...{ monitor: 'unknown', check: 'bad' },
      ...{ signers: 'tree_unknown', witness: '422', audit: 'unknown' },
    },
    async do(t, log) {
      await sealNext(log);
      const { evidence } = await log.receiptOf(own);
      const sibling = (evidence.leaf_index ^ 1) * HASH_BYTES;
      await tamper(log.storeDir, ({ tiles }) =>
        flip(tiles, [...tiles.getKeys({ limit: 1 })][0] ?? Buffer.alloc(0), sibling),
      );
      await t.rejects(log.receiptOf(own), BrokenInvariant);
    },
  },
  'Renewals of time-stamps are deleted from the store': {
    noticed: { verify: 'unknown evidence_record_unknown', check: 'bad lapses', audit: 'bad' },
    async do(t, log) {
      const receipt = await log.handOut(old, OLD);
      const withRecord = async () => {
        log.write('receipt.ers', await log.evidenceOf(receipt));
        return verify(log, 'receipt.json', '--evidence-record', 'receipt.ers');
      };
      t.equal(await withRecord(), 'good');
      await tamper(log.storeDir, ({ renewals }) => empty(renewals));
      return { verify: withRecord };
    },
  },
  'An API key is deleted from the store': {
    noticed: { check: 'bad', audit: 'bad' },
    async do(_, log) {
      await tamper(log.storeDir, ({ credentials }) => empty(credentials));
    },
  },
  'An epoch in the store gets a key of the forger': {
    noticed: { check: 'bad', audit: 'bad' },
    async do(_, log) {
      await tamper(log.storeDir, async ({ epochs }) => {
        const [{ key, value } = { key: Buffer.alloc(0), value: Buffer.alloc(0) }] = epochs.getRange({
          reverse: true,
          limit: 1,
        });
        const [begun, ...later] = parseRecord<Epoch[]>(value);
        if (begun === undefined) throw new Error('no epoch');
        const keys = [...begun.keys, { ...forger.half, keyLabel: 'other', partition: 'log' }];
        await epochs.put(Buffer.from(key), encodeRecord([{ ...begun, keys }, ...later]));
      });
    },
  },
  'A sealed audit record is removed': {
    noticed: { check: 'bad', audit: 'bad' },
    async do(_, log) {
      await tamper(log.storeDir, ({ trail }) => trail.remove(counterKey(3)));
    },
  },
  'The newest audit record is removed before it is sealed': {
    noticed: { audit: 'bad' },
    async do(_, log) {
      const before = log.copy();
      await log.inStore(({ trail }) => trail.append(actOfProcess('daemon', 'daemon.start', {})), NEXT);
      before.lend('state/store', log);
      return { audit: () => audit(log, '--newest', '7') };
    },
  },
};
