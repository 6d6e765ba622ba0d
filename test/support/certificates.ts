import { spawnSync } from 'node:child_process';
import { chmodSync, copyFileSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { toRfc3339 } from '../../src/base/clock.ts';

/** PEM files. */
export interface KeyPair {
  certificateFile: string;
  keyFile: string;
}

const NEW_KEY = {
  ecdsa: ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes'],
  rsa: ['-newkey', 'rsa:2048', '-nodes'],
};

/** A certificate authority of its own, or below another. */
export function makeAuthority(dir: string, name: string, above?: KeyPair): KeyPair {
  const files = filesOf(dir, name);
  const subject = ['-subj', `/CN=${name}`, '-days', '30', '-addext', 'basicConstraints=critical,CA:TRUE'];
  const issuer = above === undefined ? [] : ['-CA', above.certificateFile, '-CAkey', above.keyFile];
  const out = ['-keyout', files.keyFile, '-out', files.certificateFile];
  run('req', '-x509', ...issuer, ...NEW_KEY.ecdsa, ...subject, ...out);
  return files;
}

/** A certificate of that authority, for this machine (or those of `names`) as a server and for clients; `days` from now. */
export function issueCertificate(
  dir: string,
  name: string,
  authority: KeyPair,
  days = 30,
  algorithm: keyof typeof NEW_KEY = 'ecdsa',
  names = 'DNS:localhost,IP:127.0.0.1',
): KeyPair {
  const files = filesOf(dir, name);
  const request = join(dir, `${name}.csr`);
  const extensions = join(dir, `${name}.ext`);
  writeFileSync(
    extensions,
    `subjectAltName=${names}\nextendedKeyUsage=serverAuth,clientAuth\nbasicConstraints=CA:FALSE\n`,
  );
  run('req', ...NEW_KEY[algorithm], '-subj', `/CN=${name}`, '-keyout', files.keyFile, '-out', request);
  const ca = ['-CA', authority.certificateFile, '-CAkey', authority.keyFile, '-CAcreateserial'];
  const out = ['-days', String(days), '-extfile', extensions, '-out', files.certificateFile];
  run('x509', '-req', '-in', request, ...ca, ...out);
  chmodSync(files.keyFile, 0o600);
  return files;
}

export interface ClientSubject {
  /** As `openssl req -subj` takes it. Default: `/CN=<name>`. */
  subject?: string;
  /** Extensions besides clientAuth, as in a file of openssl. */
  extensions?: string;
  /** The string type of the subject: UTF8String, or PrintableString where the characters allow it. */
  mask?: 'utf8only' | 'default';
  days?: number;
}

/** A certificate of that authority for a client; its key is an ECDSA key. */
export function issueClient(
  dir: string,
  name: string,
  authority: KeyPair,
  { subject = `/CN=${name}`, extensions = '', mask = 'utf8only', days = 30 }: ClientSubject = {},
): KeyPair {
  const files = filesOf(dir, name);
  const [request, config, extended] = ['csr', 'cnf', 'ext'].map((end) => join(dir, `${name}.${end}`));
  if (!request || !config || !extended) throw new Error('no file');
  writeFileSync(config, `[req]\nstring_mask=${mask}\ndistinguished_name=dn\nutf8=yes\nprompt=yes\n[dn]\n`);
  writeFileSync(extended, `extendedKeyUsage=clientAuth\nbasicConstraints=CA:FALSE\n${extensions}\n`);
  const key = [...NEW_KEY.ecdsa, '-keyout', files.keyFile];
  run('req', '-config', config, '-utf8', ...key, '-subj', subject, '-out', request);
  const ca = ['-CA', authority.certificateFile, '-CAkey', authority.keyFile, '-CAcreateserial'];
  const out = ['-days', String(days), '-extfile', extended, '-out', files.certificateFile];
  run('x509', '-req', '-in', request, ...ca, ...out);
  chmodSync(files.keyFile, 0o600);
  return files;
}

/** Writes a revocation list of that authority with these certificates on it, valid for so many days from its issue. */
export function revoke(
  dir: string,
  file: string,
  authority: KeyPair,
  revoked: KeyPair[],
  { issuedDaysAgo = 0, validDays = 30 } = {},
): void {
  const config = join(dir, 'ca.cnf');
  const database = join(dir, `index-${revoked.length}-${Date.now()}.txt`);
  writeFileSync(database, '');
  writeFileSync(
    config,
    `[ca]\ndefault_ca=own\n[own]\ndatabase=${database}\ndefault_md=sha256\ndefault_crl_days=30\n`,
  );
  const ca = ['-config', config, '-cert', authority.certificateFile, '-keyfile', authority.keyFile];
  for (const { certificateFile } of revoked) run('ca', ...ca, '-revoke', certificateFile);
  const at = (days: number) =>
    toRfc3339(Date.now() + days * 86_400_000)
      .replace(/\.\d+/, '')
      .replaceAll(/[-:T]/g, '');
  const validity = ['-crl_lastupdate', at(-issuedDaysAgo), '-crl_nextupdate', at(validDays - issuedDaysAgo)];
  run('ca', ...ca, '-gencrl', ...validity, '-out', file);
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

/** Puts the external authority "acme" of the config file before the built-in one, with a root in `roots.pem` that no token will need. */
export function preferAcme({ dir, configFile }: { dir: string; configFile: string }): void {
  copyFileSync(makeAuthority(dir, 'acme').certificateFile, join(dir, 'roots.pem'));
  const config = readFileSync(configFile, 'utf8');
  writeFileSync(configFile, config.replace('["built-in"]', '["acme", "built-in"]'));
}
