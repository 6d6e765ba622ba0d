/** What operations record, in a daemon whose parts do what they are asked. */
import { join } from 'node:path';
import { pino } from 'pino';
import t from 'tap';
import type { AdminParts } from '../../src/admin/routes.ts';
import { systemClock } from '../../src/base/clock.ts';
import { type ActName, parseAuditRecord } from '../../src/manifest/auditRecord.ts';
import { issueApiKey } from '../../src/ops/apiKeyOperations.ts';
import { Drills } from '../../src/ops/drills.ts';
import { addWebhook } from '../../src/ops/endpointOperations.ts';
import { perform } from '../../src/ops/operation.ts';
import { ADMIN_OPERATIONS } from '../../src/ops/operationTable.ts';
import { createStore, openStore } from '../../src/store/lmdb/open.ts';
import { epoch, identity } from '../store/samples.ts';

const ACTOR = { via: 'administration', uid: 0 } as const;
const STAMP = { token: 'dG9rZW4=', authority: 'acme', certificates: [], genTime: 0, notAfter: 0 };
const RUN = { verified: true, startedAt: 0, durationMs: 1, detail: 'verified', signers: [] };

t.test('every operation records the acts that it states, and no others', async (t) => {
  const path = join(t.testdir(), 'store');
  await createStore({ path, identity, epoch });
  const store = await openStore({ path });
  t.teardown(() => store.close());
  const { trail } = store;
  const drills = new Drills({
    partitions: () => ({
      nameOf: (name) => name,
      withdraw: async () => {},
      restore: async () => {},
      spare: [],
    }),
    trail,
    clock: systemClock,
    logger: pino({ level: 'silent' }),
    onFatal: (error) => t.fail(String(error)),
  });
  t.teardown(() => drills.close());
  const parts = {
    store,
    config: () => ({ webhooks: { allow: ['https://*'] } }),
    clock: systemClock,
    status: { read: async () => ({ partitions: { members: [{ name: 'eu' }] } }), quotas: () => ({}) },
    canary: { run: async () => RUN },
    drills,
    carrying: {
      request: async () => ({ witness: 'other', oldSize: 0, treeSize: 1, body: '' }),
      accept: async () => ({ witness: 'other', kind: 'contradiction', detail: '' }),
    },
    timestamping: {
      acceptDate: () => ({ from: 0, to: 1 }),
      status: () => ({ authorities: [{ name: 'acme' }] }),
      renew: async () => STAMP,
    },
    console: { invite: () => 'secret', endAll: () => 1 },
  } as unknown as AdminParts;

  const issue = (client: string) => perform(issueApiKey, parts, { client, organization: 'acme' }, ACTOR);
  const add = (client: string) =>
    perform(addWebhook, parts, { client, url: 'https://acme.example/hooks' }, ACTOR);
  const { id: key_id } = await issue('invoices');
  await add('invoices');
  await issue('payroll');
  const { id: endpoint_id } = await add('payroll');
  const { outbox } = store.webhooks;
  await outbox.test(endpoint_id);
  const failure = { at: 0, reason: 'timeout' };
  for (const one of await outbox.pending(endpoint_id, { limit: 1 }))
    await outbox.settle(one, { kind: 'dead', failure });
  /** In all ways in which an operation can go, if there are several. */
  const given: Record<string, object[]> = {
    'partition.out': [{ name: 'eu' }],
    'partition.in': [{ name: 'eu' }],
    'witness.accept': [{ answer: '409' }],
    'timestamp.renewal': [{ digest: 'ab'.repeat(64), authority: 'acme' }],
    'console.link': [{ name: 'Ada', role: 'auditor' }],
    'console.logout': [{}, { name: 'Ada' }],
    'keys.issue': [{ client: 'payroll', organization: 'acme' }],
    'keys.rotate': [{ key_id }],
    'keys.revoke': [{ key_id, with_successors: true }],
    'webhooks.add': [{ client: 'payroll', url: 'https://acme.example/hooks' }],
    'webhooks.change': [{ endpoint_id, description: 'ours' }],
  };
  const size = async () => (await trail.entries(0, 1_000)).length;
  for (const stated of ADMIN_OPERATIONS) {
    const before = await size();
    const usual = 'endpoint_id' in stated.fields ? { endpoint_id } : {};
    for (const fields of given[stated.name] ?? [usual]) await perform(stated, parts, fields, ACTOR);
    const recorded = new Set<ActName | undefined>();
    for (const { text } of await trail.entries(before, 1_000)) recorded.add(parseAuditRecord(text)?.act);
    t.strictSame([...recorded].sort(), [...stated.acts].sort(), stated.name);
  }
});
