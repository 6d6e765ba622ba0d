import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Litewitness } from '../support/litewitness.ts';
import type { Sandbox } from '../support/sandbox.ts';
import { SiteWitness } from '../support/siteWitness.ts';
import { type BesidePlan, type BesideRow, compareDaemons } from './beside.ts';
import { openLoad } from './http.ts';
import { startDaemon } from './servers.ts';
import type { Workspace } from './workspace.ts';

/** A witness of the log with this key, and how to reach it. */
type Start = (log: string, sandbox: Sandbox) => Promise<{ vkey: string; url: string }>;

/** What it costs to release no batch before a witness has cosigned it. The witness is on the same machine. */
export async function benchWitness(
  plan: BesidePlan,
  workspace: Workspace,
  progress: (line: string) => void,
): Promise<BesideRow[]> {
  const load = openLoad(workspace);
  const regions = ['north', 'south'];
  const without = await startDaemon(workspace, { regions, quorum: 2 });
  const witnesses: Record<string, Start> = {
    'pdfseal-witness': async (log, { dir }) => {
      const witness = await SiteWitness.make(dir, 'bench', 'dist');
      workspace.onClose(async () => void (await witness.kill()));
      witness.name(log);
      await witness.start();
      return witness;
    },
    litewitness: (log) => {
      const ending = { teardown: (end: () => Promise<void>) => workspace.onClose(end) };
      return Litewitness.open(ending, 'bench.example/litewitness', log.split('+')[0] ?? '', [log]);
    },
  };
  const rows: BesideRow[] = [];
  for (const [name, start] of Object.entries(witnesses)) {
    progress(`witness: ${name}`);
    const tables = { witness: 'policy = "policy"\nrequired = true' };
    const beside = await startDaemon(workspace, { regions, quorum: 2, tables }, async (sandbox) => {
      const { logs } = JSON.parse(readFileSync(sandbox.trustFile, 'utf8'));
      const log: string = logs[0].epochs[0].keys[0].vkey;
      const { vkey, url } = await start(log, sandbox);
      writeFileSync(join(sandbox.dir, 'policy'), `log ${log}\nwitness one ${vkey} ${url}\nquorum one\n`);
    });
    rows.push(...(await compareDaemons(load, plan, name, [without, beside])));
  }
  return rows;
}
