import { accessSync, constants, readFileSync, statSync } from 'node:fs';
import { OperatorError } from '../../base/errors.ts';
import { lockHolder } from '../../base/lock.ts';
import { systemReason } from '../../base/systemReason.ts';
import { type Config, loadConfig } from '../../config/config.ts';
import { BUILT_IN } from '../../config/schema.ts';
import type { PartitionOptions } from '../../kms/partitions.ts';
import { inspectSecretFile } from '../../kms/pinFile.ts';
import { SignerFailure, signerRemedy } from '../../kms/signerFailure.ts';
import { meetsQuorum } from '../../log/quorum.ts';
import { kmsKeyId } from '../../log/verifierKey.ts';
import { describeStore, storeExists } from '../../store/engines.ts';
import { readInstalled } from '../../tsa/installed.ts';
import { readCertificates } from '../../tsa/pki.ts';
import { formatAddress, type HostPort } from '../../web/address.ts';
import { assertFree } from '../../web/listen.ts';
import { hasSystemd, unitState } from '../systemd.ts';
import { diagnoseTls, type Served, servedWithTls } from './certificateDiagnosis.ts';
import { diagnoseDatabase } from './databaseDiagnosis.ts';
import { bad, badFrom, type Diagnosis, good, warning } from './diagnosis.ts';
import { diagnoseFileSystem, diagnoseNames, isAway } from './fileDiagnosis.ts';
import { diagnoseHardening } from './hardenDiagnosis.ts';
import { diagnoseEngine } from './hostDiagnosis.ts';
import { diagnoseStore } from './storeDiagnosis.ts';
import { diagnoseTargets } from './targetDiagnosis.ts';

/**
 * Checks what a start of the daemon would find, apart from the HSM: `bad` if the daemon would refuse to start. The same code reads each file as
 * at a start. Changes nothing.
 */
export async function* diagnoseStart(file: string): AsyncIterable<Diagnosis> {
  const lacking: string[] = [];
  const config = loadConfig(file, { files: 'by_hand', tell: (line) => void lacking.push(line) });
  yield lacking.length === 0
    ? good('config', `every key of ${config.file} is known and has a valid value`)
    : warning('config', lacking.join('\n'), 'the other partitions meet the quorum; correct this one');
  yield* diagnoseNames(config);
  yield* diagnoseTargets(config);
  yield* diagnoseFileSystem(config);
  yield* diagnoseUser(config);
  yield* diagnosePins(config);
  yield* diagnoseHardening(config);
  for (const served of servedWithTls(config)) yield* diagnoseServedAtStart(served, config.environment);
  for (const [key, path] of certificateFiles(config))
    yield attempt(key, () => `${readCertificates(readFileSync(path), path).length} certificates in ${path}`);
  yield diagnoseEngine(config);
  yield* diagnoseState(config);
  for (const at of config.http.listen)
    if ('port' in at) yield await diagnoseAddress('http.listen', at, config);
  const { console } = config;
  if (console !== undefined && 'port' in console.listen)
    yield await diagnoseAddress('console.listen', console.listen, config);
  if (console?.tls !== undefined)
    yield await diagnoseAddress('console.tls.listen', console.tls.listen, config);
}

/** Checks what a running daemon reads again (SIGHUP): `bad` if it would keep what it has. */
export async function* diagnoseReload(file: string): AsyncIterable<Diagnosis> {
  const config = loadConfig(file, { files: 'unused' });
  yield good('config', `every key of ${config.file} is known and has a valid value`);
  for (const served of servedWithTls(config)) yield* diagnoseServedAtStart(served, config.environment);
}

function attempt(check: string, look: () => string, remedy = 'correct the file, or its path'): Diagnosis {
  try {
    return good(check, look());
  } catch (error) {
    const isSystems = error instanceof Error && 'code' in error;
    if (!(error instanceof OperatorError) && !isSystems) throw error;
    const detail = error instanceof OperatorError ? error.message : systemReason(error);
    return bad(check, detail, remedy);
  }
}

/** Root can read everything; what matters is what the daemon's user can read. */
function* diagnoseUser({ stateDir, environment }: Config): Iterable<Diagnosis> {
  const owner = statSync(stateDir, { throwIfNoEntry: false })?.uid;
  const uid = process.geteuid?.();
  const isOther = owner === undefined ? uid === 0 && hasSystemd() : owner !== uid;
  if (!isOther) return;
  const whose =
    owner === undefined
      ? 'the daemon runs as a user of its own'
      : `the state folder belongs to user ${owner}`;
  const detail = `this command runs as user ${uid}, and ${whose}: it is not known whether that user can read each file`;
  yield warning('user', detail, `pdfseal-run ${environment} check-config`);
}

function* diagnosePins({ kms, timestamp, environment }: Config): Iterable<Diagnosis> {
  yield* checkPinsOf(kms.partitions, (rest) => meetsQuorum(kms.quorum, rest), environment);
  yield* checkPinsOf(timestamp.keys, (rest) => rest.length > 0, environment);
}

function* checkPinsOf(
  tokens: readonly PartitionOptions[],
  suffices: (rest: readonly PartitionOptions[]) => boolean,
  environment: string,
): Iterable<Diagnosis> {
  const unseen = tokens.filter(isCredentialOfElsewhere);
  for (const token of unseen)
    yield warning(
      `PIN of ${kmsKeyId(token)}`,
      `not checked: systemd gives ${token.pinSource} only to the unit`,
      `pdfseal-run ${environment} check-config checks it too`,
    );
  for (const token of tokens.filter(({ signer }) => signer !== undefined))
    yield good(`PIN of ${kmsKeyId(token)}`, `only its signer has it, which answers at ${token.signer}`);
  const failures = new Map(
    tokens.filter((token) => !unseen.includes(token)).map((token) => [token, pinFault(token)]),
  );
  const judge = suffices(tokens.filter((token) => failures.get(token) === undefined)) ? warning : bad;
  for (const [token, failure] of failures)
    if (failure !== undefined)
      yield judge(
        `PIN of ${kmsKeyId(token)}`,
        failure.detail,
        signerRemedy(failure) ?? 'correct the PIN file',
      );
}

/** Whether systemd has not passed this credential to us, and no daemon of the unit runs either. */
function isCredentialOfElsewhere({ pinSource, pinFile, signer }: PartitionOptions): boolean {
  return pinSource !== undefined && signer === undefined && isAway(pinFile);
}

/** The daemon does not read the PIN of a signer with a unit of its own. */
function pinFault(token: PartitionOptions): SignerFailure | undefined {
  try {
    if (token.signer === undefined) inspectSecretFile(token);
    return undefined;
  } catch (error) {
    if (error instanceof SignerFailure) return error;
    throw error;
  }
}

/** The daemon also starts with an expired certificate, which clients refuse: only a pair that cannot be used at all stops it. */
function diagnoseServedAtStart(served: Served, environment: string): Diagnosis[] {
  const { keyCredential, keyFile } = served.files;
  if (keyCredential !== undefined && isAway(keyFile)) {
    const remedy = `run pdfseal-run ${environment} check-config with LoadCredential= for the key in a drop-in, or start the daemon`;
    return [warning('TLS pair', 'not checked: systemd gives the key only to the unit', remedy)];
  }
  return diagnoseTls(served, Date.now()).map((one) =>
    one.verdict === 'bad' && one.check !== 'TLS pair' ? { ...one, verdict: 'warning' } : one,
  );
}

function* certificateFiles({ timestamp, sources, webhooks }: Config): Iterable<[key: string, file: string]> {
  for (const [name, { rootsFile, tlsCaFile }] of Object.entries(timestamp.remotes)) {
    yield [`timestamp.remotes.${name}.roots_file`, rootsFile];
    if (tlsCaFile !== undefined) yield [`timestamp.remotes.${name}.tls_ca_file`, tlsCaFile];
  }
  if (sources.caFile !== undefined) yield ['sources.ca_file', sources.caFile];
  if (webhooks.caFile !== undefined) yield ['webhooks.ca_file', webhooks.caFile];
}

/** What `pdfseal init` creates. Before that, nothing can be wrong. */
async function* diagnoseState(config: Config): AsyncIterable<Diagnosis> {
  const { stateDir, store, environment, timestamp, certificatesDir } = config;
  let isMade: boolean;
  try {
    isMade = await storeExists(store);
  } catch (error) {
    if (!(error instanceof OperatorError)) throw error;
    return yield bad('store', error.message, error.remedy ?? 'correct [store]');
  }
  if (!isMade)
    return yield warning(
      'store',
      `${describeStore(store)} does not exist yet`,
      `create it before the first start: pdfseal-run ${environment} init, or pdfseal init`,
    );
  yield attempt('state folder', () => {
    accessSync(stateDir, constants.W_OK);
    return `${stateDir} is writable`;
  });
  yield* diagnoseDatabase(config);
  const { diagnoses } = await diagnoseStore(config);
  yield* diagnoses.filter(({ check }) => check !== 'disk');
  for (const key of timestamp.authorities.includes(BUILT_IN) ? timestamp.keys : [])
    yield attempt(
      `certificate of ${kmsKeyId(key)}`,
      () => {
        const { length } = readInstalled(certificatesDir, key).chain;
        return `installed, ${length} certificates up to the root`;
      },
      'restore the file from a backup, or install another certificate with `pdfseal hsm install-certificate`',
    );
}

/** Whether a server could listen there now. The daemon itself or its socket unit may already do so. */
async function diagnoseAddress(
  key: string,
  at: HostPort,
  { lockFile, environment }: Config,
): Promise<Diagnosis> {
  const check = `address ${formatAddress(at)}`;
  if (lockHolder(lockFile) !== undefined)
    return good(check, 'not tried, because a daemon runs with this state folder');
  const socket = `pdfseald@${environment}.socket`;
  if (unitState('is-active', socket) === 'active')
    return good(check, `not tried, because ${socket} is active`);
  try {
    await assertFree(at, key);
    return good(check, 'free');
  } catch (error) {
    return badFrom(check, error, `change ${key}, or stop the program that uses the address`);
  }
}
