import t from 'tap';
import { BrokenInvariant } from '../../src/base/assert.ts';
import { encodeContent, encodeJob, parseContent, parseJob } from '../../src/store/jobCodec.ts';
import { encodeFailed, parseOutcome } from '../../src/store/lmdb/outcomeRecords.ts';
import { encodeRecord, parseRecord } from '../../src/store/records.ts';
import { fc, tries } from '../support/seed.ts';
import { sampleContent, sampleJob, sampleUrlJob } from './samples.ts';

const job = sampleJob({ purpose: 'invoice', customerReference: '\ud800 \0 é', visibility: 'partner' });

t.test('a job is read back as it was written', async (t) => {
  t.same(parseJob(job.id, encodeJob(job)), job);
});

t.test('a job from a URL and its content are read back as they were written', async (t) => {
  const urlJob = sampleUrlJob({ customerReference: 'R' });
  t.same(parseJob(urlJob.id, encodeJob(urlJob)), urlJob);
  const { document, scan } = sampleContent();
  for (const content of [
    { document, scan },
    { document, scan: { verdict: 'encrypted', engine: 'e', signatures: '1' } as const },
    { document, scan, sealedDocument: { ...document, sha256: 'aa'.repeat(32) } },
  ]) {
    t.same(parseContent(encodeContent(content)), content);
    t.same(parseJob(job.id, encodeJob({ ...job, content })), { ...job, content });
  }
});

t.test('every changed byte of a record is noticed', async (t) => {
  const encoded = encodeJob(job);
  const damaged = fc.property(fc.nat(encoded.length - 1), fc.integer({ min: 1, max: 255 }), (at, change) => {
    const bytes = Buffer.from(encoded);
    bytes.writeUInt8(bytes.readUInt8(at) ^ change, at);
    t.throws(() => parseJob(job.id, bytes), BrokenInvariant);
  });
  fc.assert(damaged, { numRuns: tries(200) });
});

t.test('a record that is cut short or replaced is noticed', async (t) => {
  const encoded = encodeJob(job);
  const named = {
    name: 'BrokenInvariant',
    message: `${job.id} in the store is damaged: its checksum is wrong`,
  };
  for (const bytes of [encoded.subarray(0, -1), encoded.subarray(0, 5), Buffer.alloc(0), Buffer.from('[]')]) {
    t.throws(() => parseJob(job.id, bytes), named);
  }
  const failed = encodeFailed({ code: 'internal_error', message: 'gone', failedAt: 1 });
  failed.writeUInt8(failed.readUInt8(20) ^ 1, 20);
  t.throws(() => parseOutcome(failed), BrokenInvariant);
  t.throws(() => parseRecord(encodeRecord({ a: 1 }).subarray(1)), BrokenInvariant);
});
