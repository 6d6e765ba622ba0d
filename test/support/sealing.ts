import { generateKeyPairSync, type KeyObject, sign } from 'node:crypto';
import { parseSignedData } from '../../src/asn1/cms.ts';
import { checkpointImprint } from '../../src/asn1/stamping.ts';
import { toBase64 } from '../../src/base/bytes.ts';
import type { Content, ReceivedJob } from '../../src/job/job.ts';
import { encodeCheckpoint } from '../../src/log/checkpoint.ts';
import type { Epoch } from '../../src/log/epochs.ts';
import { encodeNote } from '../../src/log/note.ts';
import { inclusionProof } from '../../src/log/proof.ts';
import { checkpointMessage, lineSignature } from '../../src/log/signedCheckpoint.ts';
import type { ReadTile, Tile } from '../../src/log/tiles.ts';
import { appendLeaves, type Edge, emptyEdge, leafHash, rootOf } from '../../src/log/tree.ts';
import {
  isClassical,
  kmsKeyId,
  type LogKey,
  noteKeyId,
  type SignatureAlgorithm,
} from '../../src/log/verifierKey.ts';
import { leafData, manifestOf } from '../../src/manifest/manifest.ts';
import { assembleReceipt, type Receipt, receiptAlgorithm } from '../../src/manifest/receipt.ts';
import type { TrustedEpoch, TrustedLog } from '../../src/manifest/trustFile.ts';
import type { BuiltInAuthority } from '../../src/tsa/builtInAuthority.ts';
import { makeToken } from './authority.ts';

/** A log key whose private half is at hand, as an HSM's never is. */
export interface TestKey extends LogKey {
  privateKey: KeyObject;
}

export function makeKey<Algorithm extends SignatureAlgorithm>(
  algorithm: Algorithm,
  region: string,
): TestKey & { algorithm: Algorithm } {
  const pair = makePair(algorithm);
  const spki = pair.publicKey.export({ format: 'der', type: 'spki' }).toString('base64');
  return { region, keyLabel: 'log', algorithm, spki, privateKey: pair.privateKey };
}

function makePair(algorithm: SignatureAlgorithm) {
  if (algorithm === 'mldsa44') return generateKeyPairSync('ml-dsa-44');
  return algorithm === 'ed25519'
    ? generateKeyPairSync('ed25519')
    : generateKeyPairSync('ec', { namedCurve: 'P-256' });
}

/** The first epoch of a store, in which these keys sign. */
export function firstEpoch(keys: readonly LogKey[], change: Partial<Epoch> = {}): Epoch {
  const held = keys.map((key) => ({ ...key, partition: key.keyLabel }));
  return { from: 0, keys: held, quorum: { needed: 1 }, timestamps: 'none', roots: [], ...change };
}

/** A log of one epoch, which lasts for ever unless said otherwise. */
export function oneEpoch({
  origin,
  environment,
  quorum = 1,
  ...epoch
}: Pick<TrustedLog, 'origin' | 'environment'> & { quorum?: number } & Pick<TrustedEpoch, 'keys'> &
  Partial<Omit<TrustedEpoch, 'quorum'>>): TrustedLog {
  const defaults = { notBefore: 0, timestamps: 'none' } as const;
  return { origin, environment, epochs: [{ ...defaults, ...epoch, quorum: { needed: quorum } }] };
}

/** Unix time, in seconds, that lines of post-quantum keys state. */
const LINE_TIME = 1_800_000_000;

/** The note over the text, with one line per key. */
export function signNote(origin: string, text: string, keys: readonly TestKey[]): string {
  return encodeNote(
    text,
    keys.map((key) => {
      const { algorithm, privateKey } = key;
      const message = checkpointMessage(algorithm, text, LINE_TIME) ?? Buffer.alloc(0);
      const signature = sign(algorithm === 'ecdsa-p256' ? 'sha256' : null, message, privateKey);
      const line = lineSignature(algorithm, LINE_TIME, signature);
      return { name: origin, keyId: noteKeyId(origin, key), signature: line };
    }),
  );
}

export function makeContent(fields: Partial<Content> = {}): Content {
  return {
    document: { sha256: 'ab'.repeat(32), sha512: 'cd'.repeat(64), bytes: 12_345 },
    scan: { verdict: 'not_configured' },
    ...fields,
  };
}

export function makeJob(id: string, overrides: Partial<ReceivedJob> = {}): ReceivedJob {
  return {
    id,
    clientId: 'acme-web',
    organization: 'acme',
    traceId: '0af7651916cd43dd8448eb211c80319c',
    mode: 'blocking',
    visibility: 'organization',
    preserveMetadata: false,
    source: 'upload',
    content: makeContent(),
    capabilities: ['receipt.sha512'],
    acceptedAt: Date.parse('2026-03-04T05:06:07.008Z'),
    ...overrides,
  };
}

/** Seals the jobs as one batch, the first of its log, in memory; stamped where there is an authority. */
export async function sealJobs(options: {
  jobs: readonly ReceivedJob[];
  environment: string;
  origin: string;
  keys: readonly [TestKey, ...TestKey[]];
  sealedAt: number;
  /** By default, that of each job, if it is not after the seal. */
  acceptedAt?: number;
  authority?: BuiltInAuthority;
}): Promise<Receipt[]> {
  const { environment, origin, keys, sealedAt } = options;
  const jobs = options.jobs.map((job) => ({
    ...job,
    acceptedAt: options.acceptedAt ?? Math.min(job.acceptedAt, sealedAt),
  }));
  const leaves = jobs.map((job) => leafHash(leafData(manifestOf(job, environment, sealedAt))));
  const { edge, shelf } = growTree(leaves, jobs.length);
  const text = encodeCheckpoint({ origin, treeSize: edge.size, root: rootOf(edge) });
  const checkpoint = signNote(origin, text, keys);
  const first = keys.find(isClassical);
  if (first === undefined) throw new Error('no classical key signs');
  const batch = {
    treeSize: edge.size,
    sealedAt,
    checkpoint,
    algorithm: receiptAlgorithm(first.algorithm),
    kmsKeyId: kmsKeyId(first),
    ...(options.authority && { timestamp: await stampCheckpoint(options.authority, checkpoint) }),
  };
  return Promise.all(
    jobs.map(async (job, leafIndex) => {
      const proof = await inclusionProof(leafIndex, edge.size, shelf.read);
      return assembleReceipt({ job, environment, batch, leafIndex, proof });
    }),
  );
}

/** What a batch keeps of a stamp: the certificates beside the token, so that both are needed. */
export async function stampCheckpoint(
  authority: BuiltInAuthority,
  checkpoint: string,
): Promise<{ token: string; certificates: string[] }> {
  const imprint = checkpointImprint(checkpoint);
  const token = await makeToken(authority, { imprint, certReq: false });
  const { certificates } = parseSignedData(await makeToken(authority, { imprint }));
  return { token: toBase64(token), certificates: certificates.map(toBase64) };
}

/** Tiles in memory, each as far as it is filled, as a store keeps them. */
export class TileShelf {
  readonly tiles = new Map<string, Uint8Array>();

  put(tiles: readonly Tile[]): void {
    for (const { level, index, hashes } of tiles)
      this.tiles.set(`${level}/${index}`, Uint8Array.from(hashes));
  }

  readonly read: ReadTile = (level, index) => Promise.resolve(this.tiles.get(`${level}/${index}`));
}

/** Grows a tree from nothing, in batches of `batchLeaves`. */
export function growTree(
  leafHashes: readonly Uint8Array[],
  batchLeaves: number,
): { edge: Edge; shelf: TileShelf } {
  const shelf = new TileShelf();
  let edge = emptyEdge();
  for (let from = 0; from < leafHashes.length; from += batchLeaves) {
    const grown = appendLeaves(edge, leafHashes.slice(from, from + batchLeaves));
    shelf.put(grown.tiles);
    edge = grown.edge;
  }
  return { edge, shelf };
}
