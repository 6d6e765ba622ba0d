import { createHash, randomUUID } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { mkdir, unlink } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import Koa from 'koa';
import { koaBody } from 'koa-body';
import { open } from 'lmdb';
import { HsmToken } from '../../../src/kms/token.ts';

/**
 * The obvious design, well written: koa-body puts the upload on disk, OpenSSL hashes the file, the HSM signs each
 * document, and one durable write to the same database keeps it. It has no authentication, log or receipts to pay for,
 * and talks to the HSM in its own process, without the hop to a child.
 */
const [folder = '', token = ''] = process.argv.slice(2);
const uploadDir = join(folder, 'uploads');
await mkdir(uploadDir);
const hsm = HsmToken.open(JSON.parse(token), 'write');
hsm.logIn();
const key = hsm.generateKey('ed25519');
const jobs = open({ path: join(folder, 'store') });

async function digestsOf(path: string): Promise<{ sha256: string; sha512: string }> {
  const sha256 = createHash('sha256');
  const sha512 = createHash('sha512');
  for await (const chunk of createReadStream(path)) {
    sha256.update(chunk);
    sha512.update(chunk);
  }
  return { sha256: sha256.digest('hex'), sha512: sha512.digest('hex') };
}

const app = new Koa();
app.use(koaBody({ multipart: true, formidable: { uploadDir, maxFileSize: 2 ** 30 } }));
app.use(async (ctx) => {
  const file = ctx.request.files?.file;
  if (!file || Array.isArray(file)) return ctx.throw(400);
  const { filepath } = file;
  const job = {
    id: `job_${randomUUID().replaceAll('-', '')}`,
    phase: 'completed',
    ...(await digestsOf(filepath)),
  };
  const signature = key.sign(Buffer.from(JSON.stringify(job)));
  await jobs.put(job.id, { ...job, signature });
  await jobs.flushed;
  await unlink(filepath);
  ctx.status = 202;
  ctx.body = job;
});

const server = app.listen(0, '127.0.0.1', () => {
  process.send?.({ port: (server.address() as AddressInfo).port });
});
process.on('disconnect', () => process.exit());
