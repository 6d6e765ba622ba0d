import { BrokenInvariant } from '../../base/assert.ts';
import { OperatorError } from '../../base/errors.ts';
import { acquireLock } from '../../base/lock.ts';
import { randomIdBytes } from '../../base/random.ts';
import { type Config, loadConfig } from '../../config/config.ts';
import type { Epoch } from '../../log/epochs.ts';
import { type Act, parseAuditRecord } from '../../manifest/auditRecord.ts';
import { evidenceOf } from '../../prove/trail/lastCheckpoint.ts';
import { actOfProcess } from '../../store/acts.ts';
import {
  assertMayCreateAt,
  createStoreAt,
  describeStore,
  openContents,
  storeExists,
} from '../../store/engines.ts';
import { withMark, withoutMark } from '../../store/move.ts';
import { parseRecord } from '../../store/records.ts';
import type { Store, StoreIdentity } from '../../store/store.ts';
import { compareContents, copyContents, SECTIONS, type StoreContents } from '../../store/storeContents.ts';
import type { StoreMove } from '../../store/storeMove.ts';
import { command, group, option } from '../command.ts';
import { CONFIG } from '../options.ts';
import { note, printResult, showProgress } from '../terminal.ts';
import { withStoreAt } from '../withStore.ts';
import { acceptanceKeyCommand } from './acceptanceKeyCommand.ts';
import { rolesCommand } from './rolesCommand.ts';
import { printReport, runCheck } from './runCheck.ts';
import { isWhole } from './storeReport.ts';

const migrateCommand = command('migrate', {
  description:
    'Moves a log, with everything else in its store, to the store that another configuration names: from the embedded store into ' +
    'PostgreSQL, or back. Stop the daemon first, and make a backup. The command checks the store as `pdfseal check` does, copies it, ' +
    'compares every byte, and checks the copy. Keys stay in the HSM.\n\n' +
    'From its beginning on, no daemon starts on the store that the log leaves; once the copy is found good, that store permanently records where ' +
    'its log has gone. Two stores that grew from one log would contradict each other. Therefore both configurations must name the same ' +
    'last-checkpoint file: it also stops a backup of the old store from growing.\n\n' +
    'If the command is interrupted, run it again: it continues. With --cancel, the log stays where it is.',
  options: [
    CONFIG,
    option('--to <file>', 'config file that names the store to move to, which the command creates', {
      required: true,
    }),
    option('--cancel', 'end an interrupted move: the log stays where it is'),
  ],
  examples: [
    'systemctl stop pdfseald@production.socket pdfseald@production.service',
    'pdfseal store migrate --config /etc/pdfseal/production.toml --to /etc/pdfseal/postgresql.toml',
  ],
  async run({ config, to, cancel }) {
    const source = loadConfig(config, { files: 'unused' });
    const target = loadConfig(to, { files: 'unused' });
    assertSameLog(source, target);
    using locks = new DisposableStack();
    for (const file of new Set([source.lockFile, target.lockFile])) locks.use(acquireLock(file));
    const move = new Move(source, target);
    if (cancel) {
      await move.cancel();
      printResult({ cancelled: true }, `the log stays in ${describeStore(source.store)}`);
      return;
    }
    const size = await move.run();
    const [left, reached] = [describeStore(source.store), describeStore(target.store)];
    printResult(
      { from: left, to: reached, tree_size: size },
      `${reached}: ${size} leaves, from ${left}, compared and checked. Start the daemon with ${to}`,
    );
  },
});

export const storeCommand = group(
  'store',
  'Moves a log from one store to another, and makes the roles of a database and the acceptance key.',
  [migrateCommand, rolesCommand, acceptanceKeyCommand],
);

/** Larger than the number of acts between two steps of a move. */
const ENTRIES_MAX = 1000;

/** Throws OperatorError unless both are configurations of one log in two places. */
function assertSameLog(source: Config, target: Config): void {
  const settings: [string, (config: Config) => string][] = [
    ['environment', ({ environment }) => environment],
    ['log.origin', ({ log }) => log.origin],
    ['log.last_checkpoint_file', ({ log }) => log.lastCheckpointFile],
  ];
  for (const [name, of] of settings) {
    if (of(source) === of(target)) continue;
    throw new OperatorError(`the configurations differ in ${name}: "${of(source)}" and "${of(target)}"`);
  }
  if (describeStore(source.store) === describeStore(target.store))
    throw new OperatorError('both configurations name the same store');
}

/** Moves a log. See {@link StoreMove} for the order of steps, which a daemon on either side depends on. */
class Move {
  readonly #source: Config;
  readonly #target: Config;

  constructor(source: Config, target: Config) {
    this.#source = source;
    this.#target = target;
  }

  /** Returns the size of the log. Throws OperatorError. */
  async run(): Promise<number> {
    return within(await openContents(this.#source.store), async (source) => {
      const { move } = await source.identity();
      const isMade = await storeExists(this.#target.store);
      if (move === undefined && isMade) throw this.#isTaken();
      if (!isMade) await assertMayCreateAt(this.#target.store);
      const mark = move ?? (await this.#leave(source));
      this.#assertOwn(mark);
      if (!isMade) await this.#create(source, mark);
      await within(await openContents(this.#target.store), async (target) => {
        const { move } = await target.identity();
        if (move === undefined && mark.state === 'left') return; // Everything is done already.
        if (move?.state !== 'arriving' || move.id !== mark.id) throw this.#isTaken();
        if (mark.state === 'leaving') await this.#fill(source, target, mark);
        await this.#conclude(mark);
        await target.setIdentity(withoutMark(await target.identity()));
      });
      return this.#look(this.#target, async ({ log }) => (await log.head())?.treeSize ?? 0);
    });
  }

  #isTaken(): OperatorError {
    return new OperatorError(`${describeStore(this.#target.store)} has a store already`, {
      remedy: 'a store is never overwritten: name another place, or move that store out of the way',
    });
  }

  /** Leaves the store of the log as it was before. Throws OperatorError once the log has left it. */
  async cancel(): Promise<void> {
    const mark = await within(await openContents(this.#source.store), async (source) => {
      const identity = await source.identity();
      if (identity.move?.state !== 'leaving')
        throw new OperatorError(`no log is on its way from ${describeStore(this.#source.store)}`);
      await source.setIdentity(withoutMark(identity));
      return identity.move;
    });
    const act: Act = { ...this.#act(), outcome: 'failed', concludes: mark.concludes };
    await this.#look(this.#source, ({ trail }) => trail.append(act));
    note(`pdfseal: the copy in ${mark.other} is no longer needed: remove it`);
  }

  /** Marks the store before anything is copied: from now on no process writes to it. */
  async #leave(source: StoreContents): Promise<StoreMove> {
    await this.#requireGood(this.#source);
    const concludes = await this.#look(this.#source, ({ trail }) =>
      trail.append({ ...this.#act(), outcome: 'begun' }),
    );
    const mark: StoreMove = {
      state: 'leaving',
      id: randomIdBytes(16).toString('hex'),
      other: describeStore(this.#target.store),
      begunAt: Date.now(),
      concludes,
    };
    await source.setIdentity(withMark(await source.identity(), mark));
    return mark;
  }

  #assertOwn({ state, other }: StoreMove): void {
    const place = describeStore(this.#source.store);
    if (state === 'arriving')
      throw new OperatorError(`${place} does not have the whole log from ${other} yet: end that move first`);
    if (other === describeStore(this.#target.store)) return;
    throw state === 'left'
      ? new OperatorError(`the log has moved from ${place} to ${other} already`)
      : new OperatorError(`the log in ${place} is on its way to ${other}: end that, or begin with --cancel`);
  }

  async #create(source: StoreContents, { id, begunAt, concludes }: StoreMove): Promise<void> {
    const { environment, logOrigin, createdAt } = await source.identity();
    const other = describeStore(this.#source.store);
    const move: StoreMove = { state: 'arriving', id, other, begunAt, concludes };
    for await (const [first] of source.pages('epochs')) {
      const [epoch] = first === undefined ? [] : parseRecord<Epoch[]>(first.value);
      if (epoch === undefined) break;
      return createStoreAt(this.#target.store, {
        identity: { environment, logOrigin, createdAt, move },
        epoch,
      });
    }
    throw new OperatorError(`${other} has no epochs`);
  }

  async #fill(source: StoreContents, target: StoreContents, mark: StoreMove): Promise<void> {
    await withProgress('copying', source, (onEntries) => copyContents(source, target, onEntries));
    const frozen = await source.freeze();
    try {
      await withProgress('comparing', source, (onEntries) => compareContents(source, target, onEntries));
      await this.#requireGood(this.#target);
      const left: StoreIdentity = withMark(await source.identity(), { ...mark, state: 'left' });
      if (await frozen.leave(left)) return;
    } catch (error) {
      if (error instanceof BrokenInvariant) throw new OperatorError(error.message, { cause: error });
      throw error;
    } finally {
      await frozen.end();
    }
    throw new OperatorError(
      `another process wrote to ${describeStore(this.#source.store)} meanwhile: run this again`,
    );
  }

  /** Records the move: the first record that only the new store contains. */
  async #conclude({ concludes }: StoreMove): Promise<void> {
    await this.#look(this.#target, async ({ trail }) => {
      const later = await trail.entries(concludes, ENTRIES_MAX);
      if (later.some(({ text }) => parseAuditRecord(text)?.concludes === concludes)) return;
      await trail.append({ ...this.#act(), concludes });
    });
  }

  #act(): Act {
    const [from, to] = [describeStore(this.#source.store), describeStore(this.#target.store)];
    return actOfProcess('command', 'store.migrate', { from, to });
  }

  async #requireGood(config: Config): Promise<void> {
    note(`pdfseal: checking ${describeStore(config.store)}`);
    const report = await this.#look(config, async (store) =>
      runCheck(store, config, await evidenceOf(store, config.log.lastCheckpointFile)),
    );
    if (isWhole(report)) return;
    printReport(report);
    throw new OperatorError(`${describeStore(config.store)} is not whole: nothing was moved`);
  }

  #look<T>({ store, environment, log }: Config, work: (store: Store) => Promise<T>): Promise<T> {
    const expected = { environment, logOrigin: log.origin };
    return withStoreAt(store, { expected, moving: true }, work);
  }
}

async function within<T>(store: StoreContents, work: (store: StoreContents) => Promise<T>): Promise<T> {
  try {
    return await work(store);
  } finally {
    await store.close();
  }
}

async function withProgress(
  label: string,
  source: StoreContents,
  work: (onEntries: (section: string, entries: number) => void) => Promise<void>,
): Promise<void> {
  note(`pdfseal: ${label}`);
  let total = 0;
  for (const section of SECTIONS) total += await source.count(section);
  using progress = showProgress(label, total, 'entries');
  let done = 0;
  await work((_section, entries) => {
    done += entries;
    progress.update(done);
  });
}
