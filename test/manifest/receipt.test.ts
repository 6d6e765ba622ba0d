import { createHash } from 'node:crypto';
import t from 'tap';
import { BrokenInvariant } from '../../src/base/assert.ts';
import { encodeCanonical } from '../../src/manifest/jcs.ts';
import { assembleReceipt, encodeReceipt, receiptDigest } from '../../src/manifest/receipt.ts';
import { makeAuthority, makePki } from '../support/authority.ts';
import { makeJob, makeKey, sealJobs } from '../support/sealing.ts';

const origin = 'seal.example.com/sandbox/2026';
const sealedAt = Date.parse('2026-03-04T05:06:07.300Z');
const key = makeKey('ed25519', 'eu-1');
const jobs = [makeJob('job_1', { customerReference: 'order 7' }), makeJob('job_2'), makeJob('job_3')];
const sealing = { jobs, environment: 'sandbox', origin, keys: [key], sealedAt } as const;
const receipts = await sealJobs(sealing);
const [receipt] = receipts;
if (receipt === undefined) throw new Error('nothing was sealed');

t.test('members are in the documented order', async (t) => {
  t.strictSame(Object.keys(JSON.parse(encodeReceipt(receipt))), [
    'job_id',
    'algorithm',
    'document_sha256',
    'receipt_sha512',
    'kms_key_id',
    'sealed_at',
    'customer_reference',
    'manifest',
    'evidence',
  ]);
  t.match(receipt, {
    job_id: 'job_1',
    algorithm: 'pdfseal-v1.ed25519',
    kms_key_id: 'eu-1/log',
    sealed_at: '2026-03-04T05:06:07.300Z',
    customer_reference: 'order 7',
    evidence: { log_origin: origin, leaf_index: 0, tree_size: 3, timestamps: [], certificates: [] },
  });
  t.notOk(Object.hasOwn(receipts[1] ?? {}, 'customer_reference'));
});

t.test('the receipt contains the time-stamp of its batch', async (t) => {
  const authority = makeAuthority([(await makePki()).unit]);
  const [stamped] = await sealJobs({ ...sealing, authority });
  t.match(stamped?.evidence, {
    timestamps: [{ type: 'rfc3161', token: /^MI/ }],
    certificates: [/^MI/],
  });
  t.equal(stamped?.evidence.checkpoint, receipt.evidence.checkpoint);
  t.not(stamped?.receipt_sha512, receipt.receipt_sha512);
});

t.test('receipt_sha512 is over the canonical form of the rest', async (t) => {
  const { receipt_sha512: digest, ...rest } = receipt;
  t.equal(digest, createHash('sha512').update(encodeCanonical(rest)).digest('hex'));
  t.equal(receiptDigest(JSON.parse(encodeReceipt(receipt))), digest);
});

t.test('a receipt has the same bytes at every reading', async (t) => {
  const again = await sealJobs(sealing);
  t.strictSame(again.map(encodeReceipt), receipts.map(encodeReceipt));
});

t.test('parts that do not lead to the checkpoint do not become a receipt', async (t) => {
  const { evidence } = receipt;
  const parts = {
    job: jobs[0] ?? makeJob('none'),
    environment: 'sandbox',
    batch: {
      treeSize: evidence.tree_size,
      sealedAt,
      checkpoint: evidence.checkpoint,
      algorithm: receipt.algorithm,
      kmsKeyId: receipt.kms_key_id,
    },
    leafIndex: 0,
    proof: evidence.inclusion_proof.map((hash) => Buffer.from(hash, 'base64')),
  };
  t.strictSame(assembleReceipt(parts), receipt);
  const wrong = {
    'another job': { ...parts, job: makeJob('job_9') },
    'another environment': { ...parts, environment: 'production' },
    'another leaf': { ...parts, leafIndex: 1 },
    'another time': { ...parts, batch: { ...parts.batch, sealedAt: sealedAt + 1 } },
    'another tree size': { ...parts, batch: { ...parts.batch, treeSize: 2 } },
    'no checkpoint': { ...parts, batch: { ...parts.batch, checkpoint: '' } },
    'an unknown scheme': { ...parts, batch: { ...parts.batch, algorithm: 'pdfseal-v1.rsa' } },
    'no proof': { ...parts, proof: [] },
  };
  for (const [name, bad] of Object.entries(wrong))
    t.throws(() => assembleReceipt(bad), BrokenInvariant, name);
});
