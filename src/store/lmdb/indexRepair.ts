import type { Clock } from '../../base/clock.ts';
import type { IndexFlaw, IndexStore, RepairOptions } from '../indexStore.ts';
import type { StoreIdentity } from '../store.ts';
import type { Commits } from './commits.ts';
import type { Databases } from './databases.ts';
import { identityChange } from './identity.ts';
import { checkIndexes } from './indexCheck.ts';

/** Compares the indexes with what they follow from, and writes the entries that differ. */
export class IndexRepair implements IndexStore {
  readonly #databases: Databases;
  readonly #commits: Commits;
  readonly #identity: StoreIdentity;
  readonly #clock: Clock;

  constructor(databases: Databases, commits: Commits, identity: StoreIdentity, clock: Clock) {
    this.#databases = databases;
    this.#commits = commits;
    this.#identity = identity;
    this.#clock = clock;
  }

  async *check(): AsyncIterable<IndexFlaw> {
    for await (const flaws of checkIndexes(this.#databases, this.#clock())) yield* flaws;
  }

  async repair({ backup, onMended, isGood }: RepairOptions): Promise<boolean> {
    const { repair, ...whole } = this.#identity;
    const mark = repair ?? { begunAt: this.#clock(), ...(backup !== undefined && { backup }) };
    await this.#mark({ ...whole, repair: mark });
    for await (const flaws of checkIndexes(this.#databases, this.#clock())) {
      await this.#commits.write({ changes: flaws.map(({ change }) => change) });
      for (const flaw of flaws) onMended(flaw);
    }
    if (!(await isGood())) return false;
    await this.#mark(whole);
    return true;
  }

  async #mark(identity: StoreIdentity): Promise<void> {
    await this.#commits.write({ changes: [identityChange(this.#databases, identity)] });
  }
}
