/** NSS softoken as a PKCS#11 module: a software token of others that has ML-DSA (PKCS#11 3.2). It is that of Debian's sid, unpacked. */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { PartitionOptions } from '../../src/kms/partitions.ts';

const LIB = fileURLToPath(new URL('../../node_modules/.cache/libnss3/usr/lib', import.meta.url));
const PIN = 'not a secret';

/** Makes the token: a database, and a PIN for it, which its user is known by. The library of another version may be loaded here already. */
const INITIALIZE = `
const pkcs11 = require('pkcs11js');
const [module, parameters, pin] = process.argv.slice(1);
const nss = new pkcs11.PKCS11();
nss.load(module);
// The binding cuts the last character.
nss.C_Initialize({ libraryParameters: parameters + ' ', flags: pkcs11.CKF_OS_LOCKING_OK });
const [, slot] = nss.C_GetSlotList(true);
const session = nss.C_OpenSession(slot, pkcs11.CKF_SERIAL_SESSION | pkcs11.CKF_RW_SESSION);
nss.C_Login(session, pkcs11.CKU_SO, '');
nss.C_InitPIN(session, pin);
nss.C_Finalize();
`;

/** A throw-away token in `<dir>/nss`, with a PIN and without keys. */
export function makeNssToken(
  dir: string,
): Required<
  Omit<PartitionOptions, 'tokenSerial' | 'signer' | 'pinCredential' | 'pinSource' | 'publicKeyFile'>
> {
  const folder = ['x86_64-linux-gnu', 'aarch64-linux-gnu']
    .map((name) => join(LIB, name))
    .find((one) => existsSync(join(one, 'libsoftokn3.so')));
  if (folder === undefined)
    throw new Error('there is no NSS softoken: sh test/setup.sh --all-tests unpacks it');
  const home = join(dir, 'nss');
  mkdirSync(home, { mode: 0o700 });
  const pinFile = join(home, 'pin');
  writeFileSync(pinFile, PIN, { mode: 0o600 });
  const module = join(folder, 'libsoftokn3.so');
  const libraryParameters = `configdir='sql:${home}' certPrefix='' keyPrefix='' secmod='secmod.db' flags=noModDB`;
  const environment = { LD_LIBRARY_PATH: folder };
  execFileSync(process.execPath, ['-e', INITIALIZE, module, libraryParameters, PIN], {
    env: environment,
    cwd: fileURLToPath(new URL('../../', import.meta.url)),
    stdio: 'pipe',
  });
  const refusedPins = `${pinFile}.refused`;
  const names = { region: 'eu', keyLabel: 'post-quantum', tokenLabel: 'NSS Certificate DB' };
  return { ...names, algorithm: 'mldsa44', module, libraryParameters, pinFile, refusedPins, environment };
}

/** The lines of its table in a config file, beside region, key label and algorithm. */
export function nssTable(token: ReturnType<typeof makeNssToken>): string {
  return `module = "${token.module}"
token_label = "${token.tokenLabel}"
library_parameters = "${token.libraryParameters}"
pin_file = "${token.pinFile}"
environment = { LD_LIBRARY_PATH = "${token.environment.LD_LIBRARY_PATH}" }
`;
}
