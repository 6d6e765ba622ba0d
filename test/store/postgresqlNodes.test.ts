/** What the daemons of one log tell each other. */
import t from 'tap';
import { Limits } from '../../src/limits/limits.ts';
import { Database } from '../../src/store/postgresql/database.ts';
import { Notifier } from '../../src/store/postgresql/notifier.ts';
import { openInPostgresql } from '../../src/store/postgresql/postgresqlOpen.ts';
import type { Store } from '../../src/store/store.ts';
import { NO_LIMITS } from '../support/limits.ts';
import { startPostgres } from '../support/postgres.ts';
import { until } from '../support/until.ts';
import { openNodes } from './openNodes.ts';

const postgres = await startPostgres(t);
const { database, active, openFront } = await openNodes(t, postgres);
const rolesOf = ({ nodes }: Store) => nodes?.others().map(({ role }) => role);

t.test('each node knows the others, and forgets one that ended', async (t) => {
  const [one, two] = [await openFront(), await openFront()];
  await until('the daemon hears of both', () => rolesOf(active)?.length === 2);
  t.strictSame(rolesOf(active), ['front', 'front']);
  await until('a front hears of the others', () => rolesOf(one)?.length === 2);
  t.strictSame(rolesOf(one)?.toSorted(), ['front', 'sealing']);
  t.match(one.nodes?.others()[0], { name: /^process \d+ on /, version: /^\d/ });
  await two.close();
  await until('the one that ended is forgotten', () => rolesOf(active)?.length === 1);
  await one.close();
  const command = await openInPostgresql({ location: { urls: [postgres.url(database)] } });
  t.equal(command.nodes, undefined, 'a command is no node');
  await command.close();
});

t.test('a request to one node counts on the others', async (t) => {
  const front = await openFront();
  // A message that is sent before a node hears is not sent again.
  await until('it is heard', () => rolesOf(active)?.includes('front') === true);
  await until('it hears', () => rolesOf(front)?.includes('sealing') === true);
  const policies = { ...NO_LIMITS, rate: { requests: 100, windowMs: 3_600_000 } };
  const [here, there] = [new Limits(policies, [], Date.now), new Limits(policies, [], Date.now)];
  active.nodes?.share(here);
  front.nodes?.share(there);
  here.takeRequest('acme');
  there.takeRequest('acme');
  for (let request = 0; request < 30; request++) here.takeRequest('acme');
  await until('it is told', () => (there.rate('acme')?.remaining ?? 100) <= 100 - 1 - 31);
  await until('the other way too', () => (here.rate('acme')?.remaining ?? 100) <= 100 - 31 - 1);
  t.match([here.rate('acme')?.remaining, there.rate('acme')?.remaining], [68, 68], 'and once');
  await front.close();
});

t.test('notifications are sent without waiting for answers, and arrive in order', async (t) => {
  const warnings: string[] = [];
  const note = ({ message }: Error) => warnings.push(message);
  process.on('warning', note);
  t.teardown(() => process.off('warning', note));
  const connections = new Database({ urls: [postgres.url(database)] }, { awayMsMax: 10_000 });
  const notifier = new Notifier(connections, 'pdfseal_ended');
  t.teardown(async () => {
    await notifier.close();
    await connections.close();
  });
  const messages = ['one', 'two', 'three'];
  const heard: string[] = [];
  notifier.onMessage((text) => messages.includes(text) && heard.push(text));
  await until('it hears', () => notifier.isConnected);
  for (const message of messages) notifier.send(message);
  await until('the last is heard', () => heard.includes('three'));
  t.strictSame(heard, messages);
  t.strictSame(warnings, []);
});

t.test('nodes go on after any notification', async (t) => {
  const front = await openFront();
  const limits = new Limits({ ...NO_LIMITS, rate: { requests: 10, windowMs: 3_600_000 } }, [], Date.now);
  limits.takeRequest('acme');
  active.nodes?.share(limits);
  const uuid = '01890a5d-ac96-774b-bcce-b302099a8057';
  const messages = [
    '',
    'x',
    '{}',
    '[]',
    JSON.stringify([uuid, 'a\u0000b', 'front', '1', []]),
    JSON.stringify([uuid, 'a', 'primary', '1', []]),
    JSON.stringify([uuid, 'a', 'front', '1', [['acme', -5]]]),
    JSON.stringify([uuid, 'a', 'front', '1', [['acme', 1e300]]]),
    JSON.stringify([uuid, 'a', 'front', '1', [['__proto__', 5]]]),
    '['.repeat(7_000),
  ];
  for (const message of messages)
    await postgres.query(`SELECT pg_notify('pdfseal_nodes', $message$${message}$message$)`, database);
  const last = JSON.stringify([uuid, 'a stranger', 'front', '1', [['acme', 2]]]);
  await postgres.query(`SELECT pg_notify('pdfseal_nodes', $message$${last}$message$)`, database);
  const names = () => active.nodes?.others().map(({ name }) => name) ?? [];
  await until('the last is heard', () => names().includes('a stranger'));
  t.equal(limits.rate('acme')?.remaining, 7);
  await front.close();
});

t.test('a node that is flooded with notifications stops listening, and looks by itself', async (t) => {
  const connections = new Database({ urls: [postgres.url(database)] }, { awayMsMax: 10_000 });
  // Whatever the speed of this machine: a window that does not end, and pauses that end at once or never.
  const pace = { heardMax: 20, windowMs: Number.POSITIVE_INFINITY, pauseMs: 1, pollMs: 1 };
  const listen = (pauseMs: number) => {
    const notifier = new Notifier(connections, 'pdfseal_ended', { ...pace, pauseMs });
    const seen = { notices: 0, messages: [] as string[], floods: 0 };
    notifier.onNotice(() => {
      seen.notices += 1;
    });
    notifier.onMessage((text) => text.startsWith('word') && seen.messages.push(text));
    notifier.onFlood(() => {
      seen.floods += 1;
    });
    return { notifier, seen };
  };
  const silenced = listen(3_600_000);
  const resuming = listen(1);
  t.teardown(async () => {
    await Promise.all([silenced.notifier.close(), resuming.notifier.close()]);
    await connections.close();
  });
  await until('both hear', () => silenced.notifier.isConnected && resuming.notifier.isConnected);
  await postgres.query(
    `SELECT pg_notify('pdfseal_nodes', 'word ' || n) FROM generate_series(1, 1000) n`,
    database,
  );
  const lastOf = async (query: string) =>
    (await postgres.query(`SELECT FROM pg_stat_activity WHERE query = '${query}'`)).length;
  await until('one has stopped listening', async () => (await lastOf('UNLISTEN pdfseal_nodes')) === 1);
  await until('the other listens again', async () => {
    await postgres.query(`SELECT pg_notify('pdfseal_nodes', 'word again')`, database);
    return resuming.seen.messages.includes('word again');
  });
  t.ok(silenced.seen.messages.length <= pace.heardMax, 'what follows is not taken');
  t.notOk(silenced.seen.messages.includes('word again'));
  t.strictSame([silenced.seen.floods, resuming.seen.floods], [1, 1], 'it is reported once while it lasts');

  await postgres.query(
    `DO $$ BEGIN FOR n IN 1..50 LOOP PERFORM pg_notify('pdfseal_ended', n::text); END LOOP; END $$`,
    database,
  );
  await until(
    'it has stopped listening to notices',
    async () => (await lastOf('UNLISTEN pdfseal_ended')) === 1,
  );
  const before = silenced.seen.notices;
  await until('it looks by itself', () => silenced.seen.notices >= before + 3);
});
