/** A process that opens images and says what is wrong with them. It is one of its own because a bad image may end it. */
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { checkBackup } from '../../src/cli/store/backupFolder.ts';
import { runCheck } from '../../src/cli/store/runCheck.ts';
import { isWhole } from '../../src/cli/store/storeReport.ts';
import { type Config, loadConfig } from '../../src/config/config.ts';
import { readVerified } from '../../src/copy/copies.ts';
import { encodeReceipt } from '../../src/manifest/receipt.ts';
import { parseTrust } from '../../src/manifest/trustFile.ts';
import { readerOf } from '../../src/pdf/sourceReader.ts';
import { bufferSource } from '../../src/pdf/window.ts';
import { doubtOf } from '../../src/prove/trail/lastCheckpoint.ts';
import { readReceipt, readSuffix } from '../../src/prove/trail/receipts.ts';
import { openSealedPdf } from '../../src/prove/verify/sealedPdf.ts';
import { openStoreAt } from '../../src/store/engines.ts';
import type { Store } from '../../src/store/store.ts';
import { certificateFile, readInstalled, retiredDir } from '../../src/tsa/installed.ts';

/** What was said before the cut. */
export interface Expected {
  /** Jobs that were acknowledged, and whether they were said to be completed. */
  jobs: Record<string, 'accepted' | 'completed'>;
  /** Receipts, as far as clients ever read them. */
  receipts: Record<string, string>;
  /** Commands that ended well. */
  promised: string[];
  /** The folder as it was before everything. */
  kept: string;
}

process.on('message', async ({ dir, expected }: { dir: string; expected: Expected }) => {
  process.send?.(await judge(dir, expected).catch((error) => [String(error)]));
});

async function judge(dir: string, { jobs, receipts, promised, kept }: Expected): Promise<string[]> {
  const config = loadConfig(join(dir, 'sandbox.toml'), { files: 'unused' });
  const store = await openStoreAt(config.store, {});
  const against: string[] = [];
  try {
    const doubt = await doubtOf(store, config.log.lastCheckpointFile);
    if (doubt) against.push(doubt.reason);
    for (const [id, phase] of Object.entries(jobs))
      against.push(...(await judgeJob(store, id, phase, receipts[id])));
    const report = await runCheck(store, config);
    if (!isWhole(report))
      against.push(`the check is bad: ${[...report.problems, ...report.flaws].join('; ')}`);
    against.push(...(await judgeCopies(store, config.documentsDir)));
    against.push(...(await judgeSigners(store, config)));
  } finally {
    await store.close();
  }
  against.push(...judgeCertificates(config, kept, promised.includes('hsm')));
  if (promised.includes('trust') && !isTrust(join(dir, 'exported.json')))
    against.push('the exported trust file is gone');
  if (promised.includes('backup') && !isWhole(await checkBackup(join(dir, 'backup'), config)))
    against.push('the backup is not whole');
  return against;
}

async function judgeJob(
  store: Store,
  id: string,
  phase: string,
  receipt: string | undefined,
): Promise<string[]> {
  const record = await store.jobs.get(id);
  if (record === undefined) return [`${id} was acknowledged (${phase}) and is gone`];
  if (record.job.content?.attachment !== undefined && (await store.copies.get(id)) === undefined)
    return [`${id} was acknowledged (${phase}), and its document is gone`];
  if (record.outcome?.kind !== 'sealed')
    return phase === 'completed' ? [`${id} was completed and is not sealed`] : [];
  const text = encodeReceipt(await readReceipt(store, record.job, record.outcome.leafIndex));
  return phase === 'completed' && receipt !== undefined && text !== receipt
    ? [`${id} has another receipt`]
    : [];
}

/** Every copy that the store knows is there, whole; with its receipt, if that is attached, it is a sealed PDF. */
async function judgeCopies(store: Store, folder: string): Promise<string[]> {
  const against: string[] = [];
  for await (const { jobId, copy } of store.copies.all()) {
    const { job, outcome } = (await store.jobs.get(jobId)) ?? {};
    const { bytes = 0, sha256 = '' } = job?.content?.sealedDocument ?? job?.content?.document ?? {};
    const key = Buffer.from(copy.key, 'base64');
    const place = { name: copy.file, path: join(folder, copy.file), at: copy.at ?? 0 };
    try {
      const document: Buffer[] = [];
      for await (const chunk of readVerified({ ...place, key, bytes }, sha256)) document.push(chunk);
      if (job?.content?.attachment === undefined || outcome?.kind !== 'sealed') continue;
      const suffix = (await readSuffix(store, job, outcome.leafIndex)) ?? Buffer.alloc(0);
      const { finding } = await openSealedPdf(readerOf(bufferSource(Buffer.concat([...document, suffix]))));
      if (finding.outcome !== 'passed') against.push(`the sealed PDF of ${jobId}: ${finding.detail}`);
    } catch (error) {
      against.push(`${jobId} has no copy: ${error}`);
    }
  }
  return against;
}

/** Each signer remembers that it signed the newest tree of the log, or a later one: else it would sign another. */
async function judgeSigners({ log }: Store, { signersDir, kms }: Config): Promise<string[]> {
  const size = (await log.head())?.treeSize ?? 0;
  const files = existsSync(signersDir)
    ? readdirSync(signersDir).filter((name) => name.endsWith('.trees'))
    : [];
  const held = files.map((name) => newestTree(readFileSync(join(signersDir, name), 'utf8')));
  const knowing = held.filter((newest) => newest >= size).length;
  return size === 0 || knowing === kms.partitions.length
    ? []
    : [`the log has ${size} leaves, and its signers remember [${held}]`];
}

/** Two slots, each with a line and its checksum; a write that was torn is not whole. */
function newestTree(text: string): number {
  const sizes = Array.from(text.matchAll(/(\{.*\})\n([0-9a-f]{64})\n/g), ([, line = '', sum]) => {
    if (createHash('sha256').update(line).digest('hex') !== sum) return 0;
    const { held } = JSON.parse(line) as { held: { trees: { size: number }[] } };
    return held.trees.at(-1)?.size ?? 0;
  });
  return Math.max(0, ...sizes);
}

/** The certificate that was replaced is among those that verify older receipts, wherever a new one is installed. */
function judgeCertificates(
  { certificatesDir, timestamp }: Config,
  kept: string,
  isRenewed: boolean,
): string[] {
  return timestamp.keys.flatMap((key) => {
    const file = certificateFile(certificatesDir, key);
    const before = readFileSync(certificateFile(join(kept, 'state', 'certificates'), key), 'utf8');
    readInstalled(certificatesDir, key);
    if (readFileSync(file, 'utf8') === before) return isRenewed ? [`${file} is the former certificate`] : [];
    const retired = existsSync(retiredDir(certificatesDir)) ? readdirSync(retiredDir(certificatesDir)) : [];
    const isThere = retired.some(
      (name) => readFileSync(join(retiredDir(certificatesDir), name), 'utf8') === before,
    );
    return isThere ? [] : [`the certificate before ${file} is gone`];
  });
}

function isTrust(path: string): boolean {
  return existsSync(path) && parseTrust(readFileSync(path, 'utf8')).logs.length > 0;
}
