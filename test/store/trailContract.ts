import type { Test } from 'tap';
import { auditDigest, parseAuditRecord } from '../../src/manifest/auditRecord.ts';
import { actOfProcess } from '../../src/store/acts.ts';
import { AUDIT_CLIENT } from '../../src/store/trail.ts';
import type { MakeStore } from './contract.ts';
import { epoch, sampleCredential } from './samples.ts';

/** The part of the contract that is about the audit trail. */
export async function trail(t: Test, makeStore: MakeStore): Promise<void> {
  const act = (key: string) => actOfProcess('command', 'key.issue', { key });

  t.test('acts and their records are written together, in one line, with any concurrency', async (t) => {
    const { store, reopen } = await makeStore(t);
    t.equal(await store.trail.newest(), 0);
    const keys = Array.from({ length: 20 }, (_, n) =>
      sampleCredential({ keyHash: String(n).padStart(64, '0') }),
    );
    await Promise.all(
      keys.map((key, n) => store.credentials.change(() => ({ credentials: [key], act: act(`key_${n}`) }))),
    );
    t.equal(await store.trail.append(act('key_20')), 21);
    for (const open of [async () => store, reopen]) {
      const opened = await open();
      t.equal((await opened.credentials.all()).length, 20);
      const entries = await opened.trail.entries(0, 100);
      t.strictSame(
        entries.map(({ number }) => number),
        Array.from({ length: 21 }, (_, index) => index + 1),
      );
      for (const [index, { number, text, jobId }] of entries.entries()) {
        const previous = entries[index - 1];
        const record = parseAuditRecord(text);
        t.match(record, { number, act: 'key.issue', environment: 'env_sandbox' });
        t.equal(record?.previous, previous && auditDigest(previous.text));
        t.match(await opened.jobs.get(jobId), {
          job: {
            clientId: AUDIT_CLIENT,
            source: 'audit',
            content: { document: { sha256: auditDigest(text) } },
          },
          outcome: undefined,
        });
      }
      t.equal(new Set(entries.map(({ text }) => text)).size, 21);
      t.strictSame(await opened.trail.entries(20, 100), entries.slice(20));
      t.strictSame(await opened.trail.entry(3), entries[2]);
      t.equal(await opened.trail.entry(22), undefined);
    }
  });

  t.test('an act that does not take place leaves no record', async (t) => {
    const { store } = await makeStore(t);
    const planned = { ...epoch, from: epoch.from + 1 };
    const change = () => store.epochs.change([epoch, planned], 0, act('key_1'));
    t.strictSame((await Promise.all([change(), change(), change()])).sort(), [false, false, true]);
    t.equal(await store.trail.newest(), 1);
    t.equal(await store.epochs.change([epoch], 1, null), true, 'what is nobody’s act');
    t.equal(await store.trail.newest(), 1);
  });
}
