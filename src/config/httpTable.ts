/** The table `[http]` of the configuration: where the API listens, and what a connection may take. */
import {
  credential,
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
  wholeNumber,
} from './keys.ts';

export const httpTable = section({
  listen: listenAddresses.prefault('127.0.0.1:8400'),
  reusePort: flag('whether other daemons of this user may listen at the same address and port').prefault(
    false,
  ),
  clearTextBeyondLoopback: flag('whether other machines may speak to it without TLS').prefault(false),
  tls: omissible(
    table({
      certificateFile: pemFile('the certificate of the server, and those up to a root'),
      keyFile: omissible(pemFile('its private key'), 'what key_credential says'),
      keyCredential: omissible(
        credential('the private key', 'a PEM file, readable to this user'),
        'what key_file says',
      ),
      clientCaFile: omissible(pemFile('the authorities that certify clients')),
      clientCrlFile: omissible(pemFile('the revocation lists of those authorities')),
      clientCertificateRequired: flag('whether a client needs a certificate to connect').prefault(true),
    }),
  ),
  publicUrl: omissible(publicUrl, 'that of the first address of listen'),
  headerTimeoutMs: duration('how long request headers may take', '1s', '5m').prefault('10s'),
  bodyIdleTimeoutMs: duration('how long an upload may pause', '1s', '10m').prefault('30s'),
  bodyBytesPerSecondMin: spelled(
    'body_rate_min',
    size('what must arrive of an upload per second', '0B', '1GiB').prefault('1KiB'),
  ),
  connectionsMax: wholeNumber('open connections', 16, 65_536).prefault(8_192),
  connectionsPerAddressMax: wholeNumber('open connections of one address', 1, 65_536).prefault(1_024),
  uploadsMax: wholeNumber('uploads received at the same time', 1, 65_536).prefault(1024),
  uploadsPerClientMax: wholeNumber('uploads of one client at the same time', 1, 65_536).prefault(512),
  batchesMax: wholeNumber('batches received at the same time', 1, 1_024).prefault(16),
  downloadsMax: wholeNumber('copies of documents sent at the same time', 1, 65_536).prefault(64),
});
