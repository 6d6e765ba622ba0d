/**
 * A simulated NetHSM: the part of its REST API (version 1) that Nitrokey's PKCS#11 module uses, over plain HTTP on the loopback. Names of
 * paths, members and values are those of the API's description.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Test } from 'tap';
import { DeviceKey, type DeviceKeyKind } from './deviceKeys.ts';
import { type DeviceAnswer, type DeviceRequest, DeviceServer } from './deviceServer.ts';
import { randomBytes } from './seed.ts';

export const NETHSM_TOKEN = 'NetHSM';
/** The PIN of the module's user is the passphrase of the operator. */
export const NETHSM_PIN = 'opPassphrase';

const USERS: Record<string, { passphrase: string; role: string }> = {
  operator: { passphrase: NETHSM_PIN, role: 'Operator' },
  admin: { passphrase: 'adminPassphrase', role: 'Administrator' },
};

interface StoredKey {
  type: string;
  mechanisms: string[];
  key: DeviceKey;
  operations: number;
}

interface GenerateRequest {
  id?: string;
  type: string;
  mechanisms: string[];
  length?: number;
}

const FORBIDDEN = problem(403, 'forbidden');
const NOT_FOUND = problem(404, 'not found');

export class NetHsm {
  readonly server: DeviceServer;
  readonly #keys: Map<string, StoredKey>;

  private constructor(server: DeviceServer, keys: Map<string, StoredKey>) {
    this.server = server;
    this.#keys = keys;
  }

  /** Starts one that ends with `t`. */
  static async start(t: Pick<Test, 'teardown'>): Promise<NetHsm> {
    const keys = new Map<string, StoredKey>();
    const server = await DeviceServer.start(t, (request) => answer(keys, request));
    return new NetHsm(server, keys);
  }

  /** How many signatures its keys have made. */
  get operations(): number {
    return [...this.#keys.values()].reduce((sum, { operations }) => sum + operations, 0);
  }

  /** Writes the module's configuration into `dir`, and returns its path. */
  writeConfiguration(dir: string): string {
    const file = join(dir, 'p11nethsm.conf');
    const instance = `{ url: "http://127.0.0.1:${this.server.port}/api/v1", danger_insecure_cert: true }`;
    const administrator = `{ username: admin, password: ${USERS.admin?.passphrase} }`;
    writeFileSync(
      file,
      `log_level: Warn
log_file: "-"
slots:
  - label: ${NETHSM_TOKEN}
    operator: { username: operator }
    administrator: ${administrator}
    instances: [${instance}]
`,
    );
    return file;
  }
}

function answer(keys: Map<string, StoredKey>, request: DeviceRequest): DeviceAnswer {
  const [path = ''] = request.path.replace(/^\/api\/v1/, '').split('?');
  if (path === '/info') return json(200, { vendor: 'Nitrokey GmbH', product: 'NetHSM' });
  if (path === '/health/state') return json(200, { state: 'Operational' });
  if (path === '/health/ready' || path === '/health/alive') return { status: 200 };
  const role = roleOf(request.headers.authorization);
  if (role === undefined) return problem(401, 'unauthorized');
  const [, collection = '', id = '', act = ''] = path.split('/').map(decodeURIComponent);
  const isAdministrator = role === 'Administrator';
  if (path === '/system/info') return isAdministrator ? json(200, SYSTEM) : FORBIDDEN;
  if (collection === 'users') return describeUser(id);
  if (collection !== 'keys') return NOT_FOUND;
  if (id === '')
    return json(
      200,
      [...keys.keys()].map((name) => ({ id: name, key: name })),
    );
  if (id === 'generate') return isAdministrator ? generate(keys, parse(request.body)) : FORBIDDEN;
  const stored = keys.get(id);
  if (stored === undefined) return NOT_FOUND;
  if (act === 'sign') return sign(stored, parse(request.body));
  if (act === 'move') return isAdministrator ? move(keys, id, parse(request.body)) : FORBIDDEN;
  if (act !== '') return NOT_FOUND;
  if (request.method === 'GET') return describeKey(stored);
  if (request.method !== 'DELETE') return problem(405, 'method not allowed');
  if (!isAdministrator) return FORBIDDEN;
  keys.delete(id);
  return { status: 204 };
}

const SYSTEM = {
  softwareVersion: '3.0',
  softwareBuild: 'simulated',
  firmwareVersion: '1.0',
  hardwareVersion: '1.0',
  deviceId: '0123456789',
  akPub: {},
  pcr: {},
};

/** The role of the user whom HTTP's basic authentication (RFC 7617) names, if the passphrase is right. */
function roleOf(authorization: string | undefined): string | undefined {
  const [scheme, credentials = ''] = authorization?.split(' ') ?? [];
  if (scheme?.toLowerCase() !== 'basic') return undefined;
  const [name = '', ...passphrase] = Buffer.from(credentials, 'base64').toString().split(':');
  const user = USERS[name];
  return user?.passphrase === passphrase.join(':') ? user.role : undefined;
}

function describeUser(name: string): DeviceAnswer {
  const user = USERS[name];
  return user === undefined ? NOT_FOUND : json(200, { realName: name, role: user.role });
}

/** The kind of key that a type of the API stands for; RSA keys have a length. */
function kindOf({ type, length = 2048 }: GenerateRequest): DeviceKeyKind | undefined {
  if (type === 'Curve25519') return 'Ed25519';
  if (type === 'EC_P256') return 'P-256';
  if (type === 'EC_P384') return 'P-384';
  if (type === 'RSA' && [2048, 3072, 4096].includes(length)) return `RSA-${length}` as DeviceKeyKind;
  return undefined;
}

function generate(keys: Map<string, StoredKey>, request: GenerateRequest): DeviceAnswer {
  const id = request.id || randomBytes(10).toString('hex');
  if (keys.has(id)) return problem(409, 'the key exists');
  const kind = kindOf(request);
  if (kind === undefined) return problem(400, 'unknown type of key');
  const { type, mechanisms } = request;
  keys.set(id, { type, mechanisms, key: new DeviceKey(kind), operations: 0 });
  return { ...json(201, { id }), location: `/api/v1/keys/${encodeURIComponent(id)}` };
}

function describeKey({ type, mechanisms, key, operations }: StoredKey): DeviceAnswer {
  const text = (...parts: Buffer[]) => Buffer.concat(parts).toString('base64');
  const publicKey =
    type === 'RSA'
      ? { modulus: text(key.publicPart('n')), publicExponent: text(key.publicPart('e')) }
      : type === 'Curve25519'
        ? { data: text(key.publicPart('x')) }
        : { data: text(Buffer.of(4), key.publicPart('x'), key.publicPart('y')) };
  return json(200, { mechanisms, type, restrictions: {}, operations, public: publicKey });
}

function sign(stored: StoredKey, { mode, message }: { mode: string; message: string }): DeviceAnswer {
  const bytes = Buffer.from(message, 'base64');
  const modes: Record<string, () => Buffer> = {
    EdDSA: () => stored.key.signMessage(bytes),
    ECDSA: () => stored.key.signDigest(bytes),
    PKCS1: () => stored.key.signDigestInfo(bytes),
  };
  const signature = modes[mode]?.();
  if (signature === undefined) return problem(400, `unknown mode ${mode}`);
  stored.operations += 1;
  return json(200, { signature: signature.toString('base64') });
}

/** Gives a key another name. */
function move(keys: Map<string, StoredKey>, id: string, { newId }: { newId?: string }): DeviceAnswer {
  const stored = keys.get(id);
  if (stored === undefined || newId === undefined) return problem(400, 'no new name');
  keys.delete(id);
  keys.set(newId, stored);
  return { status: 204 };
}

function parse<T>(body: Buffer): T {
  return JSON.parse(body.toString()) as T;
}

function json(status: number, value: unknown): DeviceAnswer {
  return { status, type: 'application/json', body: JSON.stringify(value) };
}

function problem(status: number, message: string): DeviceAnswer {
  return json(status, { message });
}
