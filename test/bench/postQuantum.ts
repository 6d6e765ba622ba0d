import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { makeSoftwareKey } from '../../src/kms/softwareKey.ts';
import { makeNssToken, nssTable } from '../support/nss.ts';
import { type BesidePlan, type BesideRow, compareDaemons } from './beside.ts';
import { openLoad } from './http.ts';
import { startDaemon, UNLIMITED } from './servers.ts';
import type { Workspace } from './workspace.ts';

/** What a post-quantum signature on each checkpoint costs. Each daemon has two partitions of SoftHSM. */
export async function benchPostQuantum(
  plan: BesidePlan,
  workspace: Workspace,
  progress: (line: string) => void,
): Promise<BesideRow[]> {
  const load = openLoad(workspace);
  const regions = ['north', 'south'];
  const without = await startDaemon(workspace, { regions, quorum: 2 });
  const file = join(workspace.folder('software'), 'key');
  writeFileSync(file, makeSoftwareKey(), { mode: 0o600 });
  const keys = {
    'a key in a file': `software_key_file = "${file}"`,
    'a key in NSS softoken': nssTable(makeNssToken(workspace.folder('softoken'))),
  };
  const rows: BesideRow[] = [];
  for (const [key, place] of Object.entries(keys)) {
    progress(`postquantum: ${key}`);
    const own = `[[kms.partitions]]\nregion = "north"\nkey_label = "pq"\nalgorithm = "mldsa44"\n${place}\n`;
    const tables = { kms: 'quorum = "2 classical and 1 post-quantum"' };
    const beside = await startDaemon(workspace, { regions, tables, tail: `${own}${UNLIMITED}` });
    rows.push(...(await compareDaemons(load, plan, key, [without, beside])));
  }
  return rows;
}
