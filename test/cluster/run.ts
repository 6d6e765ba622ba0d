/**
 * `npm run test:cluster -- [--minutes N] [--attacks N] [--seed S] [--only TEXT] [--mutant TEXT]`: three machines under Patroni and etcd, three
 * daemons and two fronts, a load on them, and everything that can happen to a cluster, one thing after the other, in an order of the seed. In the end, all
 * that was ever answered is held against what is there. Ends with 1 if a promise was broken; with `--mutant`, if the checker did not see what
 * that daemon breaks; with 2 if the cluster itself did not come back. Needs root.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { parseArgs } from 'node:util';
import { brokenPromises, PROMISES } from '../faults/checker.ts';
import { readFinalState } from '../faults/finalState.ts';
import { buildMutant } from '../faults/mutants.ts';
import { randomFrom } from '../faults/random.ts';
import { TERMS, Workload } from '../faults/workload.ts';
import { until } from '../support/until.ts';
import { ATTACKS, type Attack } from './attacks.ts';
import { type ClusterMutant, MUTANTS } from './mutants.ts';
import { PatroniCluster } from './patroni.ts';
import { Site } from './site.ts';

const APART = '--apart';
/** After an attack, whatever the machine is doing besides. Patroni lets a leader go after 20 s. */
const RECOVERY_SECONDS_MAX = 240;
/** A document is sent so often until one is sealed: one that came too early can wait for as long as a client may. */
const PROBE_MS = 1_000;
const CALM_MS = 15_000;
/** Hours of it can be looked at in the end, one receipt after the other, and a cluster on one machine has no other load. */
const LOAD = { lanes: 4, pauseMs: 100 };

interface Round {
  attack: string;
  /** Who took over. */
  outcome: string;
  seconds: number;
}

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '10' },
    attacks: { type: 'string', default: 'Infinity' },
    seed: { type: 'string', default: String(Date.now() % 2 ** 31) },
    only: { type: 'string', default: '' },
    mutant: { type: 'string' },
    apart: { type: 'boolean', default: false },
  },
});
if (process.getuid?.() !== 0) {
  console.error('networks of their own, and PostgreSQL under another user, need root: run this as root');
  process.exit(64);
}
if (values.apart) await play();
else {
  execFileSync('sh', ['test/cluster/setup.sh'], { stdio: 'inherit' });
  const again = [process.execPath, ...process.argv.slice(1), APART];
  process.exitCode = spawnSync('unshare', ['--net', ...again], { stdio: 'inherit' }).status ?? 70;
}

async function play(): Promise<void> {
  const [minutes, attacks, seed] = [values.minutes, values.attacks, values.seed].map(Number) as [
    number,
    number,
    number,
  ];
  const mutant = values.mutant === undefined ? undefined : mutantNamed(values.mutant);
  const code = mutant && buildMutant(mutant.name, mutant.edits);
  const chosen = ATTACKS.filter(({ name }) => name.includes(mutant?.attack ?? values.only));
  /** Each has its turn before one comes again. */
  const deck: Attack[] = [];
  const random = randomFrom(seed);
  const dir = mkdtempSync(join(tmpdir(), 'pdfseal-cluster-'));
  chmodSync(dir, 0o755);
  /** Whoever looks for the reason needs all that was said. */
  let isKept = false;
  const closes: (() => void | Promise<void>)[] = [
    () =>
      isKept ? console.error(`the files are left in ${dir}`) : rmSync(dir, { recursive: true, force: true }),
  ];
  if (code) closes.push(() => rmSync(dirname(code.dist), { recursive: true, force: true }));
  /** What is to be known where sealing does not go on. */
  const tells: (() => Promise<string>)[] = [];
  console.error(`seed ${seed}`);
  try {
    const cluster = await PatroniCluster.open(dir);
    closes.push(() => cluster.close());
    tells.push(() => cluster.describe());
    const site = await Site.open(cluster, 3, code);
    closes.push(() => site.close());
    tells.push(() => site.describe(dir));
    await until('a daemon listens', async () => (await site.active()) !== undefined);
    const workload = await Workload.open({ teardown: (close) => closes.push(close) }, site.door, seed);
    await site.addFronts(cluster, 2); // Clients manage webhook endpoints elsewhere.
    let isOver = false;
    const sending = workload.run(() => isOver, LOAD);
    const leaders = async () => ({ server: await cluster.primary(), daemon: await site.active() });
    const rounds: Round[] = [];
    const probes: Promise<void>[] = [];
    const end = performance.now() + minutes * 60_000;
    for (let round = 0; round < attacks && performance.now() < end; round++) {
      if (deck.length === 0) deck.push(...chosen);
      const [attack] = deck.splice(Math.floor(random() * deck.length), 1);
      if (attack === undefined) throw new Error('there is no such attack');
      const before = await leaders();
      await attack.run(cluster, site, random);
      const begun = performance.now();
      let [sentAt, isSealed] = [0, false];
      const isBack = async () => {
        if (performance.now() - sentAt > PROBE_MS) {
          sentAt = performance.now();
          const noted = (is: boolean) => {
            isSealed = is || isSealed;
          };
          probes.push(workload.isSealing().then(noted));
        }
        return isSealed && (await cluster.isReplicated());
      };
      try {
        await until(`sealing goes on after: ${attack.name}`, isBack, RECOVERY_SECONDS_MAX);
      } catch (error) {
        if (await cluster.isReplicated()) throw error;
        // Patroni leaves a standby as it is that went further than the server which it promoted.
        isKept = true;
        for (const tell of tells) console.error(await tell());
        console.log(`no standby follows the primary any more after: ${attack.name}; nothing can be told`);
        process.exitCode = 2;
        isOver = true;
        await sending;
        return;
      }
      const seconds = (performance.now() - begun) / 1000;
      const after = await leaders();
      const others = (['server', 'daemon'] as const).filter((one) => before[one] !== after[one]);
      const outcome = others.length > 0 ? `another ${others.join(' and ')}` : 'as before';
      rounds.push({ attack: attack.name, outcome, seconds });
      const number = String(round + 1).padStart(4);
      console.error(`${number}  ${attack.name}: ${outcome}, sealing again after ${seconds.toFixed(1)} s`);
    }
    isOver = true;
    await Promise.all([sending, ...probes]);
    // Patroni may not be done with the last attack when the first document is sealed after it.
    let calmSince = performance.now();
    await until(
      'the cluster is calm',
      async () => {
        const isCalm = (await cluster.isReplicated()) && (await workload.isSealing());
        if (!isCalm) calmSince = performance.now();
        return performance.now() - calmSince > CALM_MS;
      },
      RECOVERY_SECONDS_MAX,
    );
    const active = await site.active();
    if (active === undefined) throw new Error('nobody is active');
    const final = await readFinalState(active.sandbox, site, workload); // It writes its last checkpoint as it stops.
    const broken = brokenPromises(workload.history, final, { ...TERMS, callsFail: true });
    report(rounds, broken);
    const { tries, receipts, checkpoints, messages } = workload.history;
    console.log(
      `\n${tries.length} creates, ${receipts.length} receipts and ${checkpoints.length} checkpoints were answered;`,
      `${final.leaves.length} leaves, ${messages.length} messages to webhooks`,
    );
    const isAsExpected = mutant ? mutant.breaks in broken : Object.keys(broken).length === 0;
    process.exitCode = isAsExpected ? 0 : 1;
  } catch (error) {
    isKept = true;
    for (const tell of tells) console.error(await tell());
    throw error;
  } finally {
    for (const close of closes.reverse()) await close();
  }
}

function mutantNamed(text: string): ClusterMutant {
  const mutant = MUTANTS.find(({ name }) => name.includes(text));
  if (mutant === undefined) throw new Error('there is no such mutant');
  console.error(`a daemon that ${mutant.name}: ${mutant.breaks}`);
  return mutant;
}

function report(rounds: Round[], broken: ReturnType<typeof brokenPromises>): void {
  console.log('\n| Attack | Rounds | Who leads after it | Slowest recovery |\n| --- | ---: | --- | ---: |');
  for (const [attack, all] of Map.groupBy(rounds, ({ attack }) => attack)) {
    const outcomes = [...Map.groupBy(all, ({ outcome }) => outcome)]
      .map(([outcome, { length }]) => `${outcome}: ${length}`)
      .join(', ');
    const slowest = Math.max(...all.map(({ seconds }) => seconds));
    console.log(`| ${attack} | ${all.length} | ${outcomes} | ${slowest.toFixed(1)} s |`);
  }
  console.log('\n| Promise | What speaks against it |\n| --- | --- |');
  for (const promise of Object.keys(PROMISES) as (keyof typeof PROMISES)[])
    console.log(`| ${promise} | ${broken[promise]?.slice(0, 5).join('; ') ?? 'nothing'} |`);
}
