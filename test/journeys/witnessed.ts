/** A log beside a witness that others wrote. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Test } from 'tap';
import type { AdminStatus } from '../../src/health/statusSchema.ts';
import { askAdmin } from '../support/admin.ts';
import { type Answer, Client } from '../support/client.ts';
import type { Daemon } from '../support/daemon.ts';
import { Litewitness } from '../support/litewitness.ts';
import { openSandbox } from '../support/sandbox.ts';
import { until } from '../support/until.ts';

export const ORIGIN = 'seal.example.com/sandbox/2026';

export const sizeOf = ({ text }: Answer) => Number(text.split('\n')[1]);
export const eventsOf = ({ log }: Daemon) => log.map(({ event }) => event);

/** Two keys sign the log, of which the witness knows the first. All of it ends with the test. */
export async function openWitnessed(t: Test) {
  const tables = { witness: 'policy = "policy"\ninterval = "200ms"', health: 'canary_interval = "off"' };
  const sandbox = await openSandbox({ regions: ['eu', 'us'], quorum: 2, tables });
  t.teardown(() => sandbox.close());
  const apiKey = await sandbox.issueKey();
  const { logs } = JSON.parse(readFileSync(sandbox.trustFile, 'utf8'));
  const [known, unknown] = logs[0].epochs[0].keys.map(({ vkey }: { vkey: string }) => vkey);
  const witness = await Litewitness.open(t, 'witness.example.net/north', ORIGIN, [known]);
  const policy = `log ${known}\nwitness north ${witness.vkey} ${witness.url}\nquorum north\n`;
  writeFileSync(join(sandbox.dir, 'policy'), policy);

  const pdfseal = (...args: string[]) => sandbox.pdfseal([...args, '--config', sandbox.configFile]);
  const status = async () => (await askAdmin(sandbox, '/status')).json<AdminStatus>();
  const daemon = await sandbox.start();
  const client = await Client.connect(sandbox.url, apiKey);
  const seal = async (name: string) =>
    client.seal(Buffer.from(`%PDF-1.7\n${name}\n%%EOF\n`), { mode: 'blocking' });
  const untilWitnessed = () =>
    until('the newest checkpoint is witnessed', async () => {
      const [newest, witnessed] = [
        await client.get('/v1/log/checkpoint'),
        await client.get('/v1/log/checkpoint/witnessed'),
      ];
      return newest.status === 200 && newest.text === witnessed.text;
    });
  return { sandbox, witness, known, unknown, daemon, client, pdfseal, status, seal, untilWitnessed };
}
