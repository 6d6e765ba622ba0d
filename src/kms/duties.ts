import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseCertificate } from '../asn1/certificate.ts';
import { encodeSignedAttributes } from '../asn1/cms.ts';
import { OID } from '../asn1/oid.ts';
import { signingDigest } from '../asn1/signatureAlgorithm.ts';
import { parseTstInfo } from '../asn1/timestampQuery.ts';
import { fromBase64, fromUtf8, toBase64 } from '../base/bytes.ts';
import { systemClock } from '../base/clock.ts';
import { sha256 } from '../base/crypto.ts';
import { OperatorError } from '../base/errors.ts';
import { NoLocks } from '../base/flock.ts';
import { acquireLock, type DaemonLock } from '../base/lock.ts';
import { systemReason } from '../base/systemReason.ts';
import { encodeCheckpoint, parseCheckpoint } from '../log/checkpoint.ts';
import { checkpointMessage } from '../log/signedCheckpoint.ts';
import { signsLogs, type TokenPublicKey } from './keyAlgorithm.ts';
import { probeMessage } from './probe.ts';
import type { Duties, SigningRequest, Step, Tree } from './protocol.ts';
import { follow, heldAt } from './signedTrees.ts';
import { isTaken, SignerFailure } from './signerFailure.ts';
import { readTrees, TreeFile } from './treeFile.ts';

/**
 * Maximum difference between a time to be signed and the signer's own clock: the request may have waited for a session on a busy machine.
 */
const AGE_MS_MAX = 10_000;
const LOCK_PAUSE_MS = 50;
/** Maximum number of trees named in one line of the log. */
const NAMED_MAX = 8;

/** A message to sign, and the record that must be on disk before its signature leaves, if any. */
export interface Assignment {
  message: Uint8Array;
  recorded?: Promise<void>;
  /** Number of signed trees that are given up for this message. */
  abandoned?: number;
}

/** Decides what one key signs: no input on the signer's stream can make it sign anything else. */
export class KeyDuties {
  readonly #duties: Duties;
  readonly #key: TokenPublicKey;
  /** The record of signed trees, opened when first needed. */
  #trees: Promise<TreeFile> | undefined;

  constructor(duties: Duties, key: TokenPublicKey) {
    this.#duties = duties;
    this.#key = key;
  }

  /** Throws SignerFailure for a request that the key must not sign. `timeoutMs`: how long it may wait for another process to end. */
  async assign(request: SigningRequest, timeoutMs: number): Promise<Assignment> {
    switch (request.kind) {
      case 'signProbe':
        if (request.claims) await this.#claim(timeoutMs);
        return { message: probeMessage() };
      case 'signBytes':
        if (!this.#duties.anything) throw refusal('this signer signs no bytes that it does not understand');
        return { message: bytesOf(request.message) };
      case 'signToken':
        return { message: this.#token(bytesOf(request.content), bytesOf(request.certificate)) };
      case 'signCheckpoint':
        return this.#checkpoint(request, timeoutMs);
    }
  }

  async #checkpoint(
    { text, time, step }: Extract<SigningRequest, { kind: 'signCheckpoint' }>,
    timeoutMs: number,
  ): Promise<Assignment> {
    const { algorithm } = this.#key;
    const checkpoint = parseCheckpoint(text);
    const message =
      !signsLogs(algorithm) || checkpoint === undefined || text !== encodeCheckpoint(checkpoint)
        ? undefined
        : checkpointMessage(algorithm, text, time);
    if (checkpoint === undefined || message === undefined)
      throw refusal('this is not a checkpoint that this key can sign');
    const { log, anything } = this.#duties;
    if (log === undefined) {
      if (!anything) throw refusal('this signer signs no checkpoints');
      return { message };
    }
    if (checkpoint.origin !== log.origin) throw refusal(`this signer signs for ${log.origin} only`);
    if (algorithm === 'mldsa44') assertPresent(time * 1000, 'the checkpoint');
    if (step === undefined) throw refusal('a checkpoint comes with the proof that the log only grew');
    const file = await this.#open(log, timeoutMs);
    const next = { size: checkpoint.treeSize, root: toBase64(checkpoint.root) };
    return { message, ...this.#record(file, next, step, log.sessions) };
  }

  #open(log: NonNullable<Duties['log']>, timeoutMs: number): Promise<TreeFile> {
    this.#trees ??= openTrees(log, this.#key, timeoutMs);
    return this.#trees.catch((error) => {
      this.#trees = undefined;
      throw error;
    });
  }

  /** Throws SignerFailure `signer_twice`. A record that cannot be used is refused only when a checkpoint needs it. */
  async #claim(timeoutMs: number): Promise<void> {
    const { log } = this.#duties;
    if (log === undefined) return;
    await this.#open(log, timeoutMs).catch((error) => {
      if (isTaken(error)) throw error;
    });
  }

  #record(file: TreeFile, next: Tree, step: Step, depth: number): Omit<Assignment, 'message'> {
    const { held, abandoned } = follow(file.held, next, step, { depth, now: systemClock() });
    if (abandoned.length > 0) {
      const named = abandoned.slice(0, NAMED_MAX).map((tree) => `${tree.size} leaves ${tree.root}`);
      process.stderr.write(
        `signed for a tree of ${next.size} leaves ${next.root} after ${step.from.size} leaves; given up are ${named.join(', ')}\n`,
      );
    }
    const recorded = held === file.held ? file.written : file.write(held);
    return { recorded, abandoned: abandoned.length };
  }

  #token(content: Uint8Array, certificate: Uint8Array): Uint8Array {
    const { timestamps, anything } = this.#duties;
    if (timestamps === undefined && !anything) throw refusal('this signer signs no time-stamps');
    try {
      const { policy, genTime, accuracyMs } = parseTstInfo(content);
      if (timestamps !== undefined) {
        if (policy !== timestamps.policy)
          throw refusal(`this signer stamps under the policy ${timestamps.policy} only`);
        if (accuracyMs !== timestamps.accuracyMs)
          throw refusal(`this signer stamps with an accuracy of ${timestamps.accuracyMs} ms only`);
        assertPresent(genTime, 'the time-stamp');
      }
      const { algorithm } = this.#key;
      if (algorithm === 'ed25519' || algorithm === 'mldsa44')
        throw refusal(`a key for ${algorithm} signs no time-stamps`);
      const digest = signingDigest(algorithm);
      return encodeSignedAttributes(OID.tstInfo, content, parseCertificate(certificate), digest);
    } catch (error) {
      if (error instanceof SignerFailure) throw error;
      throw refusal(`this is not a time-stamp (${(error as Error).message})`);
    }
  }
}

/**
 * Opens the record of signed trees for this process alone. The keys of a unit, which serve one epoch after the other, share one line of
 * trees: otherwise a key of the next epoch could be led along a fork before its time. Throws SignerFailure: `signer_twice` while another
 * process holds it.
 */
async function openTrees(
  { origin, folder, isUnit }: NonNullable<Duties['log']>,
  { spki }: TokenPublicKey,
  timeoutMs: number,
): Promise<TreeFile> {
  const path = treesPath({ origin, folder, isUnit }, spki);
  const lock = await lockWithin(`${path}.lock`, timeoutMs / 2);
  try {
    const file = await TreeFile.open(path);
    const held = heldAt(file.held, systemClock());
    if (held !== file.held) await file.write(held);
    return file;
  } catch (error) {
    lock.release();
    throw error instanceof SignerFailure ? error : unusable(path, error);
  }
}

/** The file that records the trees signed by a key, or by any key of a unit. */
export function treesPath(
  { origin, folder, isUnit }: Pick<NonNullable<Duties['log']>, 'origin' | 'folder' | 'isUnit'>,
  spki: string,
): string {
  const named = isUnit ? origin : `${origin}\n${spki}`;
  const name = Buffer.from(sha256(fromUtf8(named))).toString('hex', 0, 16);
  return join(folder, `${name}.trees`);
}

/** The trees that this unit last signed for its log; none before the first signature. Throws SignerFailure. */
export async function treesOfUnit({ log }: Duties): Promise<readonly Tree[]> {
  if (log?.isUnit !== true) throw refusal('this signer is not the unit of a key of the log');
  const path = treesPath(log, '');
  try {
    return (await readTrees(path)) ?? [];
  } catch (error) {
    throw error instanceof SignerFailure ? error : unusable(path, error);
  }
}

/**
 * Locks the record of the keys; the lock ends with this process. At the beginning of an epoch, the signer of the former key is about to
 * end.
 */
async function lockWithin(path: string, timeoutMs: number): Promise<DaemonLock> {
  const giveUpAt = performance.now() + timeoutMs;
  for (;;) {
    try {
      return acquireLock(path, 'signer with these keys');
    } catch (error) {
      if (!(error instanceof OperatorError) || error instanceof NoLocks) throw unusable(path, error);
      if (performance.now() > giveUpAt) throw new SignerFailure('signer_twice', error.message);
      await sleep(LOCK_PAUSE_MS);
    }
  }
}

function unusable(path: string, error: unknown): SignerFailure {
  return new SignerFailure('tree_file_unusable', `cannot use ${path} (${systemReason(error)})`);
}

function assertPresent(time: number, what: string): void {
  if (Math.abs(time - systemClock()) > AGE_MS_MAX)
    throw new SignerFailure('time_refused', `the time of ${what} is not that of the clock`);
}

function refusal(detail: string): SignerFailure {
  return new SignerFailure('signing_refused', detail);
}

function bytesOf(base64: string): Uint8Array {
  const bytes = fromBase64(base64);
  if (bytes === undefined) throw refusal('bytes that are not Base64');
  return bytes;
}
