import { createHash, randomUUID } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { copyFile, mkdir, unlink } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import Koa from 'koa';
import { koaBody } from 'koa-body';
import { open } from 'lmdb';
import { pino } from 'pino';
import type { AuthorityAlgorithm } from '../../../src/asn1/signatureAlgorithm.ts';
import { encodeQuery } from '../../../src/asn1/timestampQuery.ts';
import { HsmToken } from '../../../src/kms/token.ts';
import { openAuthority } from '../../../src/tsa/builtInAuthority.ts';
import { issueRoot, issueTimestampingCertificate, type KeyInUse } from '../../../src/tsa/pki.ts';

/**
 * The obvious design, well written: koa-body puts the upload on disk, OpenSSL hashes the file, the HSM signs each
 * document and time-stamps the signature, with keys of the same kinds as pdfseald's, and one durable write to the same database keeps
 * it all. It has no authentication, log or receipts to pay for, verifies nothing, and talks to the HSM in its own process, without
 * the hop to a child.
 */
const [folder = '', token = ''] = process.argv.slice(2);
const uploadDir = join(folder, 'uploads');
await mkdir(uploadDir);
const options = JSON.parse(token);
const hsm = HsmToken.open(options.module, options, 'write', 1);
await hsm.logIn(60_000);
const key = hsm.generateKey('ed25519');
const authority = await openTimestamps();
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

/** An authority with a key of its own, which is its root key, too. A copy of the module is another module, with its own log-in. */
async function openTimestamps() {
  const module = join(folder, 'timestamp.so');
  await copyFile(options.module, module);
  const stamping = HsmToken.open(module, { ...options, keyLabel: 'obvious-timestamp' }, 'write', 1);
  await stamping.logIn(60_000);
  const stampKey = stamping.generateKey('ecdsa-p256');
  const inUse: KeyInUse = {
    key: stampKey.publicKey as KeyInUse['key'] & { algorithm: AuthorityAlgorithm },
    sign: (message) => stampKey.sign(message),
  };
  const [notBefore, notAfter] = [Date.now() - 60_000, Date.now() + 86_400_000];
  const root = await issueRoot({ subject: { commonName: 'Obvious' }, notBefore, notAfter }, inUse);
  const subject = { commonName: 'Obvious time' };
  const certificate = await issueTimestampingCertificate(
    { subject, key: inUse.key, issuer: root, notBefore, notAfter },
    inUse,
  );
  return openAuthority({
    units: [{ signer: { ...inUse, ready: true }, chain: [certificate, root] }],
    policy: '1.3.6.1.4.1.99999.1.2',
    clock: { now: () => Date.now(), accuracyMs: 1000 },
    logger: pino({ level: 'error' }),
  });
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
  const signature = await key.sign(Buffer.from(JSON.stringify(job)));
  const digest = createHash('sha512').update(signature).digest();
  const token = await authority.answerQuery(
    encodeQuery({ imprint: { algorithm: 'sha512', digest }, certReq: true }),
  );
  await jobs.put(job.id, { ...job, signature, token });
  await jobs.flushed;
  await unlink(filepath);
  ctx.status = 202;
  ctx.body = job;
});

const server = app.listen(0, '127.0.0.1', () => {
  process.send?.({ port: (server.address() as AddressInfo).port });
});
process.on('disconnect', () => process.exit());
