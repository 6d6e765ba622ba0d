import { spawnSync } from 'node:child_process';
import { chmodSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** PEM files. */
export interface KeyPair {
  certificateFile: string;
  keyFile: string;
}

const NEW_KEY = {
  ecdsa: ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes'],
  rsa: ['-newkey', 'rsa:2048', '-nodes'],
};

/** A certificate authority of its own. */
export function makeAuthority(dir: string, name: string): KeyPair {
  const files = filesOf(dir, name);
  const subject = ['-subj', `/CN=${name}`, '-days', '30', '-addext', 'basicConstraints=critical,CA:TRUE'];
  run('req', '-x509', ...NEW_KEY.ecdsa, ...subject, '-keyout', files.keyFile, '-out', files.certificateFile);
  return files;
}

/** A certificate of that authority, for this machine as a server and for clients; `days` from now. */
export function issueCertificate(
  dir: string,
  name: string,
  authority: KeyPair,
  days = 30,
  algorithm: keyof typeof NEW_KEY = 'ecdsa',
): KeyPair {
  const files = filesOf(dir, name);
  const request = join(dir, `${name}.csr`);
  const extensions = join(dir, `${name}.ext`);
  writeFileSync(
    extensions,
    'subjectAltName=DNS:localhost,IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\nbasicConstraints=CA:FALSE\n',
  );
  run('req', ...NEW_KEY[algorithm], '-subj', `/CN=${name}`, '-keyout', files.keyFile, '-out', request);
  const ca = ['-CA', authority.certificateFile, '-CAkey', authority.keyFile, '-CAcreateserial'];
  const out = ['-days', String(days), '-extfile', extensions, '-out', files.certificateFile];
  run('x509', '-req', '-in', request, ...ca, ...out);
  chmodSync(files.keyFile, 0o600);
  return files;
}

function filesOf(dir: string, name: string): KeyPair {
  return { certificateFile: join(dir, `${name}.pem`), keyFile: join(dir, `${name}.key`) };
}

function run(...args: string[]): void {
  const { status, output } = openssl(...args);
  if (status !== 0) throw new Error(`openssl ${args.join(' ')}: ${output}`);
}

/** Runs the stock openssl; `output` is what it printed, errors too. */
export function openssl(...args: string[]): { status: number | null; output: string } {
  const { status, stdout, stderr, error } = spawnSync('openssl', args, { encoding: 'utf8', timeout: 30_000 });
  if (error) throw error;
  return { status, output: stdout + stderr };
}
