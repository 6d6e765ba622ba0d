/** A log whose operator is the test: it has all keys. `noticers.ts` asks those who can notice what it does. */
import { generateKeyPairSync, sign } from 'node:crypto';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { checkpointImprint } from '../../src/asn1/stamping.ts';
import { toBase64 } from '../../src/base/bytes.ts';
import { loadConfig } from '../../src/config/config.ts';
import { trustOfStore } from '../../src/config/trustAnchors.ts';
import { newJobId } from '../../src/job/id.ts';
import { isReceived, type ReceivedJob } from '../../src/job/job.ts';
import { KeyDuties } from '../../src/kms/duties.ts';
import type { Step } from '../../src/kms/protocol.ts';
import { encodeAddCheckpoint } from '../../src/log/addCheckpoint.ts';
import { encodeCheckpoint } from '../../src/log/checkpoint.ts';
import {
  type Cosigner,
  cosignatureLine,
  cosignedMessage,
  encodeCosigner,
} from '../../src/log/cosignature.ts';
import { encodeNote, parseNote, parseSignatureLines } from '../../src/log/note.ts';
import { consistencyProof } from '../../src/log/proof.ts';
import type { ReadTile } from '../../src/log/tiles.ts';
import { appendLeaves, leafHash, loadEdge, rootOf } from '../../src/log/tree.ts';
import { kmsKeyId } from '../../src/log/verifierKey.ts';
import { assembleBundle, encodeBundle } from '../../src/manifest/bundle.ts';
import { leafData, manifestOf } from '../../src/manifest/manifest.ts';
import { encodeReceipt, type Receipt } from '../../src/manifest/receipt.ts';
import { encodeTrust } from '../../src/manifest/trustFile.ts';
import { EvidenceRecords } from '../../src/prove/renewal/renewals.ts';
import { restartLastCheckpoint } from '../../src/prove/trail/lastCheckpoint.ts';
import { readBundle, readReceipt } from '../../src/prove/trail/receipts.ts';
import { createStoreAt, openStoreAt } from '../../src/store/engines.ts';
import type { Batch, Store } from '../../src/store/store.ts';
import type { NewStore } from '../../src/store/storeOptions.ts';
import { HeldCheckpoints } from '../../src/witness/heldCheckpoints.ts';
import { Witness } from '../../src/witness/witness.ts';
import { digestsOf } from '../console/sealedStore.ts';
import { SILENT } from '../support/authority.ts';
import type { YearlyAuthority } from '../support/renewals.ts';
import { makeContent, makeJob, makeKey, signNote, type TestKey, TileShelf } from '../support/sealing.ts';

export const ORIGIN = 'seal.example.com/test/2026';

export interface Sealing {
  at: number;
  jobs?: readonly ReceivedJob[];
  keys: readonly [TestKey, ...TestKey[]];
  authority: YearlyAuthority;
  /** When the token was made; default: the time of the seal. */
  stampedAt?: number;
  /** By somebody who has a copy of the key, and no signer. */
  byThief?: true;
}

const { publicKey, privateKey } = generateKeyPairSync('ed25519');
const cosigner: Cosigner = {
  name: 'north.example/witness',
  algorithm: 'ed25519',
  key: publicKey.export({ format: 'der', type: 'spki' }).subarray(-32),
};
export const WITNESS_VKEY = encodeCosigner(cosigner);
const POLICY = `witness north ${WITNESS_VKEY}\nquorum north\n`;

/** The witness signs at another time than its own clock shows. */
export function cosignAt(note: string, at: number): string {
  const { text, signatures } = parseNote(note) ?? { text: '', signatures: [] };
  const time = Math.floor(at / 1000);
  const message = cosignedMessage(cosigner, time, text) ?? Buffer.alloc(0);
  const line = cosignatureLine(cosigner, time, sign(null, message, privateKey));
  return encodeNote(text, [...signatures, line]);
}

export function documentJob(
  document: string,
  acceptedAt: number,
  fields: Partial<ReceivedJob> = {},
): ReceivedJob {
  const content = makeContent({ document: digestsOf(Buffer.from(document)) });
  return makeJob(newJobId(), { content, acceptedAt, ...fields });
}

/** Makes a key whose private half is at hand, and the half that an epoch has. */
export function keyOf(region: string) {
  const key = makeKey('ed25519', region);
  const { privateKey: _, ...half } = key;
  return { key, half };
}

/** The folder of a log, of its witness and of its auditor. */
export class OperatedLog {
  readonly dir: string;
  /** Signs the newest checkpoints; its signer remembers what it signed. */
  readonly key: TestKey;
  #duties: KeyDuties | undefined;
  /** They are kept, so that the files of their signers stay open. */
  readonly #copies: OperatedLog[] = [];

  constructor(dir: string, key: TestKey) {
    this.dir = dir;
    this.key = key;
  }

  /** Writes the configuration, and makes the folders. */
  static layOut(dir: string, key: TestKey, store: string): OperatedLog {
    for (const name of ['state/signers', 'witness', 'receipts'])
      mkdirSync(join(dir, name), { recursive: true });
    const log = new OperatedLog(dir, key);
    writeFileSync(log.file('policy'), POLICY);
    const token = `region = "${key.region}"\nmodule = "/usr/lib/hsm.so"\ntoken_label = "token"\nkey_label = "${key.keyLabel}"\npin_file = "pin"`;
    writeFileSync(
      log.file('test.toml'),
      `environment = "test"\nstate_dir = "state"\n[log]\norigin = "${ORIGIN}"\n[witness]\npolicy = "policy"\n[timestamp]\nauthorities = []\n[store]\n${store}\n[[kms.partitions]]\n${token}\n`,
    );
    return log;
  }

  createStore(options: NewStore): Promise<void> {
    return createStoreAt(this.#config().store, options);
  }

  /** Another folder with the same content, in which an act can be done. */
  copy(): OperatedLog {
    const dir = mkdtempSync(`${this.dir}-`);
    cpSync(this.dir, dir, { recursive: true });
    const copy = new OperatedLog(dir, this.key);
    this.#copies.push(copy);
    return copy;
  }

  file(name: string): string {
    return join(this.dir, name);
  }

  read(name: string): string {
    return readFileSync(this.file(name), 'utf8');
  }

  write(name: string, text: string | Uint8Array): void {
    writeFileSync(this.file(name), text);
  }

  /** The newest batch. */
  head(): Promise<Batch> {
    return this.inStore(headOf);
  }

  /** Puts a copy of a file or folder into the place of the other log's. */
  lend(name: string, to: OperatedLog): void {
    rmSync(to.file(name), { recursive: true, force: true });
    cpSync(this.file(name), to.file(name), { recursive: true });
  }

  get storeDir(): string {
    return this.file('state/store');
  }

  /** Does something with the store. `at`: what the clock shows meanwhile. */
  async inStore<Result>(work: (store: Store) => Promise<Result>, at?: number): Promise<Result> {
    const location = this.#config().store;
    const store = await openStoreAt(location, at === undefined ? {} : { clock: () => at });
    try {
      return await work(store);
    } finally {
      await store.close();
    }
  }

  /** Seals all that waits, and these jobs, as one batch; returns its signed checkpoint. */
  seal({ at, jobs = [], keys, authority, stampedAt = at, byThief }: Sealing): Promise<string> {
    return this.inStore(async (store) => {
      for (const job of jobs) await store.jobs.accept(job);
      const waiting = (await store.jobs.waiting(1000)).filter(isReceived);
      const leaves = waiting.map((job) => ({
        jobId: job.id,
        clientId: job.clientId,
        data: leafData(manifestOf(job, store.identity.environment, at)),
      }));
      const next = await grown(
        store,
        leaves.map(({ data }) => leafHash(data)),
      );
      if (keys[0] === this.key && !byThief) await this.askSigner(next);
      const checkpoint = signNote(ORIGIN, next.text, keys);
      const { revision } = await store.epochs.newest();
      const { algorithm, digest } = checkpointImprint(checkpoint);
      const { token, certificates } = await authority.stamp(algorithm, digest, stampedAt);
      await store.log.commit({
        epochsRevision: revision,
        firstLeaf: next.treeSize - leaves.length,
        treeSize: next.treeSize,
        sealedAt: at,
        checkpoint,
        algorithm: 'pdfseal-v1.ed25519',
        kmsKeyId: kmsKeyId(keys[0]),
        timestamp: { token, certificates },
        leaves,
        tiles: next.tiles,
      });
      return checkpoint;
    }, at);
  }

  /** The receipt of a job as the API hands it out now. */
  receiptOf(job: ReceivedJob): Promise<Receipt> {
    return this.inStore(async (store) => {
      const record = await store.jobs.get(job.id);
      if (record?.outcome?.kind !== 'sealed') throw new Error(`${job.id} is not sealed`);
      return readReceipt(store, record.job, record.outcome.leafIndex);
    });
  }

  /** Its evidence record, with all renewals that the store has. */
  evidenceOf({ evidence }: Receipt): Promise<Uint8Array> {
    return this.inStore(async (store) => {
      const batch = await store.log.batchOf(evidence.leaf_index);
      const record = batch && (await new EvidenceRecords(store).of(batch));
      if (record === undefined) throw new Error('no time-stamp');
      return record;
    });
  }

  /** The proof of a leaf in the newest checkpoint that is witnessed. */
  witnessedProof(index: number): Promise<string> {
    return this.inStore(async (store) => {
      const [leaf] = await store.log.leaves(index, index + 1);
      const job = leaf && (await store.jobs.get(leaf.jobId))?.job;
      const later = { recordOf: async () => undefined, revocationLists: [] };
      const bundle = job && (await readBundle(store, job, index, later));
      if (bundle === undefined) throw new Error('nothing is witnessed');
      return bundle.tlog_proof;
    });
  }

  /** Its bundle, with this proof, or with that of the newest checkpoint that is witnessed. */
  async bundleOf(receipt: Receipt, tlogProof?: string): Promise<string> {
    const proof = tlogProof ?? (await this.witnessedProof(receipt.evidence.leaf_index));
    return encodeBundle(assembleBundle({ receipt, tlogProof: proof, revocationLists: [] }));
  }

  /** Gives a receipt or a bundle to a reader, and to the auditor, who keeps all in a folder. */
  give(name: string, text: string): void {
    this.write(name, text);
    this.write(`receipts/of.${name}`, text);
  }

  /** Puts the receipt of a job, and its document, where {@link verify} takes them from. */
  async handOut(job: ReceivedJob, document: string): Promise<Receipt> {
    const receipt = await this.receiptOf(job);
    this.write('document.pdf', document);
    this.give('receipt.json', encodeReceipt(receipt));
    return receipt;
  }

  /** The trust file that an administrator would export now. */
  async exportTrust(): Promise<string> {
    return this.inStore(async (store) => encodeTrust(await trustOfStore(store, this.#config())));
  }

  #config() {
    return loadConfig(this.file('test.toml'), { files: 'unused' });
  }

  /** Writes the newest checkpoint outside of the store. */
  noteLastCheckpoint(): Promise<unknown> {
    return this.inStore((store) =>
      restartLastCheckpoint(this.file('state/last-checkpoint'), store, 'before'),
    );
  }

  /** Has the witness cosign the newest checkpoint. */
  async haveWitnessed(): Promise<void> {
    const { reply, checkpoint, treeSize } = await this.askWitness([]);
    if (reply.status !== 200) throw new Error(`the witness answers ${reply.status}`);
    const { text, signatures } = parseNote(checkpoint) ?? { text: '', signatures: [] };
    const cosigned = encodeNote(text, [...signatures, ...(parseSignatureLines(reply.body) ?? [])]);
    await this.putWitnessed(treeSize, cosigned);
  }

  putWitnessed(treeSize: number, checkpoint: string): Promise<void> {
    const one = { treeSize, checkpoint };
    const witnesses = { [WITNESS_VKEY]: { treeSize } };
    return this.inStore((store) => store.witnessing.put({ witnesses, cosigned: one, witnessed: one }));
  }

  /** Asks the signer of the newest key for a checkpoint. Rejects with SignerFailure. */
  async askSigner({ text, step }: Grown): Promise<void> {
    const log = { origin: ORIGIN, folder: this.file('state/signers'), sessions: 2, isUnit: false };
    this.#duties ??= new KeyDuties({ log }, this.key);
    const { recorded } = await this.#duties.assign({ kind: 'signCheckpoint', text, time: 0, step }, 1_000);
    await recorded;
  }

  /** Asks the witness to cosign the checkpoint of the tree with these leaves added, or another one. */
  async askWitness(added: readonly Uint8Array[], other?: string) {
    const { privateKey: _, ...key } = this.key;
    const logs = new Map([[ORIGIN, [{ name: ORIGIN, ...key }]]]);
    const held = await HeldCheckpoints.open(this.file('witness'), cosigner, logs);
    const signing = { cosigner, sign: async (message: Uint8Array) => sign(null, message, privateKey) };
    const witness = new Witness({ key: signing, logs, held, clock: Date.now, logger: SILENT });
    const oldSize = held.get(ORIGIN)?.checkpoint.treeSize ?? 0;
    const { text, treeSize, proof } = await this.inStore(async (store) => {
      const { read, ...next } = await grown(store, added);
      const isProvable = other === undefined && oldSize <= next.treeSize;
      return { ...next, proof: isProvable ? await consistencyProof(oldSize, next.treeSize, read) : [] };
    });
    const checkpoint = signNote(ORIGIN, other ?? text, [this.key]);
    const request = { oldSize: Math.min(oldSize, treeSize), proof, checkpoint };
    return { reply: await witness.addCheckpoint(encodeAddCheckpoint(request)), checkpoint, treeSize };
  }
}

export async function headOf({ log }: Store): Promise<Batch> {
  const batch = await log.head();
  if (batch === undefined) throw new Error('nothing is sealed');
  return batch;
}

export interface Grown {
  /** Of the checkpoint. */
  text: string;
  treeSize: number;
  tiles: ReturnType<typeof appendLeaves>['tiles'];
  /** Reads tiles of the grown tree. */
  read: ReadTile;
  step: Step;
}

/** The tree of a store with these leaves added, and why it contains the tree before. */
export async function grown({ log }: Store, hashes: readonly Uint8Array[]): Promise<Grown> {
  const from = (await log.head())?.treeSize ?? 0;
  const edge = await loadEdge(from, (level, index) => log.tile(level, index));
  const next = appendLeaves(edge, hashes);
  const shelf = new TileShelf();
  shelf.put(next.tiles);
  const read: ReadTile = async (level, index) =>
    (await shelf.read(level, index)) ?? (await log.tile(level, index));
  const [treeSize, root] = [next.edge.size, rootOf(next.edge)];
  const proof = await consistencyProof(from, treeSize, read);
  const text = encodeCheckpoint({ origin: ORIGIN, treeSize, root });
  const step: Step = {
    from: { size: from, root: toBase64(rootOf(edge)) },
    proof: proof.map(toBase64),
    isCommitted: true,
  };
  return { text, treeSize, tiles: next.tiles, read, step };
}
