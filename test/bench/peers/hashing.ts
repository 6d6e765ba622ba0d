import type { AddressInfo } from 'node:net';
import Koa from 'koa';
import { openHashPool } from '../../../src/hash/pool.ts';
import { IncomingBody } from '../../../src/web/incomingBody.ts';

/**
 * The floor: the bare server, and both digests of the upload by pdfseald's own engine. Nothing is authenticated, parsed, signed or
 * stored; what pdfseald is slower than this is what sealing costs.
 */
const pool = await openHashPool({ workers: 1, engine: 'native', onTrouble: console.error });
const app = new Koa();
app.use(async (ctx) => {
  const hasher = pool.hasher(true);
  const body = new IncomingBody(ctx.req, { idleTimeoutMs: 60_000 });
  await body.read((chunk) => {
    const room = hasher.update(chunk);
    if (room !== undefined) body.hold(room);
  });
  await hasher.digest();
  ctx.status = 202;
  ctx.body = { id: 'job_0', phase: 'completed' };
});

const server = app.listen(0, '127.0.0.1', () => {
  process.send?.({ port: (server.address() as AddressInfo).port });
});
process.on('disconnect', () => process.exit());
