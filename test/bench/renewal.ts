/**
 * One renewal of a log with very many checkpoints: `node test/bench/renewal.ts [--checkpoints N] [--dir FOLDER]`. The checkpoints and their
 * time-stamps are as large as real ones; the log has one leaf in each.
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { toBase64 } from '../../src/base/bytes.ts';
import type { DigestName } from '../../src/base/crypto.ts';
import { renewalLapses, renewalProblems } from '../../src/prove/renewal/renewalCheck.ts';
import { draftRun, nextRun } from '../../src/prove/renewal/renewalRun.ts';
import { surveyTimestamps } from '../../src/prove/renewal/renewalSurvey.ts';
import { EvidenceRecords, RenewalTrees } from '../../src/prove/renewal/renewals.ts';
import { openDatabases } from '../../src/store/lmdb/databases.ts';
import { counterKey } from '../../src/store/lmdb/keyLayout.ts';
import { createStore, openStore } from '../../src/store/lmdb/open.ts';
import { encodeRecord } from '../../src/store/records.ts';
import { SKIPPED } from '../../src/store/renewalStore.ts';
import type { Batch, Store } from '../../src/store/store.ts';
import { epoch, identity } from '../store/samples.ts';
import {
  BEGIN,
  DAY_MS,
  HeldClock,
  IMPRINT,
  makeAuthority,
  makePki,
  makeToken,
} from '../support/authority.ts';

const { values } = parseArgs({
  options: {
    checkpoints: { type: 'string', default: '1000000' },
    dir: { type: 'string', default: '/var/tmp' },
  },
});
const checkpoints = Number(values.checkpoints);
const SEALED_EVERY_MS = 5_000;
const GROUP = 20_000;

const pki = await makePki();
let signatures = 0;
const unit = {
  ...pki.unit,
  signer: {
    ...pki.unit.signer,
    sign: (message: Uint8Array, content: Uint8Array, certificate: Uint8Array) => {
      signatures += 1;
      return pki.unit.signer.sign(message, content, certificate);
    },
  },
};
const clock = new HeldClock(BEGIN + DAY_MS);
const authority = makeAuthority([unit], clock);

/** Each checkpoint has a token of its own, which is not valid, since nothing looks at each signature. */
async function fill(path: string): Promise<void> {
  await createStore({ path, identity, epoch });
  const databases = await openDatabases(path, { readOnly: false });
  const token = await makeToken(authority, { imprint: IMPRINT, certReq: false });
  const certificates = [toBase64(pki.certificate.der)];
  for (let from = 0; from < checkpoints; from += GROUP) {
    await databases.root.batch(() => {
      for (let leaf = from; leaf < Math.min(from + GROUP, checkpoints); leaf++) {
        if (leaf > 0) token.writeUInt32BE(leaf, token.length - 4);
        const batch: Batch = {
          firstLeaf: leaf,
          treeSize: leaf + 1,
          sealedAt: BEGIN + leaf * SEALED_EVERY_MS,
          checkpoint: `seal.example.com/production/2026\n${leaf + 1}\n${'A'.repeat(43)}=\n\n— seal.example.com/production/2026 ${'B'.repeat(92)}\n`,
          algorithm: 'pdfseal-v1.ed25519',
          kmsKeyId: 'eu-central/log-2026',
          timestamp: { token: toBase64(token), certificates },
        };
        databases.batches.put(counterKey(leaf + 1), encodeRecord(batch));
      }
    });
  }
  await databases.leaves.put(counterKey(checkpoints - 1), Buffer.alloc(80));
  await databases.root.flushed;
  await databases.close();
}

/** Bytes that this process had written to disk. */
const written = () => Number(/^write_bytes: (\d+)$/m.exec(readFileSync('/proc/self/io', 'latin1'))?.[1]);
const anonBytes = () =>
  Number(/^RssAnon:\s+(\d+) kB$/m.exec(readFileSync('/proc/self/status', 'latin1'))?.[1]) * 1024;

async function measured(what: string, work: () => Promise<unknown>): Promise<void> {
  const [startedAt, before, signed] = [performance.now(), written(), signatures];
  const cpu = process.cpuUsage();
  let anonBytesMax = anonBytes();
  const timer = setInterval(() => {
    anonBytesMax = Math.max(anonBytesMax, anonBytes());
  }, 100);
  await work();
  clearInterval(timer);
  const seconds = Math.round(performance.now() - startedAt) / 1000;
  const { user, system } = process.cpuUsage(cpu);
  const { maxRSS } = process.resourceUsage();
  const figures = {
    seconds,
    cpuSeconds: Math.round((user + system) / 1000) / 1000,
    anonMiBMax: Math.round(anonBytesMax / 2 ** 20),
    rssMiBMax: Math.round(maxRSS / 1024),
  };
  console.log(
    JSON.stringify({ what, ...figures, writtenBytes: written() - before, signatures: signatures - signed }),
  );
}

async function renew(store: Store, digest: DigestName, path?: number[]): Promise<void> {
  const runs = await store.renewals.runs();
  const trees = new RenewalTrees(store, runs);
  const next = await nextRun(store, runs, digest, path && { path });
  const drafted = await draftRun(store, trees, { ...next, at: Date.now() });
  // Later than all that it renews.
  clock.time += 80 * DAY_MS;
  const token = await makeToken(authority, { imprint: { algorithm: digest, digest: drafted.root } });
  const tokens = [
    { authority: 'built-in', token: toBase64(token), certificates: [toBase64(pki.certificate.der)] },
  ];
  if (!(await store.renewals.commit({ ...drafted.scope, rows: drafted.rows, tokens }, null)))
    throw new Error('not committed');
}

const dir = mkdtempSync(join(values.dir, 'pdfseal-bench-'));
try {
  const path = join(dir, 'store');
  await measured(`fill ${checkpoints}`, () => fill(path));
  const store = await openStore({ path });
  const roots = [{ name: 'built-in', root: pki.root }];
  await measured('survey', () => surveyTimestamps(store, { authorities: roots, sunsets: [], at: BEGIN }));
  await measured('renew, sha512', () => renew(store, 'sha512'));
  await measured('renew again, sha512', () => renew(store, 'sha512'));
  await measured('renew without the run before, sha512', () => renew(store, 'sha512', [0, SKIPPED]));
  await measured('renew, sha384', () => renew(store, 'sha384'));
  const batch = await store.log.batchOf(Math.floor(checkpoints / 2));
  await measured('one evidence record', async () => batch && new EvidenceRecords(store).of(batch));
  await measured('check', () => renewalProblems(store, roots));
  await measured('lapses', () => renewalLapses(store, roots, Date.now()));
  await store.close();
} finally {
  rmSync(dir, { recursive: true, force: true });
}
