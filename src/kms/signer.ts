/**
 * The program of a partition's child process: one PKCS#11 module, one token, one key; or a software key. A vendor's module may hang, leak or
 * crash here; the parent then kills this process and starts another. Signatures in several sessions are answered as they end;
 * every other PKCS#11 call blocks.
 */
import { extname } from 'node:path';
import { Worker } from 'node:worker_threads';
import { asPkcs11Error, numberOf } from './module.ts';
import type { SignerAnswers, SignerReply, SignerRequest } from './protocol.ts';
import { SignerFailure } from './signerFailure.ts';
import { type SoftwareKey, SoftwareToken } from './softwareKey.ts';
import { HsmToken } from './token.ts';
import type { TokenKey } from './tokenKey.ts';

let token: HsmToken | SoftwareToken | undefined;
let key: TokenKey | SoftwareKey | undefined;
/** Signatures under way, which never reject. Who ends the process waits for them: their threads are inside the module. */
const signing = new Set<Promise<unknown>>();

async function answer(request: SignerRequest): Promise<SignerAnswers[keyof SignerAnswers]> {
  switch (request.kind) {
    case 'connect':
      token = openToken(request);
      return token.opened;
    case 'logIn':
      opened(token).logIn();
      return undefined;
    case 'findKey':
      key = opened(token).findKey();
      return key.publicKey;
    case 'generateKey':
      key = opened(token).generateKey(request.algorithm);
      return key.publicKey;
    case 'inspectKey':
      return opened(key).inspect();
    case 'destroyKey':
      opened(token).destroyKey();
      return undefined;
    case 'sign':
      return opened(key).sign(request.message);
    case 'close':
      await Promise.all(signing);
      token?.close();
      return undefined;
  }
}

function openToken({
  token,
  access,
  sessions,
}: Extract<SignerRequest, { kind: 'connect' }>): HsmToken | SoftwareToken {
  const { module } = token;
  return module === undefined
    ? new SoftwareToken(token, sessions)
    : HsmToken.open(module, token, access, sessions);
}

function opened<T>(thing: T | undefined): T {
  if (thing === undefined)
    throw new SignerFailure('signer_error', 'the request came before the step that opens what it needs');
  return thing;
}

/** Never rejects. */
async function replyTo(id: number, request: SignerRequest): Promise<SignerReply> {
  try {
    return { id, answer: await answer(request) };
  } catch (error) {
    return { id, failure: describe(error) };
  }
}

/** Never rejects. */
async function serve({ id, ...request }: SignerRequest & { id: number }): Promise<void> {
  const replied = replyTo(id, request);
  if (request.kind === 'sign') signing.add(replied);
  const reply = await replied;
  signing.delete(replied);
  process.send?.(reply, () => {
    if (request.kind === 'close') process.exit(0);
  });
}

/** If a signature hangs, so would the exit, and the lifeline ends this process. Never rejects. */
async function leave(): Promise<void> {
  await Promise.all(signing);
  process.exit(0);
}

function describe(error: unknown): { code: string; detail: string; pinFileVersion?: string | undefined } {
  if (error instanceof SignerFailure) {
    return { code: error.code, detail: error.detail, pinFileVersion: error.pinFileVersion };
  }
  const refusal = asPkcs11Error(error);
  if (refusal !== undefined) {
    return { code: refusal.message, detail: `${refusal.method || 'PKCS#11'} failed${numberOf(refusal)}` };
  }
  return { code: 'signer_error', detail: String(error) };
}

// The parent decides when this process ends; Ctrl-C and systemd signal the whole group, while the parent still drains.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {});

new Worker(new URL(`./lifeline${extname(import.meta.url)}`, import.meta.url)).unref();

process.on('disconnect', () => void leave());
process.on('message', (request: SignerRequest & { id: number }) => void serve(request));
