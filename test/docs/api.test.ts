/** The sample bodies of docs/api.md have the shape of what the daemon answers, and of what its description says. */
import t from 'tap';
import { Client } from '../support/client.ts';
import { blocksUnder, pageAt } from '../support/manual.ts';
import { openSandbox } from '../support/sandbox.ts';

/** The path of every member, whatever its value: `evidence.timestamps[].token`. */
function membersOf(value: unknown, path = ''): string[] {
  if (Array.isArray(value)) return value.flatMap((each) => membersOf(each, `${path}[]`));
  if (typeof value !== 'object' || value === null) return [path];
  return Object.entries(value).flatMap(([name, each]) => membersOf(each, `${path}.${name}`));
}

t.test('the job and the receipt of the page have the members of real ones', async (t) => {
  const sandbox = await openSandbox({ stamped: true });
  t.teardown(() => sandbox.close());
  await sandbox.start();
  const client = await Client.connect(sandbox.url, await sandbox.issueKey());
  const fields = { mode: 'blocking', purpose: 'invoice', customer_reference: 'invoice-2026-0815' };
  const job = await client.seal(Buffer.from('%PDF-1.4\n%%EOF\n'), fields, {
    'Idempotency-Key': 'invoice-2026-0815',
  });
  const receipt = await client.get(`/v1/jobs/${job.json<{ id: string }>().id}/receipt.json`);
  const samples = blocksUnder(pageAt('docs/api.md'), 'A job and a receipt', 'json');
  t.equal(samples.length, 2);
  for (const [index, [name, answered]] of [
    ['SealJob', job] as const,
    ['SealReceipt', receipt] as const,
  ].entries()) {
    const sample = samples[index] ?? '';
    client.check.checkSchema(name, sample);
    t.strictSame(
      [...new Set(membersOf(JSON.parse(sample)))].toSorted(),
      [...new Set(membersOf(answered.json()))].toSorted(),
      name,
    );
  }
});
