/** Messages to a simulated YubiHSM 2 and its sessions, which are those of GlobalPlatform's Secure Channel Protocol 03. */
import { createCipheriv, createDecipheriv, pbkdf2Sync } from 'node:crypto';
import { randomBytes } from './seed.ts';

const SESSIONS_MAX = 16;
const IDLE_MS_MAX = 30_000;
/** Bytes of a message authentication code, and of a block of AES. */
const MAC = 8;
const BLOCK = 16;

const ECHO = 0x01;
const CREATE_SESSION = 0x03;
const AUTHENTICATE_SESSION = 0x04;
const SESSION_MESSAGE = 0x05;
const GET_DEVICE_INFO = 0x06;
const CLOSE_SESSION = 0x40;
const ANSWER = 0x80;
const ERROR = 0x7f;

const INVALID_COMMAND = 1;
const INVALID_SESSION = 3;
const AUTHENTICATION_FAILED = 4;
const SESSIONS_FULL = 5;
const OBJECT_NOT_FOUND = 11;

/** Constants of the derivation of keys and cryptograms. */
const DERIVED = { cardCryptogram: 0, hostCryptogram: 1, encryption: 4, mac: 6, answerMac: 7 };

/** What the device answers instead of doing it: one of its error codes. */
export class DeviceRefusal extends Error {
  readonly code: number;

  constructor(code: number) {
    super(`the device answers ${code}`);
    this.code = code;
  }
}

interface Session {
  encryptionKey: Buffer;
  macKey: Buffer;
  answerMacKey: Buffer;
  /** Both challenges. */
  context: Buffer;
  /** The code of the last message, over which the next one is made. */
  chain: Buffer;
  counter: bigint;
  isAuthenticated: boolean;
  /** Monotonic, in milliseconds. */
  usedAt: number;
}

export class YubiHsmSessions {
  /** How often somebody did not know the password. */
  refused = 0;
  readonly #sessions = new Map<number, Session>();
  readonly #authenticationKey: Buffer;
  readonly #run: (command: number, data: Buffer) => Buffer;

  /** `run` carries out a command and returns its data, or throws {@link DeviceRefusal}. */
  constructor(password: string, run: (command: number, data: Buffer) => Buffer) {
    this.#authenticationKey = pbkdf2Sync(password, 'Yubico', 10_000, 32, 'sha256');
    this.#run = run;
  }

  /** Answers a message: its command in one byte, the length of its data in two, and its data. */
  answer(message: Buffer): Buffer {
    const command = message[0] ?? 0;
    const data = message.subarray(3, 3 + message.readUInt16BE(1));
    return this.#reply(command, () => this.#outside(command, data));
  }

  #reply(command: number, run: () => Buffer): Buffer {
    try {
      return frame(command | ANSWER, run());
    } catch (error) {
      if (error instanceof DeviceRefusal) return frame(ERROR, Buffer.of(error.code));
      throw error;
    }
  }

  #outside(command: number, data: Buffer): Buffer {
    if (command === ECHO) return data;
    if (command === GET_DEVICE_INFO) return this.#run(command, data);
    if (command === CREATE_SESSION) return this.#create(data);
    if (command === AUTHENTICATE_SESSION) return this.#authenticate(data);
    if (command === SESSION_MESSAGE) return this.#inside(data);
    throw new DeviceRefusal(INVALID_COMMAND);
  }

  #create(data: Buffer): Buffer {
    for (const [id, { usedAt }] of this.#sessions)
      if (performance.now() - usedAt > IDLE_MS_MAX) this.#sessions.delete(id);
    if (data.readUInt16BE(0) !== 1) throw new DeviceRefusal(OBJECT_NOT_FOUND);
    const id = Array.from({ length: SESSIONS_MAX }, (_, index) => index).find(
      (one) => !this.#sessions.has(one),
    );
    if (id === undefined) throw new DeviceRefusal(SESSIONS_FULL);
    const challenge = randomBytes(8);
    const context = Buffer.concat([data.subarray(2, 10), challenge]);
    const [encryption, mac] = [this.#authenticationKey.subarray(0, 16), this.#authenticationKey.subarray(16)];
    const session: Session = {
      encryptionKey: derive(encryption, DERIVED.encryption, context, 16),
      macKey: derive(mac, DERIVED.mac, context, 16),
      answerMacKey: derive(mac, DERIVED.answerMac, context, 16),
      context,
      chain: Buffer.alloc(BLOCK),
      counter: 1n,
      isAuthenticated: false,
      usedAt: performance.now(),
    };
    this.#sessions.set(id, session);
    const cryptogram = derive(session.macKey, DERIVED.cardCryptogram, context, 8);
    return Buffer.concat([Buffer.of(id), challenge, cryptogram]);
  }

  #authenticate(data: Buffer): Buffer {
    const { id, session } = this.#sessionOf(data);
    const cryptogram = derive(session.macKey, DERIVED.hostCryptogram, session.context, 8);
    if (!hasRightMac(session, AUTHENTICATE_SESSION, data) || !data.subarray(1, 9).equals(cryptogram)) {
      this.#sessions.delete(id);
      this.refused += 1;
      throw new DeviceRefusal(AUTHENTICATION_FAILED);
    }
    session.isAuthenticated = true;
    return Buffer.alloc(0);
  }

  /** A command inside of a session, encrypted and authenticated, and so is its answer. */
  #inside(data: Buffer): Buffer {
    const { id, session } = this.#sessionOf(data);
    if (!session.isAuthenticated) throw new DeviceRefusal(INVALID_SESSION);
    if (!hasRightMac(session, SESSION_MESSAGE, data)) throw new DeviceRefusal(AUTHENTICATION_FAILED);
    const counter = Buffer.alloc(BLOCK);
    counter.writeBigUInt64BE(session.counter++, 8);
    const iv = encryptBlock(session.encryptionKey, counter);
    const decipher = createDecipheriv('aes-128-cbc', session.encryptionKey, iv).setAutoPadding(false);
    const message = Buffer.concat([decipher.update(data.subarray(1, -MAC)), decipher.final()]);
    const command = message[0] ?? 0;
    const argument = message.subarray(3, 3 + message.readUInt16BE(1));
    const isEnd = command === CLOSE_SESSION;
    const answer = this.#reply(command, () => (isEnd ? Buffer.alloc(0) : this.#run(command, argument)));
    if (isEnd) this.#sessions.delete(id);
    const cipher = createCipheriv('aes-128-cbc', session.encryptionKey, iv).setAutoPadding(false);
    const encrypted = Buffer.concat([Buffer.of(id), cipher.update(pad(answer)), cipher.final()]);
    const head = header(SESSION_MESSAGE | ANSWER, encrypted.length + MAC);
    const mac = cmac(session.answerMacKey, Buffer.concat([session.chain, head, encrypted]));
    return Buffer.concat([encrypted, mac.subarray(0, MAC)]);
  }

  #sessionOf(data: Buffer): { id: number; session: Session } {
    const id = data[0] ?? 0;
    const session = this.#sessions.get(id);
    if (session === undefined || performance.now() - session.usedAt > IDLE_MS_MAX) {
      this.#sessions.delete(id);
      throw new DeviceRefusal(INVALID_SESSION);
    }
    session.usedAt = performance.now();
    return { id, session };
  }
}

/** The code at the end of the data covers the code of the message before; it is kept for the next one. */
function hasRightMac(session: Session, command: number, data: Buffer): boolean {
  const covered = Buffer.concat([session.chain, header(command, data.length), data.subarray(0, -MAC)]);
  const mac = cmac(session.macKey, covered);
  if (!mac.subarray(0, MAC).equals(data.subarray(-MAC))) return false;
  session.chain = mac;
  return true;
}

function header(command: number, length: number): Buffer {
  return Buffer.of(command, length >> 8, length & 0xff);
}

function frame(command: number, data: Buffer): Buffer {
  return Buffer.concat([header(command, data.length), data]);
}

/** One bit, and zeros up to a whole block. */
function pad(message: Buffer): Buffer {
  const padded = Buffer.alloc((Math.floor(message.length / BLOCK) + 1) * BLOCK);
  message.copy(padded);
  padded[message.length] = 0x80;
  return padded;
}

function encryptBlock(key: Buffer, block: Uint8Array): Buffer {
  const cipher = createCipheriv('aes-128-ecb', key, null).setAutoPadding(false);
  return Buffer.concat([cipher.update(block), cipher.final()]);
}

/** NIST SP 800-108 in counter mode, as the protocol uses it: one block at most. */
function derive(key: Buffer, constant: number, context: Buffer, bytes: number): Buffer {
  const label = Buffer.concat([Buffer.alloc(11), Buffer.of(constant, 0, 0, bytes * 8, 1), context]);
  return cmac(key, label).subarray(0, bytes);
}

/** AES-CMAC (RFC 4493). */
function cmac(key: Buffer, message: Buffer): Buffer {
  const isWhole = message.length > 0 && message.length % BLOCK === 0;
  const first = double(encryptBlock(key, Buffer.alloc(BLOCK)));
  const padded = isWhole ? Buffer.from(message) : pad(message);
  const last = padded.subarray(-BLOCK);
  last.set(exclusiveOr(last, isWhole ? first : double(first)));
  let state = Buffer.alloc(BLOCK);
  for (let at = 0; at < padded.length; at += BLOCK)
    state = Buffer.from(encryptBlock(key, exclusiveOr(state, padded.subarray(at, at + BLOCK))));
  return state;
}

/** Doubling in the field of 2^128 elements: the subkeys of RFC 4493, section 2.3. */
function double(block: Buffer): Buffer {
  const value = BigInt(`0x${block.toString('hex')}`) << 1n;
  const overflow = value >> 128n;
  const doubled = (value & ((1n << 128n) - 1n)) ^ (overflow === 1n ? 0x87n : 0n);
  return Buffer.from(doubled.toString(16).padStart(32, '0'), 'hex');
}

function exclusiveOr(one: Uint8Array, other: Uint8Array): Buffer {
  return Buffer.from(one.map((byte, index) => byte ^ (other[index] ?? 0)));
}
