import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { makeAuthority, openssl } from './certificates.ts';

/** An authority that `openssl ts -reply` plays; its tokens state whole seconds. */
export function makeOutsideAuthority(
  dir: string,
  name = 'outside',
): { rootFile: string; reply(query: string, answer: string): void } {
  const root = makeAuthority(dir, name);
  const file = (ending: string) => join(dir, `${name}-${ending}`);
  writeFileSync(file('tsa.ext'), 'extendedKeyUsage=critical,timeStamping\nbasicConstraints=CA:FALSE\n');
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes'];
  openssl('req', ...key, '-subj', `/CN=${name} TSU`, '-keyout', file('tsa.key'), '-out', file('tsa.csr'));
  const ca = ['-CA', root.certificateFile, '-CAkey', root.keyFile, '-CAcreateserial', '-days', '30'];
  openssl(
    'x509',
    '-req',
    '-in',
    file('tsa.csr'),
    ...ca,
    '-extfile',
    file('tsa.ext'),
    '-out',
    file('tsa.pem'),
  );
  const lines = [
    '[tsa]',
    'default_tsa = outside',
    '[outside]',
    `serial = ${file('serial')}`,
    `signer_cert = ${file('tsa.pem')}`,
    `signer_key = ${file('tsa.key')}`,
    'signer_digest = sha256',
    'default_policy = 1.3.6.1.4.1.32473.1',
    'digests = sha384, sha512',
    'accuracy = secs:1',
    'ess_cert_id_alg = sha256',
  ];
  writeFileSync(file('tsa.cnf'), `${lines.join('\n')}\n`);
  const reply = (query: string, answer: string) =>
    openssl('ts', '-reply', '-config', file('tsa.cnf'), '-queryfile', query, '-out', answer);
  return { rootFile: root.certificateFile, reply };
}
