/** A log of two epochs in which all is as it should be, before somebody does something to it. */
import { join } from 'node:path';
import type { Test } from 'tap';
import { toHex } from '../../src/base/bytes.ts';
import { sha256 } from '../../src/base/crypto.ts';
import type { ReceivedJob } from '../../src/job/job.ts';
import type { Epoch } from '../../src/log/epochs.ts';
import type { Receipt } from '../../src/manifest/receipt.ts';
import { epochObject } from '../../src/manifest/sealedForm.ts';
import { actOfProcess } from '../../src/store/acts.ts';
import { auditedKey } from '../../src/store/apiKeys.ts';
import { sampleCredential } from '../store/samples.ts';
import { pdfseal } from '../support/commands.ts';
import { renew, YearlyAuthority } from '../support/renewals.ts';
import { firstEpoch } from '../support/sealing.ts';
import { monitor } from './noticers.ts';
import { documentJob, keyOf, OperatedLog, ORIGIN, type Sealing } from './operatedLog.ts';

export const HOUR_MS = 3_600_000;
export const DAY_MS = 24 * HOUR_MS;
export const day = (month: number, number: number) => Date.UTC(2026, month - 1, number);

export const [former, present, forger] = [keyOf('eu'), keyOf('eu'), keyOf('eu')];
/** The certificates of alpha end in July 2026, those of beta do not. */
export const [alpha, beta] = [
  await YearlyAuthority.make('alpha', 0.5),
  await YearlyAuthority.make('beta', 20),
];
const roots = [alpha, beta].map(({ trusted: { name, root } }) => ({
  name,
  root: Buffer.from(root.der).toString('base64'),
}));
const rule = { timestamps: 'required', roots } as const;
const first = firstEpoch([former.half], { from: day(2, 1), ...rule });
const second: Epoch = { ...firstEpoch([present.half], rule), from: day(4, 1) };

export const OLD = '%PDF-1.7 of February';
export const DOCUMENT = '%PDF-1.7 of June';
export const old = documentJob(OLD, day(2, 2) - 1000);
export const own = documentJob(DOCUMENT, day(6, 2) - 1000, { customerReference: 'order 7' });

/** Its witness and its monitor have seen the newest checkpoint, and an old time-stamp is renewed. `store`: lines of TOML; by default, it is embedded. */
export async function makeWholeLog(t: Test, store = ''): Promise<OperatedLog> {
  const log = OperatedLog.layOut(join(t.testdir({}), 'log'), present.key, store);
  const identity = { environment: 'test', logOrigin: ORIGIN, createdAt: first.from };
  await log.createStore({ identity, epoch: first });
  const credential = sampleCredential();
  await log.inStore(async ({ trail, credentials }) => {
    await trail.append(actOfProcess('command', 'log.create', epochObject(ORIGIN, first)));
    await credentials.change(() => ({
      credentials: [credential],
      act: actOfProcess('command', 'key.issue', auditedKey(credential)),
    }));
  }, first.from);
  await log.seal({ at: day(2, 2), jobs: [old], keys: [former.key], authority: alpha });
  log.write('older.json', await log.exportTrust());
  await log.inStore(
    ({ epochs }) =>
      epochs.change([first, second], 0, actOfProcess('command', 'epoch.plan', epochObject(ORIGIN, second))),
    day(3, 1),
  );
  await log.seal({ at: day(3, 2), keys: [former.key], authority: alpha });
  await log.inStore(
    async (store) => {
      const trusted = [alpha.trusted, beta.trusted];
      await renew(store, { digest: 'sha512', at: day(5, 1), authorities: [beta], trusted });
      await store.trail.append(actOfProcess('daemon', 'epoch.begin', epochObject(ORIGIN, second)));
    },
    day(5, 1),
  );
  const trust = await log.exportTrust();
  log.write('trust.json', trust);
  await log.inStore(
    ({ trail }) =>
      trail.append(actOfProcess('command', 'trust.export', { sha256: toHex(sha256(Buffer.from(trust))) })),
    day(5, 2),
  );
  await log.seal({ at: day(6, 1), keys: [present.key], authority: beta });
  const jobs = [own, documentJob('%PDF-1.7 another', own.acceptedAt)];
  await log.seal({ at: day(6, 2), jobs, keys: [present.key], authority: beta });
  await log.handOut(own, DOCUMENT);
  await log.noteLastCheckpoint();
  await log.haveWitnessed();
  const exported = ['audit', 'export', '--config', 'test.toml', '--output', 'exported'];
  const { status } = await pdfseal(exported, { cwd: log.dir });
  const seen = await monitor(log, {}, '--first');
  if (status !== 0 || seen !== 'good') throw new Error(`exported: ${status}, seen: ${seen}`);
  return log;
}

/** After the newest batch. */
export const NEXT = day(6, 3);

/** Seals a document next, and hands its receipt out. */
export async function sealNext(
  log: OperatedLog,
  change: Partial<Sealing> = {},
  fields: Partial<ReceivedJob> = {},
): Promise<Receipt> {
  const { at = NEXT } = change;
  const job = documentJob(DOCUMENT, at - 1000, fields);
  await log.seal({ at, keys: [present.key], authority: beta, jobs: [job], ...change });
  return log.handOut(job, DOCUMENT);
}

/** A copy of the log with a next batch of its own, by somebody who has a copy of its key. */
export async function forkOf(log: OperatedLog): Promise<{ fork: OperatedLog; receipt: Receipt }> {
  const fork = log.copy();
  return { fork, receipt: await sealNext(fork, { byThief: true }, { customerReference: 'of the fork' }) };
}

/** How the exported audit trail is verified: its newest record is the sixth. */
export const EXPORTED = ['--input', 'exported', '--trust', 'trust.json', '--newest', '6'];
