import { X509Certificate } from 'node:crypto';
import { createSecureContext } from 'node:tls';
import { InvalidArgumentError } from 'commander';
import { fromEnvironment } from '../../base/env.ts';
import { OperatorError } from '../../base/errors.ts';
import { type Given, option } from '../command.ts';
import { readTextFile } from '../files.ts';
import { note } from '../terminal.ts';
import type { Reach } from './apiClient.ts';

/** More than any key or certificate file has. */
const FILE_BYTES_MAX = 16 << 20;

export const REACH_OPTIONS = [
  option('--url <url>', 'URL of pdfseald, such as https://seal.example.com', {
    parse: parseUrl,
    required: true,
    variable: 'PDFSEAL_URL',
  }),
  option(
    '--key-file <file>',
    'file with the API key (default: the environment variable PDFSEAL_API_KEY; with --tls-certificate, none is needed if the certificate stands for the client)',
  ),
  option(
    '--tls-ca <file>',
    'PEM file with the authorities of the server certificate (default: those of Node.js)',
  ),
  option('--tls-certificate <file>', 'PEM file with a client certificate, if the server asks for one'),
  option('--tls-key <file>', 'PEM file with the key of the client certificate'),
  option('--unix-socket <path>', 'connect to this socket on the same machine'),
] as const;

export type ReachOptions = Given<typeof REACH_OPTIONS>;

export function reachMisuse({ tlsCertificate, tlsKey }: ReachOptions): string | undefined {
  const isHalf = (tlsCertificate === undefined) !== (tlsKey === undefined);
  return isHalf ? '--tls-certificate and --tls-key need each other' : undefined;
}

/** Reads the files of the options. Throws OperatorError. */
export function reachOf({ tlsCa, tlsCertificate, tlsKey, unixSocket }: ReachOptions): Reach {
  const read = (file: string) => readTextFile(file, FILE_BYTES_MAX);
  const secrets = {
    ...(tlsCa !== undefined && { ca: read(tlsCa) }),
    ...(tlsCertificate !== undefined && { cert: read(tlsCertificate) }),
    ...(tlsKey !== undefined && { key: read(tlsKey) }),
  };
  try {
    // OpenSSL accepts a file without a certificate, and then trusts no authority.
    if (secrets.ca !== undefined) new X509Certificate(secrets.ca);
    createSecureContext(secrets);
  } catch (cause) {
    const files = [tlsCa, tlsCertificate, tlsKey].filter((file) => file !== undefined).join(', ');
    const message = `TLS cannot use ${files} (${(cause as Error).message})`;
    const remedy = 'name PEM files: the authorities, a certificate, and the key of that certificate';
    throw new OperatorError(message, { cause, remedy });
  }
  return { ...secrets, socketPath: unixSocket };
}

/** Returns the API key. Undefined only if there is a client certificate, which can stand for the client. */
export function readApiKey(options: ReachOptions): string | undefined {
  const apiKey = readOptionalApiKey(options);
  if (apiKey === undefined && options.tlsCertificate === undefined)
    throw new OperatorError('no API key: name a file with --key-file, or set PDFSEAL_API_KEY');
  return apiKey;
}

/** Never reads it from the command line, which every user of the machine can see. Undefined if none is given. */
export function readOptionalApiKey({ keyFile, tlsCertificate }: ReachOptions): string | undefined {
  const apiKey =
    keyFile === undefined ? fromEnvironment('PDFSEAL_API_KEY') : readTextFile(keyFile, FILE_BYTES_MAX).trim();
  if (apiKey === undefined) return undefined;
  // The error about an invalid header value would show the key.
  if (!/^[\x21-\x7e]+$/.test(apiKey))
    throw new OperatorError('the API key must be one line of visible ASCII characters');
  // A key decides who the caller is, even if the certificate stands for another client.
  if (keyFile === undefined && tlsCertificate !== undefined)
    note('with the API key of PDFSEAL_API_KEY: unset it if the certificate alone stands for the client');
  return apiKey;
}

/** Reads an argument. Throws InvalidArgumentError. */
export function parseUrl(text: string): URL {
  const url = URL.parse(text);
  if (url && /^https?:$/.test(url.protocol)) return url;
  throw new InvalidArgumentError('Expected an http or https URL.');
}
