// In place of the daemon: its unit and its user, with code of somebody who has taken it over. Tries what must be refused, and writes
// what became of each attempt to its state folder: {"read …": "EACCES"}, or "SUCCEEDED: …". Then it stays, as the daemon would.

import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';

const { state, files, folders, writes, pids, outside, signer } = JSON.parse(
  readFileSync('/srv/hostile.json', 'utf8'),
);
const results = {};

async function attempt(what, act) {
  try {
    results[what] = `SUCCEEDED: ${JSON.stringify(await act())}`;
  } catch (error) {
    results[what] = String(error.code ?? error.message);
  }
}

async function dial(options) {
  const socket = connect({ ...options, timeout: 3_000 });
  socket.once('timeout', () => socket.destroy(Object.assign(new Error('no answer'), { code: 'TIMEOUT' })));
  await once(socket, 'connect');
  socket.destroy();
}

for (const file of files) await attempt(`read ${file}`, () => readFileSync(file).length);
for (const folder of folders) await attempt(`list ${folder}`, () => readdirSync(folder));
for (const file of writes) await attempt(`write ${file}`, () => writeFileSync(file, 'x', { flag: 'a' }));
for (const [name, pid] of Object.entries(pids)) {
  // A process of its own user, it can end: that is an outage and no more.
  if (name !== 'a command') await attempt(`signal ${name}`, () => process.kill(pid, 0));
  for (const part of ['mem', 'environ', 'maps', 'fd/0'])
    await attempt(`read ${part} of ${name}`, () => readFileSync(`/proc/${pid}/${part}`).length);
}
results.visible = readdirSync('/proc').filter((name) => /^\d+$/.test(name)).length;
results.credentials = readdirSync(process.env.CREDENTIALS_DIRECTORY);

for (const [host, port] of outside) {
  await attempt(`connect to ${host}`, async () => await dial({ host, port }));
  await attempt(`send to ${host}`, async () => {
    const socket = createSocket('udp4');
    await new Promise((resolve, reject) => {
      socket.once('error', reject);
      socket.send('x', port, host, (error) => (error ? reject(error) : resolve()));
    });
  });
}
await attempt('connect to the administration of sandbox', () =>
  dial({ path: '/run/pdfseal/sandbox/admin.sock' }),
);

await (await import('/srv/hostileOrders.mjs')).tryOrders(signer, attempt);

// The past: another document in the place of one that was sealed, in the store that is the daemon's own.
const { openDatabases } = await import('/usr/lib/pdfseald/dist/store/lmdb/databases.js');
await attempt('write to the past of the store', async () => {
  const { root, leaves, tiles } = await openDatabases(`${state}/store`, { readOnly: false });
  for (const database of [leaves, tiles]) {
    const [{ key, value }] = database.getRange({ limit: 1 });
    const changed = Buffer.from(value);
    changed[changed.length - 1] ^= 1;
    await database.put(Buffer.from(key), changed);
  }
  await root.flushed;
  await root.close();
});
writeFileSync(`${state}/hostile.json`, JSON.stringify(results));
setInterval(() => {}, 1 << 30);
