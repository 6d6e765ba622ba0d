/** One client does its worst, in one way after the other; another one seals beside it and is refused nothing. */
import t from 'tap';
import { encodeQuery } from '../../src/asn1/timestampQuery.ts';
import { pdfOf } from '../support/app.ts';
import { IMPRINT } from '../support/authority.ts';
import {
  BatchStream,
  Client,
  digestFields,
  digestLines,
  type JobBody,
  sealBatch,
} from '../support/client.ts';
import { onePage, pdfFile, stream } from '../support/pdf.ts';
import { openSandbox } from '../support/sandbox.ts';
import { until } from '../support/until.ts';
import { type Target, WAYS } from './greedy.ts';

const ALL = ['--scopes', 'jobs:create,jobs:read,webhooks:manage'];
const LARGE = Buffer.from(pdfFile({ ...onePage(), 5: stream('', Buffer.alloc(24 * 2 ** 20, ' ')) }));
const SMALL = Buffer.from(pdfFile(onePage()));
const QUERY = encodeQuery({ imprint: IMPRINT, certReq: true });
/** What a client may be told that wants too much. */
const REFUSALS = [429, 503];
/** And with these ways of wanting it: one of two requests with the same key waits for the other. */
const OWN_REFUSALS: Record<string, number[]> = {
  repeats: [409],
  'requests with a wrong key': [401],
  'pipelining without a key': [401],
};

const sandbox = await openSandbox({
  code: 'dist',
  stamped: true,
  head: 'compliance_mode = true',
  tables: {
    // Small, so that one client can fill what it gets.
    http: 'connections_max = 256\nuploads_max = 32\nuploads_per_client_max = 16\nbatches_max = 4\ndownloads_max = 8',
    limits: 'rate.requests = 2000\nrate.window = "10s"',
    webhooks: 'allow = ["127.0.0.0/8"]',
  },
});
t.teardown(() => sandbox.close());
const [greedyKey, modestKey] = [
  await sandbox.issueKey('greedy', 'acme', ...ALL),
  await sandbox.issueKey('modest', 'acme', ...ALL),
];
await sandbox.start();
const greedy = await Client.connect(sandbox.url, greedyKey);
const modest = greedy.as(modestKey);

const endpointOf = async (client: Client) => {
  const headers = { 'Content-Type': 'application/json' };
  const body = JSON.stringify({ url: 'http://127.0.0.1:9/' });
  const made = await client.request('POST', '/v1/webhook-endpoints', { headers, body });
  return made.json<{ id: string }>().id;
};
const sealed = async (client: Client, document: Buffer<ArrayBuffer>) => {
  const answer = await client.seal(document, { mode: 'blocking' });
  return `/v1/jobs/${answer.json<JobBody>().id}/document.pdf`;
};
const target: Target = {
  port: sandbox.port,
  apiKey: greedyKey,
  copyPath: await sealed(greedy, LARGE),
  query: QUERY,
  endpointId: await endpointOf(greedy),
};
const endpoint = `/v1/webhook-endpoints/${await endpointOf(modest)}`;

/** All that a client does on a day, once. */
async function useEverything(): Promise<number[]> {
  const created = await modest.seal(SMALL, { mode: 'blocking' });
  const job = `/v1/jobs/${created.json<JobBody>().id}`;
  const headers = { 'Content-Type': 'application/timestamp-query' };
  const answers = [
    created,
    await modest.get(job),
    await modest.get(`${job}/receipt.json`),
    await modest.get(`${job}/document.pdf`),
    await modest.request('POST', '/v1/timestamp', { headers, body: Uint8Array.from(QUERY) }),
    await modest.request('POST', `${endpoint}/test`),
    await modest.seal(pdfOf('without a wait'), { preserve_metadata: 'true' }),
  ];
  const line = JSON.stringify({ ...digestFields(SMALL), mode: 'blocking' });
  const batch = await sealBatch(sandbox.url, modestKey, [line]);
  return [...answers.map(({ status }) => status), ...batch.map(({ status }) => status)];
}

t.test('a batch of one client ends while the batches of another take turns with it, and pause', async (t) => {
  const lines = digestLines(1_500, { mode: 'blocking', idempotency_key: undefined });
  // Together, they have more lines than the rate allows at once.
  const greedyBatches = [new BatchStream(sandbox.url, greedyKey), new BatchStream(sandbox.url, greedyKey)];
  for (const batch of greedyBatches) {
    batch.send(...lines);
    batch.request.end();
  }
  await Promise.all(greedyBatches.map((batch) => batch.until(1)));
  const answers = await sealBatch(sandbox.url, modestKey, lines.slice(0, 50));
  t.ok(answers.every(({ job }) => job?.phase === 'completed'));
  const answered = greedyBatches.map((batch) => batch.answers.length);
  t.ok(Math.max(...answered) < 1_500, `${answered} lines of the other were answered before`);
  for (const batch of greedyBatches) {
    const all = await batch.ended;
    t.equal(all.length, 1_500);
    t.ok(
      all.every(({ job }) => job?.phase === 'completed'),
      'no line is refused for the rate',
    );
  }
});

for (const [way, begin] of Object.entries(WAYS)) {
  t.test(`despite ${way} of one client, another is served in full`, async (t) => {
    const greed = begin(target);
    t.teardown(() => greed.stop());
    const isFelt = () =>
      greed.opened > 256 || [...greed.answers.values()].reduce((sum, count) => sum + count, 0) >= 50;
    await until('its worst', isFelt);
    for (let round = 0; round < 2; round += 1) {
      t.strictSame(await useEverything(), [202, 200, 200, 200, 200, 202, 202, 202]);
    }
    await greed.stop();
    const statuses = [...greed.answers.keys()].filter((status) => status >= 400);
    const expected = [...REFUSALS, ...(OWN_REFUSALS[way] ?? [])];
    t.ok(
      statuses.every((status) => expected.includes(status)),
      `${[...greed.answers]}`,
    );
  });
}
