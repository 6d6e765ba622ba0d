/** How many reads are under way at once, whose turn is next, and what becomes of those that wait. */
import { EventEmitter } from 'node:events';
import t, { type Test } from 'tap';
import { limitingReads } from '../../src/http/readSlots.ts';
import type { RequestContext } from '../../src/http/requestContext.ts';
import { openTestApp, type TestApp } from '../support/app.ts';
import { until } from '../support/until.ts';
import { Wire } from '../support/wire.ts';

/** The store answers lists when it is told to. */
function holdLists(t: Test, { store }: TestApp) {
  const begun: string[] = [];
  const gates: (() => void)[] = [];
  t.intercept(store.jobs, 'list', {
    value: async ({ viewer }: { viewer: { clientId: string } }) => {
      begun.push(viewer.clientId);
      await new Promise<void>((resolve) => gates.push(resolve));
      return { records: [] };
    },
  });
  const answerOne = () => {
    const open = gates.shift();
    open?.();
    return open !== undefined;
  };
  return { begun, answerOne };
}

const settle = () => new Promise((resolve) => setTimeout(resolve, 50));

t.test('a client has two reads under way, and the others take turns with it', async (t) => {
  const app = await openTestApp(t);
  const other = app.client.as(await app.issue({ clientId: 'modest', organization: 'other' }));
  const { begun, answerOne } = holdLists(t, app);
  const greedy = Array.from({ length: 12 }, () => app.client.get('/v1/jobs'));
  await until('two have begun', () => begun.length === 2);
  await settle();
  t.strictSame(begun, ['acme-web', 'acme-web']);
  const modest = Array.from({ length: 3 }, () => other.get('/v1/jobs'));
  await until('another client’s has begun', () => begun.length === 3);
  t.equal(begun[2], 'modest');
  for (let answered = 0; answered < 12; answered += 1) {
    answerOne();
    await until('the next one has begun', () => begun.length >= Math.min(15, answered + 3));
    await settle();
    t.ok(begun.length - answered - 1 <= 4, `${begun.length} begun, ${answered + 1} answered`);
  }
  await until('the last ones have begun', () => {
    answerOne();
    return begun.length === 15;
  });
  while (answerOne()) await settle();
  const answers = await Promise.all([...greedy, ...modest]);
  t.ok(answers.every(({ status }) => status === 200));
  t.ok(begun.lastIndexOf('modest') < 10, 'nobody waits for all that a greedy one has asked for');
});

t.test('what waits is not read once its client has gone', async (t) => {
  const app = await openTestApp(t);
  const { begun, answerOne } = holdLists(t, app);
  const list = `GET /v1/jobs HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${app.client.apiKey}\r\n\r\n`;
  const wires = Array.from({ length: 8 }, () => new Wire(app.server.port));
  for (const wire of wires) wire.send(list.repeat(20));
  await until('two have begun', () => begun.length === 2);
  await settle();
  for (const wire of wires) wire.destroy();
  await until('the connections are closed', () => app.app.connections.count === 0);
  const after = app.client.get('/v1/jobs');
  for (let answered = 0; answered < 2; answered += 1) answerOne();
  await until('the next one has begun', () => begun.length === 3);
  answerOne();
  t.equal((await after).status, 200);
  t.equal(begun.length, 3);
});

t.test('a read that waits too long is refused, and one of a job is not', async (t) => {
  const inTurn = limitingReads(20);
  const ctx = () => ({ res: new EventEmitter(), state: { caller: { viewer: { clientId: 'a' } } } });
  const read = (isRefusable: boolean, next: () => Promise<void>) =>
    inTurn({ isRefusable })(ctx() as unknown as RequestContext, next);
  const held = Promise.withResolvers<void>();
  const first = [read(true, () => held.promise), read(false, () => held.promise)];
  let isRead = false;
  const ofJob = read(false, async () => {
    isRead = true;
  });
  await t.rejects(
    read(true, async () => void t.fail('it is not begun')),
    {
      code: 'too_many_requests',
      retryAfterSeconds: 2,
    },
  );
  t.notOk(isRead);
  held.resolve();
  await Promise.all([...first, ofJob]);
  t.ok(isRead);
});

t.test('a read whose client left while its key was looked up is not begun', async (t) => {
  const app = await openTestApp(t);
  const { begun, answerOne } = holdLists(t, app);
  const { credentials } = app.store;
  const get = credentials.get.bind(credentials);
  const gate = Promise.withResolvers<void>();
  let lookedUp = 0;
  t.intercept(credentials, 'get', {
    value: async (keyHash: string) => {
      lookedUp += 1;
      await gate.promise;
      return get(keyHash);
    },
  });
  const wire = new Wire(app.server.port);
  wire.send(`GET /v1/jobs HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${app.client.apiKey}\r\n\r\n`);
  await until('its key is being looked up', () => lookedUp === 1);
  wire.destroy();
  await until('the connection is closed', () => app.app.connections.count === 0);
  gate.resolve();
  const after = app.client.get('/v1/jobs');
  await until('a read has begun', () => answerOne());
  t.equal((await after).status, 200);
  t.equal(begun.length, 1, 'only that of the client that is still there');
});

t.test('the place of a read that takes long rests before the client has it again', async (t) => {
  const inTurn = limitingReads();
  const ctx = () => ({ res: new EventEmitter(), state: { caller: { viewer: { clientId: 'a' } } } });
  const read = (isRefusable: boolean, next: () => Promise<unknown>) =>
    inTurn({ isRefusable })(ctx() as unknown as RequestContext, next);
  const gaps: number[] = [];
  for (const isRefusable of [true, false]) {
    const held = Promise.withResolvers<void>();
    // It has the other place until the end.
    const other = read(false, () => held.promise);
    const begunAt = performance.now();
    await read(isRefusable, settle);
    const tookMs = performance.now() - begunAt;
    const endedAt = performance.now();
    await read(false, async () => gaps.push((performance.now() - endedAt) / tookMs));
    held.resolve();
    await other;
  }
  const [afterList = 0] = gaps;
  t.ok(afterList > 4, `it rested ${afterList} times as long as the read took`);
});
