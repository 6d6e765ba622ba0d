import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { concatBytes } from '../base/bytes.ts';
import { OperatorError } from '../base/errors.ts';
import { systemReason } from '../base/systemReason.ts';
import { requireName } from './keyFile.ts';
import type { CosigningKey } from './witness.ts';

/** Messages of draft-ietf-sshm-ssh-agent, sections 3.5 and 3.6. */
const REQUEST_IDENTITIES = 11;
const IDENTITIES_ANSWER = 12;
const SIGN_REQUEST = 13;
const SIGN_RESPONSE = 14;

const KEY_TYPE = 'ssh-ed25519';
const KEY_BYTES = 32;
const SIGNATURE_BYTES = 64;
/** An agent may ask a person, or a device. */
const ANSWER_MS_MAX = 10_000;
const ANSWER_BYTES_MAX = 1 << 20;

/**
 * The only Ed25519 key of an ssh-agent, so the key can be on a device that the agent can access. Every request opens a new connection, so
 * an agent works again after it was locked and unlocked. Throws OperatorError if the agent holds no such key, or several.
 */
export async function openAgentKey(socket: string, name: string): Promise<CosigningKey> {
  requireName(name);
  const keys = await listKeys(socket);
  const [key, ...others] = keys;
  if (key === undefined || others.length > 0)
    throw new OperatorError(
      `--agent: ${socket} has ${keys.length} Ed25519 keys; give it the key of the witness and no other`,
    );
  return {
    cosigner: { name, algorithm: 'ed25519', key },
    sign: (message) => signWith(socket, key, message),
  };
}

function listKeys(socket: string): Promise<Uint8Array[]> {
  return ask(socket, Uint8Array.of(REQUEST_IDENTITIES), IDENTITIES_ANSWER, (answer) => {
    const keys: Uint8Array[] = [];
    for (let left = answer.number(); left > 0; left -= 1) {
      const blob = new Fields(answer.string());
      answer.string(); // its comment
      if (blob.text() === KEY_TYPE) keys.push(blob.string());
    }
    return keys.filter((key) => key.length === KEY_BYTES);
  });
}

function signWith(socket: string, key: Uint8Array, message: Uint8Array): Promise<Uint8Array> {
  const blob = concatBytes([string(Buffer.from(KEY_TYPE)), string(key)]);
  const request = concatBytes([Uint8Array.of(SIGN_REQUEST), string(blob), string(message), uint32(0)]);
  return ask(socket, request, SIGN_RESPONSE, (answer) => {
    const signature = new Fields(answer.string());
    const [type, bytes] = [signature.text(), signature.string()];
    if (type === KEY_TYPE && bytes.length === SIGNATURE_BYTES) return bytes;
    throw new Error('the agent gave a signature of another type');
  });
}

/** Sends one request and reads the expected answer. Throws OperatorError. */
async function ask<Answer>(
  path: string,
  request: Uint8Array,
  expected: number,
  read: (answer: Fields) => Answer,
): Promise<Answer> {
  const socket = connect(path);
  const late = setTimeout(() => socket.destroy(new Error('the agent does not answer')), ANSWER_MS_MAX);
  try {
    await once(socket, 'connect');
    socket.write(string(request));
    const message = await readMessage(socket);
    // Whatever the reason, such as a key that it no longer has, the agent only reports a failure.
    if (message[0] !== expected) throw new Error('the agent refused');
    return read(new Fields(message.subarray(1)));
  } catch (cause) {
    throw new OperatorError(`--agent: ${path} (${systemReason(cause)})`, { cause });
  } finally {
    clearTimeout(late);
    socket.destroy();
  }
}

async function readMessage(socket: Socket): Promise<Uint8Array> {
  let read: Uint8Array = new Uint8Array(0);
  for await (const chunk of socket) {
    read = concatBytes([read, chunk]);
    const bytes = read.length < 4 ? ANSWER_BYTES_MAX : new Fields(read).number();
    if (bytes > ANSWER_BYTES_MAX) throw new Error('the agent answers without end');
    if (read.length >= 4 + bytes) return read.subarray(4, 4 + bytes);
  }
  throw new Error('the agent closed the connection');
}

/** The fields of a message in order (RFC 4251, section 5). Throws Error if there are too few. */
class Fields {
  readonly #view: DataView;
  #at = 0;

  constructor(bytes: Uint8Array) {
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  number(): number {
    const value = this.#view.getUint32(this.#at);
    this.#at += 4;
    return value;
  }

  string(): Uint8Array {
    const bytes = this.number();
    if (bytes > this.#view.byteLength - this.#at) throw new Error('the agent answered with a broken message');
    const start = this.#view.byteOffset + this.#at;
    this.#at += bytes;
    return new Uint8Array(this.#view.buffer, start, bytes);
  }

  text(): string {
    return Buffer.from(this.string()).toString('latin1');
  }
}

function string(bytes: Uint8Array): Uint8Array {
  return concatBytes([uint32(bytes.length), bytes]);
}

function uint32(value: number): Uint8Array {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}
