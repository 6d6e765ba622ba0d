import { toBase64 } from '../../src/base/bytes.ts';
import type { Step, Tree } from '../../src/kms/protocol.ts';
import { consistencyProof } from '../../src/log/proof.ts';
import type { ReadTile } from '../../src/log/tiles.ts';
import { leafHash, loadEdge, rootOf } from '../../src/log/tree.ts';
import { growTree } from './sealing.ts';

const SIZE_MAX = 300;
/** How many leaves all branches have in common. */
export const FORK_AT = 20;

/** A log whose leaves from the fork on are those of its branch. */
export class History {
  readonly #read: ReadTile;

  constructor(branch: string) {
    const leaves = Array.from({ length: SIZE_MAX }, (_, n) => `leaf ${n} ${n < FORK_AT ? '' : branch}`);
    const { shelf } = growTree(
      leaves.map((leaf) => leafHash(Buffer.from(leaf))),
      SIZE_MAX,
    );
    this.#read = shelf.read;
  }

  async tree(size: number): Promise<Tree> {
    return { size, root: toBase64(rootOf(await loadEdge(size, this.#read))) };
  }

  /** `isFirst`: for a signer that has signed nothing. */
  async step(from: number, to: number, isFirst = true): Promise<Step> {
    const proof = await consistencyProof(Math.min(from, to), to, this.#read);
    const step = { from: await this.tree(from), proof: proof.map(toBase64) };
    return isFirst ? { ...step, isCommitted: true } : step;
  }
}
