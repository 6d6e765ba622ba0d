/** The table `[http]` of the configuration: where the API listens, and what a connection may take. */
import {
  duration,
  flag,
  listenAddresses,
  omissible,
  pemFile,
  publicUrl,
  section,
  size,
  spelled,
  table,
  tlsKey,
  wholeNumber,
} from './keys.ts';

export const httpTable = section({
  listen: listenAddresses.prefault('127.0.0.1:8400'),
  reusePort: flag('whether other daemons of this user may listen at the same address and port').prefault(
    false,
  ),
  clearTextBeyondLoopback: flag('whether other machines may connect without TLS').prefault(false),
  tls: omissible(
    table({
      certificateFile: pemFile('the certificate of the server and its chain'),
      ...tlsKey,
      clientCaFile: omissible(pemFile('the authorities that certify clients')),
      clientCrlFile: omissible(pemFile('the revocation lists of those authorities')),
      clientCertificateRequired: flag('whether a client needs a certificate to connect').prefault(true),
    }),
  ),
  publicUrl: omissible(publicUrl, 'that of the first address of listen'),
  headerTimeoutMs: duration('time limit for request headers', '1s', '5m').prefault('10s'),
  bodyIdleTimeoutMs: duration('maximum pause in an upload', '1s', '10m').prefault('30s'),
  bodyBytesPerSecondMin: spelled(
    'body_rate_min',
    size('minimum rate of an upload, per second', '0B', '1GiB').prefault('1KiB'),
  ),
  connectionsMax: wholeNumber('maximum number of open connections', 16, 65_536).prefault(8_192),
  connectionsPerAddressMax: wholeNumber('maximum number of open connections per address', 1, 65_536).prefault(
    1_024,
  ),
  uploadsMax: wholeNumber('maximum number of concurrent uploads', 1, 65_536).prefault(1024),
  uploadsPerClientMax: wholeNumber('maximum number of concurrent uploads per client', 1, 65_536).prefault(
    512,
  ),
  batchesMax: wholeNumber('maximum number of concurrent batches', 1, 1_024).prefault(16),
  downloadsMax: wholeNumber('maximum number of concurrent downloads of copies', 1, 65_536).prefault(64),
});
