// What a daemon in wrong hands asks the signer of its PIN, over the socket that the daemon has. See hostile.mjs.
import { connect } from 'node:net';

const dist = (path) => import(`/usr/lib/pdfseald/dist/${path}`);
const { encodeFrame, readFrames } = await dist('base/frames.js');
const { loadConfig } = await dist('config/config.js');
const { encodeTstInfo } = await dist('asn1/timestampQuery.js');
const { encodeCheckpoint } = await dist('log/checkpoint.js');
const { tokenName } = await dist('kms/protocol.js');

const TIMEOUT_MS = 5_000;

/** One connection: rejects with what the signer answers as the code. */
class Signer {
  #stream;
  #pending = new Map();
  #id = 0;

  constructor(socket) {
    this.#stream = connect(socket);
    this.#stream.on('error', () => {});
    this.#stream.on('close', () => {
      for (const { reject } of this.#pending.values()) reject(new Error('the signer closed the connection'));
    });
    readFrames(this.#stream, 65_536, ({ id, answer, failure }) => {
      const { resolve, reject } = this.#pending.get(id) ?? {};
      this.#pending.delete(id);
      if (failure === undefined) resolve?.(answer);
      else reject?.(Object.assign(new Error(failure.detail), failure));
    });
  }

  ask(request) {
    const id = this.#id++;
    return new Promise((resolve, reject) => {
      this.#pending.set(id, { resolve, reject });
      this.#stream.write(encodeFrame({ ...request, id, timeoutMs: TIMEOUT_MS }));
      setTimeout(() => reject(new Error('no answer')), TIMEOUT_MS).unref();
    });
  }

  async use(token, access = 'read') {
    const { keyLabel } = token;
    await this.ask({ kind: 'connect', token: tokenName(token), keyLabel, access, sessions: 1 });
    await this.ask({ kind: 'logIn' });
    return this.ask({ kind: 'findKey' });
  }

  close() {
    this.#stream.destroy();
  }
}

/** The lock of a key ends with the process of the connection before, which takes a moment. */
async function withKey(socket, token, work) {
  for (let n = 0; ; n += 1) {
    const signer = new Signer(socket);
    try {
      await signer.use(token);
    } catch (error) {
      signer.close();
      if (error.code !== 'signer_twice' || n === 50) throw error;
      await new Promise((resolve) => setTimeout(resolve, 100));
      continue;
    }
    try {
      return await work(signer);
    } finally {
      signer.close();
    }
  }
}

export async function tryOrders({ socket, config, certificate }, attempt) {
  const { log, kms, timestamp } = loadConfig(config, { files: 'unused' });
  const [logToken] = kms.partitions;
  const [stamping] = timestamp.keys;
  const time = Math.floor(Date.now() / 1000);
  const root = new Uint8Array(32).fill(7);
  const checkpoint = (size, step, origin = log.origin) => ({
    kind: 'signCheckpoint',
    text: encodeCheckpoint({ origin, treeSize: size, root }),
    time,
    ...(step && { step }),
  });

  await withKey(socket, logToken, async (signer) => {
    const signs = (what, request) => attempt(what, () => signer.ask(request));
    await attempt('the signer can be asked', () => signer.ask({ kind: 'signProbe' }));
    const nowhere = { from: { size: 1, root: Buffer.from(root).toString('base64') }, proof: [] };
    const { trees } = await signer.ask(checkpoint(2, nowhere)).catch((error) => error);
    const held = trees.at(-1);
    await signs('sign bytes', { kind: 'signBytes', message: 'AAAA' });
    await signs(
      'sign for another log',
      checkpoint(held.size + 1, { from: held, proof: [] }, 'evil.example/log'),
    );
    await signs('sign without a proof', checkpoint(held.size + 1));
    await signs('sign an older size', checkpoint(held.size - 1, { from: held, proof: [] }));
    await signs('sign another tree of the same size', checkpoint(held.size, { from: held, proof: [] }));
    await signs(
      'sign a fork',
      checkpoint(held.size + 1, { from: held, proof: [Buffer.from(root).toString('base64')] }),
    );
    await signs('sign a fork of a tree of its own', checkpoint(3, { ...nowhere, isCommitted: true }));
    await signs('make a key', { kind: 'generateKey', algorithm: 'ed25519' });
    await signs('destroy the key', { kind: 'destroyKey' });
  });
  await attempt(
    'open a token for writing',
    async () => void (await new Signer(socket).use(logToken, 'write')),
  );
  const other = { ...logToken, tokenLabel: 'pdfseal-sandbox' };
  await attempt('open the token of sandbox', async () => void (await new Signer(socket).use(other)));
  await withKey(socket, stamping, async (signer) => {
    const stamp = (what, { genTime = Date.now(), policy = timestamp.policy } = {}) => {
      const content = encodeTstInfo({
        policy,
        imprintDer: IMPRINT,
        serial: Uint8Array.of(1),
        genTime,
        accuracyMs: timestamp.accuracyMs,
      });
      return attempt(what, () =>
        signer.ask({ kind: 'signToken', content: Buffer.from(content).toString('base64'), certificate }),
      );
    };
    await stamp('stamp an hour ago', { genTime: Date.now() - 3_600_000 });
    await stamp('stamp in an hour', { genTime: Date.now() + 3_600_000 });
    await stamp('stamp under another policy', { policy: '1.2.3.4' });
    await attempt('sign bytes as the authority', () => signer.ask({ kind: 'signBytes', message: 'AAAA' }));
  });
}

/** MessageImprint of 32 zeros under SHA-256, in DER. */
const IMPRINT = Buffer.from(`3031300d060960864801650304020105000420${'00'.repeat(32)}`, 'hex');
