/** Which test files `npm test` runs, and which it leaves to `npm test -- --rest`. */
import { readdirSync, readFileSync } from 'node:fs';
import { matchesGlob } from 'node:path';

/** `quick` and `rest` are parts of `all`; properties stand in both, with fewer random inputs in `quick`. */
export type Tier = 'quick' | 'rest' | 'all';

/** The share of its random inputs that a property tries in the quick tier. */
export const QUICK_SHARE = 0.1;

/** Globs of test files that the quick tier leaves out, by what they have in common. */
const LEFT_OUT: Record<string, readonly string[]> = {
  'PostgreSQL beyond its contract': [
    'store/postgresql[A-Z]*',
    'store/{postgresServer,move}',
    'cli/{migrate,databaseDiagnosis,databaseRights}',
    'journeys/{actsOnDatabase,postgresql,databaseAway,standby,hostileFront,frontScan,reusePort}',
  ],
  'faults and kills': [
    'faults/faults',
    'store/crash',
    'cli/damage',
    'kms/refusal',
    'prove/renewal/renewalKill',
    'journeys/{batches,egress,epochKill,flood,forkAlarm,frontDeath,limits,log,partitions,requiredWitness,stop,webhooks}',
  ],
  'PKCS#11 modules of others': ['kms/modules'],
  'mutants of the simulator': ['simulator/mutants'],
  'the package': ['package', 'journeys/upgrade'],
  sanitizers: ['native/checks'],
  'judges of other projects': [
    'admin/{alerts,dashboard,realPrometheus}',
    'asn1/bouncyCastle',
    'base/slowCurves',
    'cli/{completion,manual,qrCode}',
    'docs/{clients,clientCertificates,verifyEverywhere}',
    'journeys/{goReader,postQuantum}',
    'log/otherReaders',
    'pdf/{attachedByOthers,corpus,foreign,hostile,signedByOthers}',
    'prove/renewal/{lapsedRenewal,renewalPath}',
  ],
  'browsers but one': ['page/{access,page}', 'docs/html', 'console/screens/*', 'prove/verify/asBrowser'],
  'disks, and what is large or long': [
    'console/findAmongMany',
    'http/largeBatches',
    'journeys/{databaseFull,disk,large}',
    'prove/renewal/{renewalMemory,sunsetDecades}',
    'store/diskSpace',
  ],
  'two machines': ['journeys/{airGap,network,twoSites}'],
  'longer journeys': [
    'journeys/{audit,compliance,fairness,forgedEpochs,hash,health,inspector,renewal,renewalByFile}',
    'journeys/{consoleDrill,consoleReplay,consoleTls,scan,sources,strangers,supervision,time}',
    '{clients,cli/lastCheckpoint,docs/mistakes}',
  ],
};

/** Globs of test files that only root can run, and why. */
const ROOT: Record<string, string> = {
  'admin/consoleDoor': 'it speaks as another user',
  'docs/mistakes': 'it gives files to another user, and fills a disk',
  'kms/orphan': 'it reads what a process that protects its memory waits for',
};

/** Globs that no file fits. */
export function staleGlobs(): string[] {
  const files = allFiles();
  const globs = [...Object.values(LEFT_OUT).flat(), ...Object.keys(ROOT)];
  return globs.filter((glob) => !files.some((file) => fits(file, glob)));
}

export function needsRoot(file: string): string | undefined {
  return Object.entries(ROOT).find(([glob]) => fits(file, glob))?.[1];
}

export function allFiles(): string[] {
  return readdirSync('test', { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.test.ts'))
    .map((path) => `test/${path}`)
    .sort();
}

export function tierFiles(tier: Tier): string[] {
  const files = allFiles();
  if (tier === 'all') return files;
  return files.filter((file) => (tier === 'quick' ? !isLeftOut(file) : isLeftOut(file) || isProperty(file)));
}

export function isLeftOut(file: string): boolean {
  return Object.values(LEFT_OUT).some((globs) => globs.some((glob) => fits(file, glob)));
}

function fits(file: string, glob: string): boolean {
  return matchesGlob(file, `test/${glob}.test.ts`);
}

/** One line for the end of the quick tier. */
export function leftOut(): string {
  return Object.keys(LEFT_OUT).join(', ');
}

/** Its random inputs are fewer in the quick tier, so the rest runs it again. */
function isProperty(file: string): boolean {
  return /\btries\(/.test(readFileSync(file, 'utf8')) || isMutated(file);
}

/** Whether a long run can give it more changed inputs. */
export function isMutated(file: string): boolean {
  return /\bmutations\(/.test(readFileSync(file, 'utf8'));
}
