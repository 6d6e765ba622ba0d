/**
 * The table of PKCS#11 modules that the tests live with: how each is started without hardware, and what is peculiar to it. Those that
 * Debian's release lacks were unpacked by the set-up of the tests.
 */
import { existsSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Test } from 'tap';
import type { AuthorityAlgorithm } from '../../src/asn1/signatureAlgorithm.ts';
import type { PartitionOptions } from '../../src/kms/partitions.ts';
import type { SignatureAlgorithm } from '../../src/log/verifierKey.ts';
import { isListening } from './daemon.ts';
import { DeviceProgram } from './deviceProgram.ts';
import { freePort } from './freePort.ts';
import { NETHSM_PIN, NETHSM_TOKEN, NetHsm } from './netHsm.ts';
import { makeNssToken } from './nss.ts';
import { OpenCryptoki, openCryptokiMissing } from './openCryptoki.ts';
import { findModule, makeToken, type TokenNames } from './partitions.ts';
import { takeToken } from './tamper.ts';
import { YUBIHSM_PIN, YUBIHSM_TOKEN, YubiHsm } from './yubiHsm.ts';

/** A token as a config file describes it, without the names of a key. */
export type Token = Omit<PartitionOptions, 'region' | 'keyLabel' | 'algorithm' | 'refusedPins'>;

export interface Device {
  token: Token;
  /** What each command line begins with that uses it. */
  through?: readonly string[];
  /** Takes the token away. One whose signers hold all of it in memory also ends these: it was pulled out. */
  leave(endSigners: () => void): void | Promise<void>;
  /** Brings it back as it was. */
  comeBack(): void | Promise<void>;
}

export interface DeviceModule {
  name: string;
  /** Of its keys for the log. A device that cannot make any has the key for time-stamps only, and SoftHSM has that of the log. */
  log?: SignatureAlgorithm;
  timestamp: AuthorityAlgorithm;
  /** Why this machine cannot have it; undefined if it can. */
  missing?(): string | undefined;
  /** The code of C_Login with a wrong PIN. */
  wrongPin: string;
  /** Starts a device that ends with `t`, with an initialised token and no keys. */
  start(t: Pick<Test, 'teardown'>): Promise<Device>;
}

export const MODULES: readonly DeviceModule[] = [
  {
    name: 'SoftHSM',
    log: 'ed25519',
    timestamp: 'ecdsa-p256',
    wrongPin: 'CKR_PIN_INCORRECT',
    async start(t) {
      const token = softToken(workFolder(t));
      let bringBack = () => {};
      return {
        token,
        leave: () => {
          bringBack = takeToken({ ...token, ...UNNAMED });
        },
        comeBack: () => bringBack(),
      };
    },
  },
  {
    name: 'NSS softoken',
    log: 'ecdsa-p256',
    timestamp: 'ecdsa-p256',
    wrongPin: 'CKR_PIN_INCORRECT',
    async start(t) {
      const dir = workFolder(t);
      const { module, tokenLabel, libraryParameters, pinFile, environment } = makeNssToken(dir);
      const home = join(dir, 'nss');
      return {
        token: { module, tokenLabel, libraryParameters, pinFile, environment },
        leave: (endSigners) => {
          // All of it: without a database, NSS makes an empty one, which refuses the PIN.
          renameSync(home, `${home}.away`);
          endSigners();
        },
        comeBack: () => renameSync(`${home}.away`, home),
      };
    },
  },
  {
    name: 'p11-kit remoting',
    // The protocol carries no parameters of EdDSA.
    log: 'ecdsa-p256',
    timestamp: 'ecdsa-p256',
    wrongPin: 'CKR_PIN_INCORRECT',
    async start(t) {
      const dir = workFolder(t);
      const { tokenLabel, pinFile, environment } = softToken(dir);
      const socket = join(dir, 'p11');
      const args = [
        '--foreground',
        '--provider',
        findModule(),
        '--name',
        socket,
        `pkcs11:token=${tokenLabel}`,
      ];
      const server = new DeviceProgram(t, [unpacked('usr/libexec/p11-kit/p11-kit-server'), ...args], {
        ...environment,
        LD_LIBRARY_PATH: UNPACKED_LIBRARIES,
        P11_KIT_PRIVATEDIR: unpacked('usr/libexec/p11-kit'),
      });
      const start = () => server.start(() => existsSync(socket));
      await start();
      return {
        token: {
          module: unpacked('usr/lib/x86_64-linux-gnu/pkcs11/p11-kit-client.so'),
          tokenLabel,
          pinFile,
          environment: { P11_KIT_SERVER_ADDRESS: `unix:path=${socket}`, LD_LIBRARY_PATH: UNPACKED_LIBRARIES },
        },
        leave: async () => {
          await server.stop();
          rmSync(socket, { force: true });
        },
        comeBack: start,
      };
    },
  },
  {
    name: 'pkcs11-proxy',
    log: 'ecdsa-p256',
    timestamp: 'ecdsa-p256',
    wrongPin: 'CKR_PIN_INCORRECT',
    async start(t) {
      const { tokenLabel, pinFile, environment } = softToken(workFolder(t));
      const port = await freePort();
      const daemon = new DeviceProgram(t, [unpacked('usr/bin/pkcs11-daemon'), findModule()], {
        ...environment,
        PKCS11_DAEMON_SOCKET: `tcp://127.0.0.1:${port}`,
      });
      const start = () => daemon.start(() => isListening(port));
      await start();
      return {
        token: {
          module: unpacked('usr/lib/libpkcs11-proxy.so'),
          tokenLabel,
          pinFile,
          environment: { PKCS11_PROXY_SOCKET: `tcp://127.0.0.1:${port}` },
        },
        leave: () => daemon.stop(),
        comeBack: start,
      };
    },
  },
  {
    name: 'YubiHSM 2',
    log: 'ed25519',
    timestamp: 'ecdsa-p256',
    wrongPin: 'CKR_PIN_INCORRECT',
    async start(t) {
      const dir = workFolder(t);
      const hsm = await YubiHsm.start(t);
      const environment = {
        YUBIHSM_PKCS11_CONF: hsm.writeConfiguration(dir),
        LD_LIBRARY_PATH: UNPACKED_LIBRARIES,
      };
      return {
        token: {
          module: unpacked('usr/lib/x86_64-linux-gnu/pkcs11/yubihsm_pkcs11.so'),
          tokenLabel: YUBIHSM_TOKEN,
          pinFile: writePin(dir, YUBIHSM_PIN),
          environment,
        },
        leave: () => hsm.server.stop(),
        comeBack: () => hsm.server.start(),
      };
    },
  },
  {
    name: 'NetHSM',
    log: 'ed25519',
    timestamp: 'ecdsa-p256',
    wrongPin: 'CKR_USER_TYPE_INVALID',
    async start(t) {
      const dir = workFolder(t);
      const hsm = await NetHsm.start(t);
      return {
        token: {
          module: unpacked('usr/lib/x86_64-linux-gnu/pkcs11/libnethsm_pkcs11.so'),
          tokenLabel: NETHSM_TOKEN,
          pinFile: writePin(dir, NETHSM_PIN),
          environment: { P11NETHSM_CONFIG_FILE: hsm.writeConfiguration(dir) },
        },
        leave: () => hsm.server.stop(),
        comeBack: () => hsm.server.start(),
      };
    },
  },
  {
    name: 'openCryptoki 3.8',
    timestamp: 'rsa-3072',
    missing: openCryptokiMissing,
    wrongPin: 'CKR_PIN_INCORRECT',
    async start(t) {
      const dir = workFolder(t);
      const token = await OpenCryptoki.start(t, dir);
      const { module, label: tokenLabel, environment } = token;
      return {
        token: { module, tokenLabel, environment, pinFile: writePin(dir, token.pin) },
        through: token.machine.enter,
        // What is logged in goes on signing without the daemon of its slots.
        leave: async (endSigners) => {
          await token.stopSlots();
          endSigners();
        },
        comeBack: () => token.startSlots(),
      };
    },
  },
];

/** Where an installation has its keys, as {@link openSandbox} asks for them. */
export function tokenOn({ log }: DeviceModule, { token }: Device) {
  return (dir: string, names: TokenNames): PartitionOptions =>
    names.keyLabel.startsWith('timestamp') || log !== undefined
      ? { ...names, ...token, refusedPins: join(dir, 'unused') }
      : makeToken(dir, names);
}

const UNPACKED = fileURLToPath(new URL('../../node_modules/.cache/hsm-modules', import.meta.url));
const UNPACKED_LIBRARIES = join(UNPACKED, 'usr/lib/x86_64-linux-gnu');

/** Names of a key, for functions that do without them. */
const UNNAMED = { region: '', keyLabel: '', refusedPins: '' };

function unpacked(path: string): string {
  const file = join(UNPACKED, path);
  if (!existsSync(file)) throw new Error(`there is no ${path}: sh test/setup.sh --all-tests unpacks it`);
  return file;
}

/** The path of a socket is short. */
function workFolder(t: Pick<Test, 'teardown'>): string {
  const dir = mkdtempSync(join(tmpdir(), 'pdfseal-device-'));
  t.teardown(() => rmSync(dir, { recursive: true, force: true }));
  return dir;
}

function softToken(dir: string): Token {
  const { module, tokenLabel, pinFile, environment } = makeToken(dir, { ...UNNAMED, label: 'device' });
  return {
    pinFile,
    ...(module && { module }),
    ...(tokenLabel && { tokenLabel }),
    ...(environment && { environment }),
  };
}

function writePin(dir: string, pin: string): string {
  const file = join(dir, 'pin');
  writeFileSync(file, `${pin}\n`, { mode: 0o600 });
  return file;
}
