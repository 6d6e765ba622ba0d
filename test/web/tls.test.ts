import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { connect, createServer } from 'node:tls';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { TlsCertificates } from '../../src/web/tls.ts';
import { issueCertificate, makeAuthority, openssl } from '../support/certificates.ts';

/** What OpenSSL can do in TLS 1.2, the weakest too. */
function allCiphers(): string[] {
  const { output } = openssl('ciphers', '-s', '-tls1_2', 'ALL:COMPLEMENTOFDEFAULT:@SECLEVEL=0');
  return output.trim().split(':');
}

async function serve(t: Test, algorithm: 'ecdsa' | 'rsa'): Promise<number> {
  const dir = t.testdir();
  const files = issueCertificate(dir, 'server', makeAuthority(dir, 'authority'), 30, algorithm);
  const tls = new TlsCertificates('http.tls', files, pino({ level: 'silent' }));
  t.teardown(() => tls.close());
  const server = createServer(tls.options, (socket) => socket.on('error', () => {}).end());
  server.listen(0, '127.0.0.1');
  t.teardown(() => server.close());
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
}

/** The cipher that a client gets which has no other; undefined where it gets none. */
function agreeOn(port: number, cipher: string): Promise<string | undefined> {
  return new Promise((resolve) => {
    const socket = connect({
      host: '127.0.0.1',
      port,
      maxVersion: 'TLSv1.2',
      ciphers: `${cipher}:@SECLEVEL=0`,
      rejectUnauthorized: false,
    });
    socket.once('secureConnect', () => {
      resolve(socket.getCipher().name);
      socket.destroy();
    });
    socket.once('error', () => resolve(undefined));
  });
}

for (const algorithm of ['ecdsa', 'rsa'] as const) {
  t.test(
    `with an ${algorithm} certificate TLS 1.2 has forward secrecy and authenticated encryption only`,
    async (t) => {
      const port = await serve(t, algorithm);
      const agreed: string[] = [];
      for (const cipher of allCiphers()) {
        const name = await agreeOn(port, cipher);
        if (name !== undefined) agreed.push(name);
      }
      const prefix = `ECDHE-${algorithm.toUpperCase()}`;
      const expected = ['AES128-GCM-SHA256', 'AES256-GCM-SHA384', 'CHACHA20-POLY1305'];
      t.strictSame(
        agreed.toSorted(),
        expected.map((cipher) => `${prefix}-${cipher}`),
      );
    },
  );
}
