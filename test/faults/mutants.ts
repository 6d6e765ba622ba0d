/** Daemons that break one promise each: copies of `dist` with one line changed. A checker that does not catch them cannot be trusted. */
import { cpSync, mkdtempSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { PromiseName } from './checker.ts';
import { insertLeapSecond } from './leapSecond.ts';
import { beginEpoch, type PlayedRound, playRound, type RoundOptions } from './play.ts';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));

/** A line that is changed. */
export interface Edit {
  /** Below `dist`. */
  file: string;
  /** Is there exactly once. */
  line: string;
  instead: string;
}

/** A mutant whose promise the checker does not know. */
export interface DarkMutant extends Edit {
  name: string;
}

export interface Mutant extends DarkMutant {
  /** What must be reported as broken, whatever else is. */
  breaks: PromiseName;
  /** Default: one kill. */
  play?: (seed: number, options: RoundOptions) => Promise<PlayedRound>;
}

export const MUTANTS: readonly Mutant[] = [
  {
    name: 'answers with a member that the API does not have',
    breaks: 'every answer is one of the API',
    file: 'http/presentJob.js',
    line: 'capabilities: job.capabilities,',
    instead: 'capabilities: job.capabilities, capability: 1,',
  },
  {
    name: 'fails over every other create, which can be repeated',
    breaks: 'no error is internal',
    file: 'http/create.js',
    line: 'const answer = answerTo(job, options.site);',
    instead:
      "const answer = answerTo(job, options.site); if (job.id.charCodeAt(job.id.length - 1) % 2) throw new Error('a fault');",
  },
  {
    name: 'refuses some documents for ever',
    breaks: 'a healthy daemon serves',
    file: 'http/create.js',
    line: 'const { request, documentSha256, sourceUrl, copy } = received;',
    instead:
      "const { request, documentSha256, sourceUrl, copy } = received; if (documentSha256 < '3') throw new ServiceError('queue_full', 'Repeat it.');",
  },
  {
    name: 'dates the attached receipt a second later than the receipt',
    breaks: 'a sealed PDF is its document and its receipt',
    file: 'prove/trail/receipts.js',
    line: 'Date.parse(receipt.sealed_at)',
    instead: 'Date.parse(receipt.sealed_at) + 1000',
  },
  {
    name: 'acknowledges jobs that it does not keep',
    breaks: 'nothing acknowledged is lost',
    file: 'http/create.js',
    line: 'await sealer.accept(',
    instead: 'await (job.id.charCodeAt(job.id.length - 1) % 2 ? sealer : { accept: async () => {} }).accept(',
  },
  {
    name: 'seals again after a restart what it sealed',
    breaks: 'every job is sealed once',
    file: 'store/lmdb/jobRecords.js',
    line: '{ ...outcome, key },\n            { database: waiting, key },',
    // The daemon itself finds records of the audit trail that are sealed twice.
    instead: "{ ...outcome, key }, ...(jobAt(key).source === 'audit' ? [{ database: waiting, key }] : []),",
  },
  {
    name: 'says another key in each receipt',
    breaks: 'a receipt never changes',
    file: 'prove/trail/receipts.js',
    line: 'return assembleReceipt({ job, environment, batch,',
    instead:
      'return assembleReceipt({ job, environment, batch: { ...batch, kmsKeyId: String(performance.now()) },',
  },
  {
    name: 'shows a tree that is not the log',
    breaks: 'the log only grows',
    file: 'http/logRoutes.js',
    line: 'sendNote(ctx, cosigned?.treeSize === head.treeSize ? cosigned.checkpoint : head.checkpoint);',
    // Two letters of the root change places.
    instead: String.raw`sendNote(ctx, head.checkpoint.replace(/\n(.)(.)([^\n]*=\n)/, '\n$2$1$3'));`,
  },
  {
    name: 'forgets the batch that it showed to witnesses',
    breaks: 'the witness never refuses the log',
    file: 'store/lmdb/logRecords.js',
    line: 'const changes = [{ database, key: ANNOUNCED_KEY, value: encodeRecord(batch) }];',
    instead: 'const changes = [];',
  },
  {
    name: 'forgets idempotency keys',
    breaks: 'a key names one job',
    file: 'store/lmdb/idempotencyEntries.js',
    line: 'return entry !== undefined && this.#isLive(entry) ? entry : undefined;',
    instead: 'return undefined;',
  },
  {
    name: 'tells nobody of jobs that are sealed together',
    breaks: 'no webhook is lost',
    file: 'store/lmdb/outboxRecords.js',
    line: 'if (listening.size === 0)',
    instead: 'if (listening.size === 0 || jobs.length > 1)',
  },
  {
    name: 'counts every other job',
    breaks: 'quotas are exact',
    file: 'store/lmdb/jobRecords.js',
    line: '...(job.quota ?',
    instead: '...(job.quota && job.id.charCodeAt(job.id.length - 1) % 2 ?',
  },
  {
    name: 'does not record what is stored',
    breaks: 'the audit trail is complete',
    file: 'store/lmdb/trailRecords.js',
    line: 'if (act === null)',
    instead: "if (act === null || act.act === 'webhook.add')",
  },
  {
    name: 'backs up again what it backed up first',
    breaks: 'a backup has everything',
    file: 'cli/store/backupCommand.js',
    line: "await copyStore(folder, join(draft, 'store'));",
    instead:
      "const first = join(config.stateDir, 'first'); if (!existsSync(first)) await copyStore(folder, first); await copyStore(first, join(draft, 'store'));",
  },
  {
    name: 'does not say that an epoch begins',
    breaks: 'an epoch begins once, at its time',
    file: 'main/sealEpochs.js',
    line: "await store.trail.append(actOfProcess('daemon', 'epoch.begin', epochObject(store.identity.logOrigin, epoch)));",
    instead: '',
    play: (seed, options) => playRound(seed, beginEpoch, options),
  },
  {
    name: 'leaves jobs out of the lists',
    breaks: 'the check is good',
    file: 'store/lmdb/jobRecords.js',
    line: '...postings.changesFor(job, key),',
    instead: '...postings.changesFor(job, key).slice(1),',
  },
  {
    name: 'dates tokens by the clock alone',
    breaks: 'the time of the log never goes back',
    file: 'tsa/trustedClock.js',
    line: 'this.#given = Math.max(wall, this.#floor, isSameTime ? this.#given : 0);',
    instead: 'this.#given = wall;',
    play: (seed, options) =>
      insertLeapSecond('as a second that comes twice', seed, { ...options, accuracy: '1s' }),
  },
];

/** A mutant that breaks a promise only when modules fail. */
export interface ModuleMutant extends Mutant {
  /** In the names of {@link AFFLICTIONS} that show it, and how many partitions they strike. */
  affliction: string;
  victims: 1 | 2;
}

export const MODULE_MUTANTS: readonly ModuleMutant[] = [
  {
    name: 'believes every signature',
    breaks: 'no wrong signature is released',
    file: 'kms/partition.js',
    line: 'if (!this.#verify(message, signature)) {',
    instead: 'if (false) {',
    affliction: 'forged: bit',
    victims: 1,
  },
  {
    name: 'releases what too few partitions signed',
    breaks: 'a receipt never changes',
    file: 'kms/partitions.js',
    line: '#suffice(signatures) {',
    instead: '#suffice(signatures) { return true;',
    affliction: 'forged: zeros',
    victims: 2,
  },
  {
    name: 'seals only while all partitions sign',
    breaks: 'every answer is one of the API',
    file: 'kms/partitions.js',
    line: 'if (!this.canSign())\n            throw belowQuorum();',
    instead: 'if (this.#members.some((member) => !member.ready))\n            throw belowQuorum();',
    affliction: 'token vanishes',
    victims: 1,
  },
];

/** A mutant that breaks a promise only on a disk that fails. */
export interface DiskMutant extends Mutant {
  event: string;
}

export const DISK_MUTANTS: readonly DiskMutant[] = [
  {
    name: 'accepts jobs on a full disk',
    breaks: 'every answer is one of the API',
    file: 'store/diskSpace.js',
    line: 'admit() {',
    instead: 'admit() { return;',
    event: 'filled and freed',
  },
  {
    name: 'acknowledges before the flush, and the disk breaks',
    breaks: 'nothing acknowledged is lost',
    file: 'store/lmdb/databases.js',
    line: 'overlappingSync: false,',
    instead: 'overlappingSync: false, noSync: true,',
    event: 'broken, so read-only',
  },
];

/** A mutant that is not caught before a bit of such pages is wrong. */
export interface BitMutant extends DarkMutant {
  kinds: RegExp;
}

export const BIT_MUTANTS: readonly BitMutant[] = [
  {
    name: 'believes every page',
    file: 'store/lmdb/databases.js',
    line: 'opened.walk();',
    instead: '',
    kinds: /^branch of/,
  },
  {
    name: 'believes every record',
    file: 'store/records.js',
    line: '|| !hasChecksum(bytes, json)',
    instead: '',
    kinds: /^leaf of (jobs|outcomes)|^long value of batches/,
  },
];

/** Mutants that lose a log, or double it, only while it moves. */
export const MOVE_MUTANTS: readonly DarkMutant[] = [
  {
    name: 'moves a log and goes on with the store that it left',
    file: 'cli/store/migrateCommand.js',
    line: 'if (await frozen.leave(left))',
    instead: 'if (left)',
  },
  {
    name: 'moves a log to where no daemon may start',
    file: 'cli/store/migrateCommand.js',
    line: 'await target.setIdentity(withoutMark(await target.identity()));',
    instead: '',
  },
];

/** A mutant that breaks a promise only in a power cut. */
export interface PowerMutant extends DarkMutant {
  /** Shows while commands replace the store, and not while the daemon writes. */
  isOfMoves?: true;
}

export const POWER_MUTANTS: readonly PowerMutant[] = [
  {
    name: 'acknowledges before the flush',
    file: 'store/lmdb/databases.js',
    line: 'overlappingSync: false,',
    instead: 'overlappingSync: false, noSync: true,',
  },
  {
    name: 'flushes the bytes of a file and not its name',
    file: 'base/atomicFile.js',
    line: '        const published = publish(draft);\n        syncName(path);',
    instead: '        const published = publish(draft);',
  },
  {
    name: 'flushes the files in a folder and not its name',
    file: 'base/folders.js',
    line: 'made = dirname(made))\n            syncName(made);',
    instead: 'made = dirname(made))\n            ;',
  },
  {
    name: 'flushes no file of a backup',
    file: 'base/folders.js',
    line: 'if (entry.isFile() || entry.isDirectory())',
    instead: 'if (entry.isDirectory())',
  },
  {
    name: 'acknowledges kept documents before their flush',
    file: 'copy/segments.js',
    line: 'constants.O_EXCL | constants.O_DSYNC',
    instead: 'constants.O_EXCL',
  },
  {
    name: 'signs before the signers remember it on disk',
    file: 'kms/treeFile.js',
    line: 'constants.O_RDWR | constants.O_DSYNC',
    instead: 'constants.O_RDWR',
  },
  {
    name: 'does not flush that the signers forget',
    file: 'cli/hsm/hsmResetSigners.js',
    line: '    syncName(aside);',
    instead: '',
    isOfMoves: true,
  },
];

/** Makes the program of a mutant; as the code of a sandbox. Throws if a line is not there exactly once: it has to be found anew. */
export function buildMutant(name: string, edits: readonly Edit[]): { dist: string } {
  const dir = mkdtempSync(join(tmpdir(), 'pdfseal-mutant-'));
  for (const beside of ['node_modules', 'native', 'package.json', 'config', 'docs'])
    symlinkSync(join(ROOT, beside), join(dir, beside));
  cpSync(join(ROOT, 'dist'), join(dir, 'dist'), { recursive: true });
  for (const { file, line, instead } of edits) {
    const path = join(dir, 'dist', file);
    const parts = readFileSync(path, 'utf8').split(line);
    if (parts.length !== 2)
      throw new Error(`mutant "${name}": dist/${file} has its line ${parts.length - 1} times`);
    writeFileSync(path, parts.join(instead));
  }
  return { dist: join(dir, 'dist') };
}
