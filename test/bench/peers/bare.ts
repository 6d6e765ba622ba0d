import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import Koa from 'koa';

/**
 * The limit: what Koa does when it only reads the upload and throws it away. Nothing is parsed, hashed, signed or
 * stored, so no server on the same framework can be faster.
 */
const app = new Koa();
app.use(async (ctx) => {
  ctx.req.resume();
  await once(ctx.req, 'end');
  ctx.status = 202;
  ctx.body = { id: 'job_0', phase: 'completed' };
});

const server = app.listen(0, '127.0.0.1', () => {
  process.send?.({ port: (server.address() as AddressInfo).port });
});
process.on('disconnect', () => process.exit());
