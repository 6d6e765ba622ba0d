/**
 * The program of a signer: one PKCS#11 module, one token, one key; or a software key. A vendor's module may hang, leak or crash here: this
 * process then ends, by its own lifeline or by its parent, and another is started. Signatures in several sessions are answered as they end;
 * every other PKCS#11 call blocks. The other end of the stream may be hostile: see duties.ts for what it can have signed.
 */
import { isDeepStrictEqual } from 'node:util';
import { Lifeline, openStream, readCharter } from '../base/companionProgram.ts';
import { encodeFrame, readFrames } from '../base/frames.ts';
import { KeyDuties, treesOfUnit } from './duties.ts';
import { KEY_ALGORITHMS } from './keyAlgorithm.ts';
import { asPkcs11Error, numberOf } from './module.ts';
import {
  type Charter,
  PIN_UNFIT_STATUS,
  type ReportedFailure,
  SIGNER_MESSAGE_BYTES_MAX,
  type Signature,
  type SignerAnswers,
  type SignerCall,
  type SignerReply,
  type SignerRequest,
  type SigningRequest,
  type TokenOptions,
  tokenName,
} from './protocol.ts';
import { TreeUnknown } from './signedTrees.ts';
import { isPinTrouble, isRefusal, SignerFailure } from './signerFailure.ts';
import { type SoftwareKey, SoftwareToken } from './softwareKey.ts';
import { HsmToken } from './token.ts';
import type { TokenKey } from './tokenKey.ts';

/** Longer than any request may take. */
const TIMEOUT_MS_MAX = 300_000;
/** The requesting process notices first that an answer is late, and reports it. */
const GRACE_MS = 500;
const SESSIONS_MAX = 64;
/** Time limit for closing the token when the stream has ended, without the signatures under way, which have limits of their own. */
const LEAVE_MS_MAX = 5_000;

const charter = readCharter() as Charter;
const lifeline = new Lifeline();
const stream = openStream();

let token: HsmToken | SoftwareToken | undefined;
let key: TokenKey | SoftwareKey | undefined;
let duties: KeyDuties | undefined;
/** Signatures under way, which never reject. Code that ends the process waits for them: their threads are inside the module. */
const signing = new Set<Promise<unknown>>();
/** The exit status of this process. */
let status = 0;

async function answer(
  request: SignerRequest,
  timeoutMs: number,
): Promise<SignerAnswers[keyof SignerAnswers]> {
  switch (request.kind) {
    case 'connect':
      token = openToken(request);
      return token.opened;
    case 'logIn':
      await opened(token).logIn(Math.min(timeoutMs, TIMEOUT_MS_MAX));
      return null;
    case 'findKey':
      return use(opened(token).findKey(request.publicKey));
    case 'generateKey':
      return use(administered(token).generateKey(request.algorithm));
    case 'inspectToken':
      return administered(token).describe();
    case 'inspectKey':
      return opened(key).inspect();
    case 'destroyKey':
      administered(token).destroyKey();
      return null;
    case 'heldTrees':
      return treesOfUnit(charter.duties);
    case 'close':
      await closeToken();
      return null;
    default:
      return sign(request, timeoutMs);
  }
}

/** Waits for the signatures under way, and closes the token, once. */
async function closeToken(): Promise<void> {
  await Promise.all(signing);
  const open = token;
  token = undefined;
  open?.close();
}

function use(found: TokenKey | SoftwareKey): typeof found.publicKey {
  duties = new KeyDuties(charter.duties, found.publicKey);
  key = found;
  return key.publicKey;
}

/** Records and signs at the same time; answers after both. */
async function sign(request: SigningRequest, timeoutMs: number): Promise<Signature & { message?: string }> {
  const { message, recorded, abandoned = 0 } = await opened(duties).assign(request, timeoutMs);
  const [signature] = await Promise.all([opened(key).sign(message), recorded]);
  const base64 = Buffer.from(signature).toString('base64');
  const answered = { signature: base64, ...(abandoned > 0 && { abandoned }) };
  return request.kind === 'signProbe'
    ? { ...answered, message: Buffer.from(message).toString('base64') }
    : answered;
}

function openToken({
  token: name,
  keyLabel,
  access,
  sessions,
}: Extract<SignerRequest, { kind: 'connect' }>): HsmToken | SoftwareToken {
  if (token !== undefined) throw new SignerFailure('signer_error', 'the token is open already');
  const known = charter.tokens.find((one) => isDeepStrictEqual(tokenName(one), tokenName(name)));
  if (known === undefined)
    throw new SignerFailure('token_not_allowed', 'the signer has no such token in its configuration');
  if (access !== 'read') administered(charter);
  const options: TokenOptions = { ...known, keyLabel: String(keyLabel) };
  const wanted = Math.min(Math.max(1, Math.trunc(Number(sessions)) || 1), SESSIONS_MAX);
  return options.module === undefined
    ? new SoftwareToken(options, wanted)
    : HsmToken.open(options.module, options, access === 'write' ? 'write' : 'read', wanted);
}

function opened<T>(thing: T | undefined): T {
  if (thing === undefined)
    throw new SignerFailure('signer_error', 'the request came before the step that opens what it needs');
  return thing;
}

/** Returns the thing only if this is a signer without limits. */
function administered<T>(thing: T | undefined): T {
  if (!charter.duties.anything)
    throw new SignerFailure('signing_refused', 'this signer does not create or destroy keys');
  return opened(thing);
}

/** Never rejects. */
async function replyTo({ id, timeoutMs, ...request }: SignerCall): Promise<SignerReply> {
  try {
    return {
      id,
      answer: await lifeline.within(timeLimitOf(request, timeoutMs) + GRACE_MS, () =>
        answer(request, timeoutMs),
      ),
    };
  } catch (error) {
    const failure = describe(error);
    if (isPinTrouble(failure)) status = PIN_UNFIT_STATUS;
    // A compromised daemon reports nothing. Its request for a step from another tree is part of the conversation.
    if (isRefusal(failure.code) && !(error instanceof TreeUnknown)) tellRefusal(request.kind, failure);
    return { id, failure };
  }
}

/** If a log-in is cut short, its refusal is not remembered, so the requesting process sets no limit. */
function timeLimitOf({ kind }: SignerRequest, timeoutMs: number): number {
  return kind === 'logIn' ? TIMEOUT_MS_MAX : Math.min(timeoutMs, TIMEOUT_MS_MAX);
}

/** Maximum for one process: enough to be seen, too few to flood the journal. */
const REFUSALS_TOLD_MAX = 32;
let refusalsTold = 0;

function tellRefusal(kind: SignerRequest['kind'], { code, detail }: { code: string; detail: string }): void {
  if (refusalsTold++ < REFUSALS_TOLD_MAX) process.stderr.write(`refused ${kind} (${code}): ${detail}\n`);
}

/** Never rejects. */
async function serve(call: SignerCall): Promise<void> {
  const replied = replyTo(call);
  if (call.kind.startsWith('sign')) signing.add(replied);
  const reply = await replied;
  signing.delete(replied);
  stream.write(encodeFrame(reply), () => {
    if (call.kind === 'close') process.exit(status);
  });
}

/** Ends the process in order. If the module hangs, so would the exit, and the lifeline ends the process. Never rejects. */
async function leave(): Promise<void> {
  await lifeline.within(LEAVE_MS_MAX, closeToken).catch(() => {});
  process.exit(status);
}

function describe(error: unknown): ReportedFailure {
  if (error instanceof TreeUnknown) return { code: error.code, detail: error.detail, trees: error.trees };
  if (error instanceof SignerFailure) return { code: error.code, detail: error.detail };
  const refusal = asPkcs11Error(error);
  if (refusal !== undefined) {
    return { code: refusal.message, detail: `${refusal.method || 'PKCS#11'} failed${numberOf(refusal)}` };
  }
  return { code: 'signer_error', detail: String(error) };
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}

/** Whether the members that every step relies on have the right types. */
function isCall(message: unknown): message is SignerCall {
  if (!isObject(message) || typeof message.kind !== 'string') return false;
  if (!Number.isSafeInteger(message.id) || !(Number(message.timeoutMs) > 0)) return false;
  switch (message.kind) {
    case 'connect':
      return isObject(message.token);
    case 'generateKey':
      return KEY_ALGORITHMS.some((known) => known === message.algorithm);
    case 'findKey':
      return message.publicKey === undefined || typeof message.publicKey === 'string';
    case 'signBytes':
      return typeof message.message === 'string';
    case 'signCheckpoint':
      return typeof message.text === 'string' && Number.isSafeInteger(message.time) && isStep(message.step);
    case 'signToken':
      return typeof message.content === 'string' && typeof message.certificate === 'string';
    default:
      return [
        'logIn',
        'inspectToken',
        'inspectKey',
        'destroyKey',
        'signProbe',
        'heldTrees',
        'close',
      ].includes(message.kind);
  }
}

function isStep(step: unknown): boolean {
  if (step === undefined) return true;
  if (!isObject(step) || !isObject(step.from) || !Array.isArray(step.proof)) return false;
  const { size, root } = step.from;
  const { draftedOn = [] } = step;
  return (
    Number.isSafeInteger(size) &&
    typeof root === 'string' &&
    Array.isArray(draftedOn) &&
    draftedOn.every((one) => Number.isSafeInteger(one)) &&
    step.proof.every((line) => typeof line === 'string')
  );
}

// The parent decides when this process ends; Ctrl-C and systemd signal the whole group, while the daemon still drains.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {});

stream.on('close', () => void leave());
stream.on('end', () => void leave());
readFrames(stream, SIGNER_MESSAGE_BYTES_MAX, (message) => {
  if (isCall(message)) void serve(message);
  else stream.destroy(new Error('a request that is none'));
});
