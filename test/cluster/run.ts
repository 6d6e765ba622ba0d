/**
 * `npm run test:cluster -- [--minutes N] [--attacks N] [--seed S] [--only TEXT] [--mutant TEXT]`: three machines under Patroni and etcd, two
 * daemons, a load on them, and everything that can happen to a cluster, one thing after the other, in an order of the seed. In the end, all
 * that was ever answered is held against what is there. Ends with 1 if a promise was broken; with `--mutant`, if the checker did not see what
 * that daemon breaks; with 2 if the cluster itself did not come back. Needs root.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { parseArgs } from 'node:util';
import { brokenPromises } from '../faults/checker.ts';
import { readFinalState } from '../faults/finalState.ts';
import { buildMutant } from '../faults/mutants.ts';
import { randomFrom } from '../faults/random.ts';
import { TERMS, Workload } from '../faults/workload.ts';
import { until } from '../support/until.ts';
import { ATTACKS } from './attacks.ts';
import { type ClusterMutant, MUTANTS } from './mutants.ts';
import { PatroniCluster } from './patroni.ts';
import { Site } from './site.ts';

const APART = '--apart';
/** After an attack, whatever the machine is doing besides. Patroni lets a leader go after 20 s. */
const RECOVERY_SECONDS_MAX = 240;
const CALM_MS = 15_000;

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
  const random = randomFrom(seed);
  const dir = mkdtempSync(join(tmpdir(), 'pdfseal-cluster-'));
  chmodSync(dir, 0o755);
  const closes: (() => void | Promise<void>)[] = [() => rmSync(dir, { recursive: true, force: true })];
  if (code) closes.push(() => rmSync(dirname(code.dist), { recursive: true, force: true }));
  /** What is to be known where sealing does not go on. */
  const tells: (() => Promise<string>)[] = [];
  console.error(`seed ${seed}`);
  try {
    const cluster = await PatroniCluster.open(dir);
    closes.push(() => cluster.close());
    tells.push(() => cluster.describe());
    const site = await Site.open(cluster, 2, code);
    closes.push(() => site.close());
    tells.push(() => site.describe());
    await until('a daemon listens', async () => (await site.active()) !== undefined);
    const workload = await Workload.open({ teardown: (close) => closes.push(close) }, site.door, seed);
    await site.addFronts(cluster, 2); // Clients manage webhook endpoints elsewhere.
    let isOver = false;
    const sending = workload.run(() => isOver);
    const recoveries: { name: string; seconds: number }[] = [];
    const end = performance.now() + minutes * 60_000;
    for (let round = 0; round < attacks && performance.now() < end; round++) {
      const attack = chosen[Math.floor(random() * chosen.length)];
      if (attack === undefined) throw new Error('there is no such attack');
      await attack.run(cluster, site, random);
      const begun = performance.now();
      const isBack = async () => (await cluster.isReplicated()) && (await workload.isSealing());
      try {
        await until(`sealing goes on after: ${attack.name}`, isBack, RECOVERY_SECONDS_MAX);
      } catch (error) {
        if (await cluster.isReplicated()) throw error;
        // Patroni leaves a standby as it is that went further than the server which it promoted.
        for (const tell of tells) console.error(await tell());
        console.log(`no standby follows the primary any more after: ${attack.name}; nothing can be told`);
        process.exitCode = 2;
        isOver = true;
        await sending;
        return;
      }
      const seconds = (performance.now() - begun) / 1000;
      recoveries.push({ name: attack.name, seconds });
      console.error(
        `${String(round + 1).padStart(4)}  ${attack.name}: sealing again after ${seconds.toFixed(1)} s`,
      );
    }
    isOver = true;
    await sending;
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
    report(recoveries, final.leaves.length, workload.history.tries.length);
    for (const [promise, against] of Object.entries(broken))
      console.log(`BROKEN ${promise}: ${against.slice(0, 5).join('; ')}`);
    if (Object.keys(broken).length === 0) console.log('every promise was kept');
    const isAsExpected = mutant ? mutant.breaks in broken : Object.keys(broken).length === 0;
    process.exitCode = isAsExpected ? 0 : 1;
  } catch (error) {
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

function report(recoveries: { name: string; seconds: number }[], leaves: number, creates: number): void {
  console.log(`\n${creates} creates, ${leaves} leaves\n`);
  console.log('| Attack | Times | Slowest recovery |\n| --- | ---: | ---: |');
  for (const [name, all] of Map.groupBy(recoveries, ({ name }) => name)) {
    const slowest = Math.max(...all.map(({ seconds }) => seconds));
    console.log(`| ${name} | ${all.length} | ${slowest.toFixed(1)} s |`);
  }
}
