import { generateKeyPairSync, sign } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Test } from 'tap';
import { type AddCheckpoint, parseAddCheckpoint } from '../../src/log/addCheckpoint.ts';
import { type Checkpoint, parseCheckpoint } from '../../src/log/checkpoint.ts';
import {
  type Cosigner,
  cosignatureLine,
  cosignedMessage,
  encodeCosigner,
} from '../../src/log/cosignature.ts';
import { encodeNote, encodeSignatureLines, parseNote } from '../../src/log/note.ts';
import { verifyConsistency } from '../../src/log/proof.ts';
import { emptyRoot } from '../../src/log/tree.ts';

/** Answers a request in place of the witness. */
export type Misbehaving = (res: ServerResponse, asked: AddCheckpoint) => void;

export const misbehave =
  (status: number, body = '', contentType = 'text/plain'): Misbehaving =>
  (res) =>
    void res.writeHead(status, { 'Content-Type': contentType }).end(body);

/** A witness of one log, on the loopback, that is honest unless it is told otherwise. It does not look at the signatures of the log. */
export class TestWitness {
  readonly cosigner: Cosigner;
  readonly vkey: string;
  /** What was asked, in its order. */
  readonly asked: AddCheckpoint[] = [];
  readonly bodies: string[] = [];
  misbehaving: Misbehaving | undefined;
  url = '';
  /** The newest tree it has cosigned. */
  held: Pick<Checkpoint, 'treeSize' | 'root'> = { treeSize: 0, root: emptyRoot };
  readonly #sign: (message: Uint8Array) => Uint8Array;

  private constructor(name: string) {
    const { publicKey, privateKey } = generateKeyPairSync('ed25519');
    const key = publicKey.export({ format: 'der', type: 'spki' }).subarray(-32);
    this.cosigner = { name: `${name}.example/witness`, algorithm: 'ed25519', key };
    this.vkey = encodeCosigner(this.cosigner);
    this.#sign = (message) => sign(null, message, privateKey);
  }

  static async open(t: Test, name: string): Promise<TestWitness> {
    const witness = new TestWitness(name);
    const server = createServer((req, res) => {
      let body = '';
      req.setEncoding('utf8').on('data', (text) => (body += text));
      req.on('end', () => witness.#answer(res, req.url ?? '', body));
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    t.teardown(() => {
      server.close();
      server.closeAllConnections();
    });
    witness.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/some/prefix/`;
    return witness;
  }

  /** Its line of a policy. */
  line(label: string, url: string = this.url): string {
    return `witness ${label} ${this.vkey} ${url}\n`;
  }

  #answer(res: ServerResponse, path: string, body: string): void {
    const asked = parseAddCheckpoint(body);
    if (path !== '/some/prefix/add-checkpoint' || asked === undefined) return void res.writeHead(400).end();
    this.asked.push(asked);
    this.bodies.push(body);
    const answer: Misbehaving = this.misbehaving ?? ((to, what) => this.cosign(to, what));
    answer(res, asked);
  }

  cosign(res: ServerResponse, { oldSize, proof, checkpoint }: AddCheckpoint): void {
    const text = parseNote(checkpoint)?.text ?? '';
    const { treeSize, root } = parseCheckpoint(text) as Checkpoint;
    const { held } = this;
    if (oldSize !== held.treeSize) {
      res.writeHead(409, { 'Content-Type': 'text/x.tlog.size' }).end(`${held.treeSize}
`);
    } else if (verifyConsistency(oldSize, treeSize, proof, held.root, root)) {
      this.held = { treeSize, root };
      res.writeHead(200).end(this.answerFor(text));
    } else res.writeHead(422).end();
  }

  /** Its signature line over the text of a checkpoint. */
  answerFor(text: string, time = Math.floor(Date.now() / 1000)): string {
    const message = cosignedMessage(this.cosigner, time, text) ?? new Uint8Array();
    return encodeSignatureLines([cosignatureLine(this.cosigner, time, this.#sign(message))]);
  }
}

/** A witness without a network: its line of a policy, and a cosignature of that time, in seconds since the Unix epoch. */
export function makeCosigner(label: string, time: number) {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519');
  const key = publicKey.export({ format: 'der', type: 'spki' }).subarray(-32);
  const cosigner = { name: `${label}.example/w`, algorithm: 'ed25519', key } as const;
  const cosign = (note: string) => {
    const { text, signatures } = parseNote(note) ?? { text: '', signatures: [] };
    const message = cosignedMessage(cosigner, time, text) ?? Buffer.alloc(0);
    const line = cosignatureLine(cosigner, time, sign(null, message, privateKey));
    return encodeNote(text, [...signatures, line]);
  };
  return { line: `witness ${label} ${encodeCosigner(cosigner)}`, cosign };
}
