// Renews a log, and kills itself as a power cut would, before or after its next write. Says what it is about to do.
import { writeSync } from 'node:fs';
import { toBase64 } from '../../../src/base/bytes.ts';
import { openStore } from '../../../src/store/lmdb/open.ts';
import type { RenewalStore } from '../../../src/store/renewalStore.ts';
import { BEGIN, DAY_MS } from '../../support/authority.ts';
import { renew, YearlyAuthority } from '../../support/renewals.ts';

const [path = '', when = '', width = ''] = process.argv.slice(2);
const WRITES = ['keepDraft', 'addRow', 'commit'];

const store = await openStore({ path });
const authority = await YearlyAuthority.make('alpha');
writeSync(1, `root ${toBase64(authority.trusted.root.der)}\n`);

const renewals = new Proxy(store.renewals, {
  get(target, name: keyof RenewalStore) {
    const method = target[name].bind(target) as (...args: unknown[]) => Promise<unknown>;
    if (!WRITES.includes(name)) return method;
    return async (...args: unknown[]) => {
      if (when === 'after') await method(...args);
      writeSync(1, `killed ${when} ${name}\n`);
      process.kill(process.pid, 'SIGKILL');
    };
  },
});
await renew(
  { log: store.log, renewals },
  { digest: 'sha384', at: BEGIN + 2 * DAY_MS, authorities: [authority], width: Number(width) },
);
