import { number, ratio, table } from './format.ts';
import type { Load, Server } from './http.ts';
import { cpuSeconds } from './machine.ts';
import { latencyOf, median, medianOf } from './stats.ts';

export interface BesidePlan {
  connections: number[];
  documentBytes: number;
  rounds: number;
  roundMs: number;
}

/** The CPU is that of the daemon and its children, so also of SoftHSM. It hardly depends on what else the machine does. */
interface Figures {
  perSecond: number;
  p50Ms: number;
  cpuMsPerSeal: number;
}

export interface BesideRow {
  /** What the one daemon has and the other does not. */
  what: string;
  connections: number;
  /** Medians of the rounds. */
  without: Figures;
  beside: Figures;
  /** Median of the quotients of seals per second within a round. */
  toWithout: number;
}

/**
 * What something costs: a daemon with it beside one without, in turns, so that what else the machine does falls on both. `turn` is called
 * before each round, and says whether the round is one with it.
 */
export async function compareDaemons(
  load: Load,
  plan: BesidePlan,
  what: string,
  [without, beside]: [Server, Server],
  turn: (isBeside: boolean) => Promise<void> = async () => {},
): Promise<BesideRow[]> {
  const rows: BesideRow[] = [];
  for (const connections of plan.connections) {
    const figures = async (daemon: Server, isBeside: boolean) => {
      await turn(isBeside);
      return figuresOf(load, daemon, plan, connections);
    };
    const [plain, mixed]: [Figures[], Figures[]] = [[], []];
    await figures(without, false);
    await figures(beside, true);
    for (let round = 0; round < plan.rounds; round += 1) {
      plain.push(await figures(without, false));
      mixed.push(await figures(beside, true));
    }
    const ratios = mixed.map(({ perSecond }, round) => perSecond / (plain[round]?.perSecond ?? Number.NaN));
    const medians = { without: medianOf(plain), beside: medianOf(mixed) };
    rows.push({ what, connections, ...medians, toWithout: median(ratios) });
  }
  return rows;
}

async function figuresOf(
  load: Load,
  { pid, port, apiKey }: Server,
  { documentBytes, roundMs: durationMs }: BesidePlan,
  connections: number,
): Promise<Figures> {
  const cpuBefore = cpuSeconds(pid);
  const { latenciesMs, seconds } = await load({ port, apiKey, documentBytes, connections, durationMs });
  const seals = latenciesMs.length;
  const cpuMsPerSeal = ((cpuSeconds(pid) - cpuBefore) * 1000) / seals;
  return { perSecond: seals / seconds, p50Ms: latencyOf(latenciesMs).p50Ms, cpuMsPerSeal };
}

export function renderBeside(title: string, rows: readonly BesideRow[]): string {
  const columns = ['seals/s', 'p50 ms', 'CPU ms/seal'].flatMap((one) => [`${one} without`, 'with']);
  const cells = rows.map(({ what, connections, without, beside, toWithout }) => [
    `${what}, ${connections}`,
    ...(['perSecond', 'p50Ms', 'cpuMsPerSeal'] as const).flatMap((one) => [
      number(without[one]),
      number(beside[one]),
    ]),
    ratio(toWithout, 1),
  ]);
  return `${title}\n${table(['with, connections', ...columns, 'seals/s, ratio'], cells)}`;
}
