/**
 * A simulated YubiHSM 2 behind its connector, on the loopback: the commands that Yubico's PKCS#11 module uses. Numbers and layouts are
 * those of Yubico's description of the device's commands.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Test } from 'tap';
import { DeviceKey, type DeviceKeyKind } from './deviceKeys.ts';
import { type DeviceAnswer, type DeviceRequest, DeviceServer } from './deviceServer.ts';
import { randomBytes } from './seed.ts';
import { DeviceRefusal, YubiHsmSessions } from './yubiHsmSessions.ts';

export const YUBIHSM_TOKEN = 'YubiHSM';
/** The number of the authentication key in hexadecimal digits, and its password. */
export const YUBIHSM_PIN = '0001password';

const SERIAL = 12345678;
/** Version 2.4.0, and the numbers of its log's entries in all and in use. */
const DEVICE_INFO = [2, 4, 0, ...uint32(SERIAL), 62, 1];
const ALGORITHMS = Array.from({ length: 54 }, (_, index) => index + 1);
/** Records and pages, in all and free, and the bytes of a page. */
const STORAGE = [256, 250, 1024, 1000, 126];

const OBJECT_TYPES = { opaque: 1, authenticationKey: 2, asymmetricKey: 3 };
const KINDS: Record<number, DeviceKeyKind> = {
  9: 'RSA-2048',
  10: 'RSA-3072',
  11: 'RSA-4096',
  12: 'P-256',
  13: 'P-384',
  46: 'Ed25519',
};
const AES128_YUBICO_AUTHENTICATION = 38;
const SHA256_DIGEST_INFO = Buffer.from('3031300d060960864801650304020105000420', 'hex');

/** Error codes of the device. */
const INVALID_COMMAND = 1;
const INVALID_DATA = 2;
const OBJECT_NOT_FOUND = 11;
const OBJECT_EXISTS = 17;

interface StoredObject {
  id: number;
  type: number;
  algorithm: number;
  label: string;
  domains: number;
  capabilities: Buffer;
  origin: number;
  key?: DeviceKey;
  data?: Buffer;
}

export class YubiHsm {
  readonly server: DeviceServer;
  readonly #sessions: YubiHsmSessions;

  private constructor(server: DeviceServer, sessions: YubiHsmSessions) {
    this.server = server;
    this.#sessions = sessions;
  }

  /** Starts one that ends with `t`, with the authentication key of the factory. */
  static async start(t: Pick<Test, 'teardown'>): Promise<YubiHsm> {
    const device = new Device();
    const sessions = new YubiHsmSessions(YUBIHSM_PIN.slice(4), (command, data) => device.run(command, data));
    const server = await DeviceServer.start(t, (request) => connect(sessions, request));
    return new YubiHsm(server, sessions);
  }

  /** How often a wrong password was presented. */
  get refusedLogIns(): number {
    return this.#sessions.refused;
  }

  /** Writes the module's configuration into `dir`, and returns its path. */
  writeConfiguration(dir: string): string {
    const file = join(dir, 'yubihsm_pkcs11.conf');
    writeFileSync(file, `connector=http://127.0.0.1:${this.server.port}\n`);
    return file;
  }
}

function connect(sessions: YubiHsmSessions, { path, body }: DeviceRequest): DeviceAnswer {
  if (path.startsWith('/connector/status')) {
    const status = { status: 'OK', serial: SERIAL, version: '3.0.5', address: '127.0.0.1', port: 12345 };
    const lines = Object.entries(status).map(([name, value]) => `${name}=${value}`);
    return { status: 200, type: 'text/plain', body: lines.join('\n') };
  }
  return { status: 200, body: sessions.answer(body) };
}

/** The objects of the device, and what commands do with them. Commands throw {@link DeviceRefusal}. */
class Device {
  #objects: StoredObject[] = [
    {
      id: 1,
      type: OBJECT_TYPES.authenticationKey,
      algorithm: AES128_YUBICO_AUTHENTICATION,
      label: 'DEFAULT AUTHKEY CHANGE THIS ASAP',
      domains: 0xffff,
      capabilities: Buffer.alloc(8, 0xff),
      origin: 2,
    },
  ];

  readonly #commands: Record<number, (data: Buffer) => Buffer> = {
    // Get device info, which no session needs; with an argument, the name of its part.
    6: (data) =>
      data.length > 0 ? Buffer.from('78CLUFX5000P\0') : Buffer.from([...DEVICE_INFO, ...ALGORITHMS]),
    // Get storage info.
    65: () => Buffer.concat(STORAGE.map(uint16)),
    // Put opaque.
    66: (data) => this.#add(data, OBJECT_TYPES.opaque, { data: Buffer.from(data.subarray(53)) }),
    // Get opaque.
    67: (data) => this.#find(data.readUInt16BE(0), OBJECT_TYPES.opaque).data ?? Buffer.alloc(0),
    // Generate asymmetric key.
    70: (data) => {
      const kind = KINDS[data[52] ?? 0];
      if (kind === undefined) throw new DeviceRefusal(INVALID_DATA);
      return this.#add(data, OBJECT_TYPES.asymmetricKey, { key: new DeviceKey(kind) });
    },
    // Sign with PKCS#1 version 1.5: a digest, of which SHA-256 comes without its DigestInfo.
    71: (data) => {
      const digest = data.subarray(2);
      const info = digest.length === 32 ? Buffer.concat([SHA256_DIGEST_INFO, digest]) : digest;
      return this.#key(data).signDigestInfo(info);
    },
    // List objects.
    72: (data) =>
      Buffer.concat(this.#list(data).map(({ id, type }) => Buffer.from([...uint16(id), type, 0]))),
    // Get object info.
    78: (data) => describe(this.#find(data.readUInt16BE(0), data[2] ?? 0)),
    // Get pseudo random.
    81: (data) => randomBytes(data.readUInt16BE(0)),
    // Get public key.
    84: (data) => this.#publicKey(this.#find(data.readUInt16BE(0), OBJECT_TYPES.asymmetricKey)),
    // Sign with ECDSA.
    86: (data) => this.#key(data).signDigest(data.subarray(2)),
    // Delete object.
    88: (data) => {
      const found = this.#find(data.readUInt16BE(0), data[2] ?? 0);
      this.#objects = this.#objects.filter((one) => one !== found);
      return Buffer.alloc(0);
    },
    // Sign with EdDSA.
    106: (data) => this.#key(data).signMessage(data.subarray(2)),
  };

  run(command: number, data: Buffer): Buffer {
    const known = this.#commands[command];
    if (known === undefined) throw new DeviceRefusal(INVALID_COMMAND);
    return known(data);
  }

  #find(id: number, type: number): StoredObject {
    const found = this.#objects.find((one) => one.id === id && one.type === type);
    if (found === undefined) throw new DeviceRefusal(OBJECT_NOT_FOUND);
    return found;
  }

  #key(data: Buffer): DeviceKey {
    const { key } = this.#find(data.readUInt16BE(0), OBJECT_TYPES.asymmetricKey);
    if (key === undefined) throw new DeviceRefusal(OBJECT_NOT_FOUND);
    return key;
  }

  #publicKey({ algorithm, key }: StoredObject): Buffer {
    if (key === undefined) throw new DeviceRefusal(OBJECT_NOT_FOUND);
    const members = { E: ['x'], P: ['x', 'y'], R: ['n'] } as const;
    const parts = members[key.kind[0] as keyof typeof members].map((member) => key.publicPart(member));
    return Buffer.concat([Buffer.of(algorithm), ...parts]);
  }

  /** Number (0: any free one), label, domains, capabilities and algorithm begin the data of every command that creates an object. */
  #add(data: Buffer, type: number, content: Pick<StoredObject, 'key' | 'data'>): Buffer {
    const isTaken = (id: number) => this.#objects.some((one) => one.id === id && one.type === type);
    let id = data.readUInt16BE(0);
    if (isTaken(id)) throw new DeviceRefusal(OBJECT_EXISTS);
    while (id === 0 || isTaken(id)) id += 1;
    this.#objects.push({
      id,
      type,
      algorithm: data[52] ?? 0,
      label: labelAt(data, 2),
      domains: data.readUInt16BE(42),
      capabilities: Buffer.from(data.subarray(44, 52)),
      origin: 1,
      ...content,
    });
    return uint16(id);
  }

  /** The objects that fit every filter; each filter has a tag of one byte before it. */
  #list(filters: Buffer): StoredObject[] {
    let found = this.#objects;
    for (let at = 0; at < filters.length; ) {
      const filter = FILTERS[filters[at] ?? 0];
      if (filter === undefined) throw new DeviceRefusal(INVALID_DATA);
      const value = filters.subarray(at + 1, at + 1 + filter.length);
      found = found.filter((one) => filter.fits(one, value));
      at += 1 + filter.length;
    }
    return found;
  }
}

/** By number, type, domains, capabilities, algorithm, label. Every object here is in each domain. */
const FILTERS: Record<number, { length: number; fits(object: StoredObject, value: Buffer): boolean }> = {
  1: { length: 2, fits: ({ id }, value) => id === value.readUInt16BE(0) },
  2: { length: 1, fits: ({ type }, value) => type === value[0] },
  3: { length: 2, fits: () => true },
  4: {
    length: 8,
    fits: ({ capabilities }, value) => value.every((bits, at) => (bits & ~(capabilities[at] ?? 0)) === 0),
  },
  5: { length: 1, fits: ({ algorithm }, value) => algorithm === value[0] },
  6: { length: 40, fits: ({ label }, value) => label === labelAt(value, 0) },
};

function describe({ id, type, algorithm, label, domains, capabilities, origin, data }: StoredObject): Buffer {
  const sequence = 0;
  return Buffer.concat([
    capabilities,
    uint16(id),
    uint16(data?.length ?? 100),
    uint16(domains),
    Buffer.of(type, algorithm, sequence, origin),
    Buffer.from(label.padEnd(40, '\0'), 'latin1'),
    Buffer.alloc(8),
  ]);
}

function labelAt(data: Buffer, at: number): string {
  return data.toString('latin1', at, at + 40).replace(/\0+$/, '');
}

function uint16(value: number): Buffer {
  return Buffer.of(value >> 8, value & 0xff);
}

function uint32(value: number): Buffer {
  return Buffer.concat([uint16(value >>> 16), uint16(value & 0xffff)]);
}
