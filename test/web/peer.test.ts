import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect, createServer, type ListenOptions, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { peerOf, withoutStandIn } from '../../src/web/peer.ts';

/** Who the server finds at the other end of a connection of ours. */
async function peerAt(t: Test, options: ListenOptions) {
  const server = createServer().listen(options);
  t.teardown(() => server.close());
  await once(server, 'listening');
  const address = server.address();
  const client = typeof address === 'string' ? connect(address) : connect(address?.port ?? 0, '127.0.0.1');
  t.teardown(() => client.destroy());
  const [socket] = (await once(server, 'connection')) as [Socket];
  t.teardown(() => socket.destroy());
  return peerOf(socket);
}

t.test('the kernel reports the user at the other end of a Unix socket, and of no other socket', async (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'pdfseal-peer-'));
  t.teardown(() => rmSync(dir, { recursive: true, force: true }));
  const path = join(dir, 'socket');
  t.strictSame(await peerAt(t, { path }), { uid: process.geteuid?.(), pid: process.pid });
  t.equal(await peerAt(t, { host: '127.0.0.1', port: 0 }), undefined);
});

t.test('a user hidden by the namespace is not taken for another one', async (t) => {
  t.strictSame(withoutStandIn({ uid: 65_534, pid: 7 }), { pid: 7 });
  t.strictSame(withoutStandIn({ uid: 0, pid: 7 }), { uid: 0, pid: 7 });
  t.strictSame(withoutStandIn({ uid: 1000 }), { uid: 1000 });
});
