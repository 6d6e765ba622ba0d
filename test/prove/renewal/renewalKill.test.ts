/** A renewal that is killed before and after each of its writes goes on where it was, and no record changes until it is committed. */
import { join } from 'node:path';
import t from 'tap';
import { parseCertificate } from '../../../src/asn1/certificate.ts';
import { fromBase64 } from '../../../src/base/bytes.ts';
import { renewalProblems } from '../../../src/prove/renewal/renewalCheck.ts';
import { EvidenceRecords } from '../../../src/prove/renewal/renewals.ts';
import { counterKey } from '../../../src/store/lmdb/keyLayout.ts';
import { createStore, openStore } from '../../../src/store/lmdb/open.ts';
import { encodeRecord } from '../../../src/store/records.ts';
import { UnknownOutcome } from '../../../src/store/store.ts';
import { Child } from '../../store/child.ts';
import { epoch, identity } from '../../store/samples.ts';
import { BEGIN, DAY_MS } from '../../support/authority.ts';
import { MemoryLog, renew, YearlyAuthority } from '../../support/renewals.ts';
import { SmallDisk } from '../../support/smallDisk.ts';
import { tamper } from '../../support/wholeStore.ts';

const WIDTH = 2;
const BATCHES = 7;

t.test('a run survives kill -9 at every write', async (t) => {
  const alpha = await YearlyAuthority.make('alpha');
  const memory = new MemoryLog();
  for (let n = 0; n < BATCHES; n++) await memory.seal(2, BEGIN + DAY_MS, n % 3 === 0 ? undefined : alpha);
  const path = join(t.testdir(), 'store');
  await createStore({ path, identity, epoch });
  await tamper(path, async ({ batches, leaves }) => {
    for (const batch of memory.batches) await batches.put(counterKey(batch.treeSize), encodeRecord(batch));
    await leaves.put(counterKey(2 * BATCHES - 1), Buffer.alloc(80));
  });
  const recordsOf = async () => {
    const store = await openStore({ path, readOnly: true });
    const records = await Promise.all(
      memory.batches.map((batch) => new EvidenceRecords(store, { width: WIDTH }).of(batch)),
    );
    const { length } = await store.renewals.runs();
    await store.close();
    return { records, runs: length };
  };
  const before = await recordsOf();

  const killed: string[] = [];
  let root = '';
  for (let n = 0; n < 20 && killed.at(-1) !== 'after commit'; n++) {
    const child = new Child(
      '../prove/renewal/renewer.ts',
      path,
      n % 2 === 0 ? 'before' : 'after',
      `${WIDTH}`,
    );
    await child.gone();
    t.equal(child.process.signalCode, 'SIGKILL');
    root = (await child.line('root ')).slice('root '.length);
    killed.push((await child.line('killed ')).slice('killed '.length));
    if (killed.at(-1) !== 'after commit') t.same(await recordsOf(), before, `after write ${n}`);
  }
  const writes = ['keepDraft', 'addRow', 'addRow', 'commit'];
  t.strictSame(
    killed,
    writes.flatMap((write) => [`before ${write}`, `after ${write}`]),
  );

  const store = await openStore({ path });
  t.teardown(() => store.close());
  const authority = { name: 'alpha', root: parseCertificate(fromBase64(root) ?? new Uint8Array()) };
  t.strictSame(await renewalProblems(store, [authority], WIDTH), []);
  const [run, second] = await store.renewals.runs();
  t.equal(second, undefined);
  t.equal(await store.renewals.draft(), undefined);
  t.equal(await store.trail.newest(), 1, 'with its record');
  const whole = await renew(memory.store, {
    digest: 'sha384',
    at: BEGIN + 2 * DAY_MS,
    authorities: [alpha],
    width: WIDTH,
  });
  t.strictSame(run?.rows, whole.rows, 'the same tree as of a run that nobody interrupts');
});

const disk = new SmallDisk(64 * 2 ** 20);
t.teardown(() => disk.close());
// Only root may fill a file system to its last byte.
if (disk.isOwn)
  t.test('a full disk in the middle of a run loses nothing', async (t) => {
    const alpha = await YearlyAuthority.make('alpha');
    const memory = new MemoryLog();
    for (let n = 0; n < 2_000; n++) await memory.seal(1, BEGIN + DAY_MS, n % 100 === 0 ? alpha : undefined);
    const path = join(disk.dir, 'store');
    await createStore({ path, identity, epoch });
    await tamper(path, async ({ batches, leaves }) => {
      for (const batch of memory.batches) await batches.put(counterKey(batch.treeSize), encodeRecord(batch));
      await leaves.put(counterKey(memory.batches.length - 1), Buffer.alloc(80));
    });
    const options = { digest: 'sha384', at: BEGIN + 2 * DAY_MS, authorities: [alpha], width: WIDTH } as const;
    const store = await openStore({ path });
    disk.fill(0);
    await t.rejects(renew(store, options), UnknownOutcome);
    await store.close();
    disk.empty();
    const again = await openStore({ path });
    t.teardown(() => again.close());
    t.strictSame(await again.renewals.runs(), []);
    t.match(await again.renewals.row(1, 0), [{ first: 0 }], 'what was written stays');
    const run = await renew(again, options);
    t.strictSame(run.rows, (await renew(memory.store, options)).rows);
    t.strictSame(await renewalProblems(again, [alpha.trusted], WIDTH), []);
  });
