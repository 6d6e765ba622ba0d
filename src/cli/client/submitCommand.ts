import { X509Certificate } from 'node:crypto';
import { createSecureContext } from 'node:tls';
import { Command, InvalidArgumentError, Option } from 'commander';
import { apiKeyFromEnvironment } from '../../base/env.ts';
import { OperatorError } from '../../base/errors.ts';
import { IDEMPOTENCY_KEY_PATTERN } from '../../job/id.ts';
import { JOB_MODES, type JobMode, VISIBILITIES, type Visibility } from '../../job/job.ts';
import { parseTrust } from '../../manifest/trustFile.ts';
import { EXIT } from '../exit.ts';
import { readTextFile } from '../files.ts';
import { explain } from '../help.ts';
import { jsonOption, parseCountArgument, parseDigestArgument, parseWaitArgument } from '../options.ts';
import { ApiClient, type Reach } from './apiClient.ts';
import { Submitter } from './submitter.ts';
import { findDocuments, hostedDocuments } from './worklist.ts';

interface SubmitOptions {
  url: URL;
  keyFile?: string;
  tlsCa?: string;
  tlsCertificate?: string;
  tlsKey?: string;
  unixSocket?: string;
  visibility: Visibility;
  purpose?: string;
  customerReference?: string;
  mode: JobMode;
  preserveMetadata?: true;
  strippedCopy?: true;
  idempotencyKey?: string;
  digestOnly?: true;
  sourceUrl?: string[];
  checksum?: string[];
  parallel?: number;
  trust?: string;
  timeout: number;
  force?: true;
  json?: true;
}

const PARALLEL_IN_FOLDERS = 4;
const PARALLEL_MAX = 64;
const PATIENCE_MS_DEFAULT = 10 * 60_000;
/** More than any receipt or key file has. */
const FILE_BYTES_MAX = 16 << 20;

export function submitCommand(): Command {
  return explain(
    new Command('submit')
      .description(
        'Seals documents: uploads each, waits for its receipt and stores that beside it, as <document>.receipt.json. What ' +
          'may pass (no connection, 429, 503) is tried again. Running it again for the same document and options gives ' +
          'the same job and receipt, for 48 hours. Of a folder every *.pdf below it is sealed that has no receipt yet: ' +
          'after an interrupt, run it again.',
      )
      .argument('[document...]', 'PDF files and folders')
      .requiredOption('--url <url>', 'where pdfseald is, such as https://seal.example.com', parseUrl)
      .option(
        '--key-file <file>',
        'file that holds the API key (default: environment variable PDFSEAL_API_KEY)',
      )
      .option('--tls-ca <file>', 'PEM file with the authorities of its certificate (default: those of Node)')
      .option('--tls-certificate <file>', 'PEM file with a client certificate, where it asks for one')
      .option('--tls-key <file>', 'PEM file with the key of that certificate')
      .option('--unix-socket <path>', 'reach it by this socket on the same machine')
      .addOption(
        new Option('--visibility <name>', 'who may see the jobs').choices(VISIBILITIES).makeOptionMandatory(),
      )
      .option('--purpose <text>', 'label for quotas, analytics and support')
      .option('--customer-reference <text>', 'your own reference, returned in the receipts verbatim')
      .addOption(
        new Option('--mode <name>', 'blocking: wait on the connection; async: poll')
          .choices(JOB_MODES)
          .default('blocking'),
      )
      .option('--preserve-metadata', 'keep XMP metadata (only matters where compliance mode is on)')
      .option(
        '--stripped-copy',
        'also store the copy without XMP metadata, as <document>.stripped.pdf (compliance mode)',
      )
      .option(
        '--digest-only',
        'send the digests of the documents, never the documents; they are not scanned then',
      )
      .option(
        '--source-url <url>',
        'where the service is to fetch the document; once for each document, in the same order',
        parseSourceUrls,
      )
      .addOption(
        new Option(
          '--checksum <sha256>',
          'for a --source-url whose document is not at hand; once for each',
        ).argParser((text, previous?: string[]) => collect(parseDigestArgument(text), previous)),
      )
      .option(
        '--parallel <count>',
        `documents sent at the same time (default: ${PARALLEL_IN_FOLDERS} with folders, else 1)`,
        parseParallel,
      )
      .option(
        '--trust <file>',
        'for folders: a receipt that is there counts only if it verifies with this trust file',
      )
      .option(
        '--idempotency-key <key>',
        'for one document: instead of the key derived from document and options',
        parseIdempotencyKey,
      )
      .addOption(
        new Option('--timeout <duration>', 'how long to try and wait for each document')
          .argParser(parseWaitArgument)
          .default(PATIENCE_MS_DEFAULT, '10m'),
      )
      .option('--force', 'replace an existing, different receipt file')
      .addOption(jsonOption())
      .action(submit),
    {
      examples: [
        'PDFSEAL_API_KEY=$(cat seal.key) pdfseal submit contract.pdf --url https://seal.example.com --visibility private',
        'pdfseal submit *.pdf --url http://127.0.0.1:8400 --key-file seal.key --visibility organization --json',
        'pdfseal submit archive/ --digest-only --url http://127.0.0.1:8400 --key-file seal.key --visibility private',
        'pdfseal submit a.pdf --source-url https://files.example.com/a.pdf --url … --key-file seal.key --visibility private',
      ],
    },
  );
}

async function submit(documents: string[], options: SubmitOptions, command: Command): Promise<void> {
  const misused = misuse(documents, options);
  if (misused !== undefined) command.error(`error: ${misused}`);
  const { sourceUrl: urls, trust, parallel, timeout: patienceMs } = options;
  const works =
    urls === undefined ? findDocuments(documents) : hostedDocuments(urls, documents, options.checksum ?? []);
  const isFolder = works.some(({ found }) => found) || works.length === 0;
  const submitter = new Submitter({
    client: new ApiClient(options.url, readApiKey(options.keyFile), reachOf(options)),
    fields: fieldsOf(options),
    patienceMs,
    idempotencyKey: options.idempotencyKey,
    digestOnly: options.digestOnly ?? false,
    parallel: parallel ?? (isFolder ? PARALLEL_IN_FOLDERS : 1),
    counted: isFolder,
    trust: trust === undefined ? undefined : parseTrust(readTextFile(trust, FILE_BYTES_MAX)),
    strippedCopy: options.strippedCopy ?? false,
    force: options.force ?? false,
    json: options.json ?? false,
  });
  const { failed } = await submitter.run(works);
  if (failed > 0) process.exitCode = EXIT.failed;
}

function reachOf({ tlsCa, tlsCertificate, tlsKey, unixSocket }: SubmitOptions): Reach {
  const read = (file: string) => readTextFile(file, FILE_BYTES_MAX);
  const secrets = {
    ...(tlsCa !== undefined && { ca: read(tlsCa) }),
    ...(tlsCertificate !== undefined && { cert: read(tlsCertificate) }),
    ...(tlsKey !== undefined && { key: read(tlsKey) }),
  };
  try {
    // Of a file without a certificate OpenSSL makes an authority that nobody has.
    if (secrets.ca !== undefined) new X509Certificate(secrets.ca);
    createSecureContext(secrets);
  } catch (cause) {
    const files = [tlsCa, tlsCertificate, tlsKey].filter((file) => file !== undefined).join(', ');
    const message = `TLS cannot use ${files} (${(cause as Error).message})`;
    const remedy = 'name files in PEM: authorities, a certificate, and the key of that certificate';
    throw new OperatorError(message, { cause, remedy });
  }
  return { ...secrets, ...(unixSocket !== undefined && { socketPath: unixSocket }) };
}

/** What is wrong with the options taken together. */
function misuse(documents: string[], options: SubmitOptions): string | undefined {
  const { sourceUrl: urls, checksum: checksums = [], digestOnly, idempotencyKey } = options;
  if (urls === undefined) {
    if (documents.length === 0) return "missing required argument 'document'";
    if (checksums.length > 0) return '--checksum is for --source-url';
  } else {
    if (digestOnly)
      return '--digest-only and --source-url exclude each other: the one keeps the document here';
    const count = documents.length > 0 ? documents.length : checksums.length;
    if (count !== urls.length || (documents.length > 0 && checksums.length > 0))
      return 'each --source-url needs a copy of its document at hand, or its --checksum, in the same order';
  }
  if ((options.tlsCertificate === undefined) !== (options.tlsKey === undefined))
    return '--tls-certificate and --tls-key need each other';
  const unfit = digestOnly && (options.strippedCopy || options.preserveMetadata);
  if (unfit) return '--digest-only sends no document: there is no metadata to be kept or removed';
  if (idempotencyKey !== undefined && (urls ?? documents).length > 1)
    return '--idempotency-key is for one document; leave it out to have one derived for each';
  return undefined;
}

function fieldsOf({ visibility, purpose, customerReference, mode, preserveMetadata }: SubmitOptions) {
  return {
    visibility,
    mode,
    ...(purpose !== undefined && { purpose }),
    ...(customerReference !== undefined && { customer_reference: customerReference }),
    ...(preserveMetadata && { preserve_metadata: 'true' }),
  };
}

/** Never from the command line, which every user of the machine can read. */
function readApiKey(keyFile: string | undefined): string {
  const apiKey =
    keyFile === undefined ? apiKeyFromEnvironment() : readTextFile(keyFile, FILE_BYTES_MAX).trim();
  if (apiKey === undefined) {
    throw new OperatorError('no API key: name a file with --key-file, or set PDFSEAL_API_KEY');
  }
  // What is no header value must not reach the header: the error would show it.
  if (!/^[\x21-\x7e]+$/.test(apiKey))
    throw new OperatorError('the API key is not one line of visible ASCII characters');
  return apiKey;
}

function parseUrl(text: string): URL {
  const url = URL.parse(text);
  if (url && /^https?:$/.test(url.protocol)) return url;
  throw new InvalidArgumentError('Expected an http or https URL.');
}

function parseParallel(text: string): number {
  const count = parseCountArgument(text);
  if (count <= PARALLEL_MAX) return count;
  throw new InvalidArgumentError(`Expected ${PARALLEL_MAX} at most.`);
}

/** As they were given: a signature may be over every character. */
function parseSourceUrls(text: string, previous?: string[]): string[] {
  parseUrl(text);
  return collect(text, previous);
}

function collect(text: string, previous: string[] = []): string[] {
  return [...previous, text];
}

function parseIdempotencyKey(text: string): string {
  if (IDEMPOTENCY_KEY_PATTERN.test(text)) return text;
  throw new InvalidArgumentError('Expected 8 to 128 visible ASCII characters.');
}
