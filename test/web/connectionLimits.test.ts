/** What connections without an API key cost the service, and everybody else. */
import { EventEmitter } from 'node:events';
import { createServer } from 'node:http';
import { Socket } from 'node:net';
import t from 'tap';
import { addressKey, ConnectionLimits } from '../../src/web/connectionLimits.ts';
import { openTestApp, pdfOf } from '../support/app.ts';
import { until } from '../support/until.ts';
import { slowUpload, Wire } from '../support/wire.ts';

t.test('a client that only opens connections does not lock others out', async (t) => {
  const { client, server } = await openTestApp(t, { app: { connectionsMax: 8 } });
  const upload = await slowUpload(client, pdfOf('under way'));
  const idle: Wire[] = [];
  for (let opened = 0; opened < 32; opened += 1) {
    const wire = new Wire(server.port);
    idle.push(wire);
    await until('it is there', () => wire.socket.readyState !== 'opening');
  }
  t.equal((await client.get('/v1/jobs')).status, 200, 'a client finds a place');
  await Promise.all(idle.slice(0, 24).map((wire) => wire.closed));
  t.equal((await upload.finish()).status, 202, 'and keeps it while something is under way');
  for (const wire of idle) wire.destroy();
});

t.test('a connection without an API key is closed soon after its answer', async (t) => {
  const { server } = await openTestApp(t);
  const wire = new Wire(server.port);
  wire.send('GET /v1/jobs HTTP/1.1\r\nHost: a\r\n\r\n');
  await wire.until(/^HTTP\/1\.1 401/);
  await wire.closed;
});

t.test('the first requests without an API key are logged, and the others counted', async (t) => {
  let unlogged = 0;
  const onUnlogged = () => {
    unlogged += 1;
  };
  const { client, log } = await openTestApp(t, { app: { onUnlogged } });
  const stranger = client.as(undefined);
  for (let sent = 0; sent < 50; sent += 1) t.equal((await stranger.get('/v1/jobs')).status, 401);
  const lines = () => log().filter(({ msg }) => msg === 'request');
  t.equal(lines().length, 20);
  t.equal(unlogged, 31, 'the one for the description of the API too');
  await client.get('/v1/jobs');
  t.match(lines().at(-1), { status: 200, client_id: 'acme-web' }, 'those of clients are all there');
});

t.test('each address has its share of the connections, and an IPv6 network has one share', async (t) => {
  const server = createServer();
  const connections = new ConnectionLimits({ max: 100, perAddressMax: 3 });
  connections.watch(server);
  const open = (remoteAddress: string) => {
    const socket = Object.defineProperty(new Socket(), 'remoteAddress', { value: remoteAddress });
    server.emit('connection', socket);
    return socket;
  };
  const of = (addresses: string[]) => addresses.map(open).filter(({ destroyed }) => !destroyed).length;
  const first = Array.from({ length: 3 }, () => open('192.0.2.1'));
  t.notOk(open('192.0.2.1').destroyed);
  t.strictSame(
    first.map(({ destroyed }) => destroyed),
    [true, false, false],
    'the one that was silent longest goes',
  );
  for (const socket of first.slice(1)) connections.know(socket);
  t.equal(of(['192.0.2.2', '192.0.2.2', '::ffff:192.0.2.2']), 3);
  const network = ['2001:db8::1', '2001:db8::2', '2001:db8:0:0:ffff::3', '2001:db8::4'].map(open);
  t.equal(network.filter(({ destroyed }) => !destroyed).length, 3);
  t.equal(of(['2001:db8:0:1::1']), 1);
  t.equal(of(Array.from({ length: 10 }, () => '127.0.0.1')), 10, 'this machine has no such share');
  t.equal(addressKey('::1'), undefined);
});

t.test('a connection whose API key is being looked up is kept', async (t) => {
  const server = createServer();
  new ConnectionLimits({ max: 2, perAddressMax: 2 }).watch(server);
  const open = () => {
    const socket = Object.defineProperty(new Socket(), 'remoteAddress', { value: '192.0.2.1' });
    server.emit('connection', socket);
    return socket;
  };
  const asking = open();
  server.emit('request', { socket: asking }, new EventEmitter());
  const silent = open();
  t.notOk(open().destroyed);
  t.strictSame([asking.destroyed, silent.destroyed], [false, true]);
});

t.test('where requests only wait for their senders, the oldest stranger makes room', async (t) => {
  const server = createServer();
  const connections = new ConnectionLimits({ max: 3, perAddressMax: 3, sparesRequests: false });
  connections.watch(server);
  const open = () => {
    const socket = Object.defineProperty(new Socket(), 'remoteAddress', { value: '127.0.0.1' });
    server.emit('connection', socket);
    return socket;
  };
  const ask = (socket: Socket) => server.emit('request', { socket }, new EventEmitter());
  const [known, slow, arriving] = [open(), open(), open()];
  connections.know(known);
  ask(known);
  ask(slow);
  // Until its request comes, it is silent.
  ask(arriving);
  const next = open();
  t.strictSame(
    [known, slow, arriving, next].map(({ destroyed }) => destroyed),
    [false, true, false, false],
  );
  t.notOk(open().destroyed);
  t.strictSame([known.destroyed, arriving.destroyed, next.destroyed], [false, true, false]);
});

t.test('a connection is refused if all are in use', async (t) => {
  const { client, server } = await openTestApp(t, { app: { connectionsMax: 2 } });
  const uploads = [await slowUpload(client, pdfOf('a')), await slowUpload(client, pdfOf('b'))];
  const wire = new Wire(server.port);
  await wire.closed;
  for (const upload of uploads) t.equal((await upload.finish()).status, 202);
});
