import { InvalidArgumentError } from 'commander';
import { ownProcess } from '../../base/env.ts';
import { IDEMPOTENCY_KEY_PATTERN } from '../../job/id.ts';
import { JOB_MODES, VISIBILITIES } from '../../job/job.ts';
import { parseTrust } from '../../manifest/trustFile.ts';
import { argument, command, type Given, option } from '../command.ts';
import { EXIT } from '../exit.ts';
import { readTextFile } from '../files.ts';
import { parseCountArgument, parseDigestArgument, parseWaitArgument } from '../options.ts';
import { ApiClient } from './apiClient.ts';
import { parseUrl, REACH_OPTIONS, reachMisuse, reachOf, readApiKey } from './reachOptions.ts';
import { Submitter } from './submitter.ts';
import { findDocuments, hostedDocuments } from './worklist.ts';

const PARALLEL_IN_FOLDERS = 4;
const PARALLEL_MAX = 64;
const PATIENCE_MS_DEFAULT = 10 * 60_000;
/** More than any receipt or key file has. */
const FILE_BYTES_MAX = 16 << 20;

const SUBMIT_OPTIONS = [
  ...REACH_OPTIONS,
  option('--visibility <name>', 'who may see the jobs', { choices: VISIBILITIES, required: true }),
  option('--purpose <text>', 'label for quotas, statistics and support'),
  option('--customer-reference <text>', 'your own reference; the receipt contains it unchanged'),
  option('--mode <name>', 'blocking: the server answers when the job ends; async: the command polls', {
    choices: JOB_MODES,
    default: 'blocking',
  }),
  option('--preserve-metadata', 'keep XMP metadata (matters only in compliance mode)'),
  option(
    '--stripped-copy',
    'also save the copy without XMP metadata, as <document>.stripped.pdf (compliance mode)',
  ),
  option(
    '--sealed-pdf',
    'also save the document with its receipt as an attached file, as <document>.sealed.pdf',
  ),
  option(
    '--digest-only',
    'send only the digests of the documents; the service then does not scan the documents',
  ),
  option(
    '--source-url <url>',
    'URL from which the service fetches the document; once for each document, in the same order',
    parseSourceUrls,
  ),
  option(
    '--checksum <sha256>',
    'SHA-256 of the document of a --source-url, if you have no local copy; once for each',
    (text: string, previous?: string[]) => collect(parseDigestArgument(text), previous),
  ),
  option(
    '--parallel <count>',
    `documents sent at the same time (default: ${PARALLEL_IN_FOLDERS} with folders, else 1)`,
    parseParallel,
  ),
  option('--trust <file>', 'for folders: skip a document only if its receipt verifies with this trust file'),
  option(
    '--idempotency-key <key>',
    'for one document: use this key instead of one derived from document and options',
    parseIdempotencyKey,
  ),
  option('--timeout <duration>', 'how long to try and wait for each document', {
    parse: parseWaitArgument,
    default: PATIENCE_MS_DEFAULT,
    shown: '10m',
  }),
  option('--force', 'replace an existing, different receipt file'),
] as const;

type SubmitOptions = Given<typeof SUBMIT_OPTIONS>;

export const submitCommand = command('submit', {
  description:
    'Seals documents: uploads each document, waits for its receipt, and saves the receipt beside it as <document>.receipt.json. ' +
    'Temporary errors (no connection, 429, 503) are tried again. If you run the command again within 48 hours for the same ' +
    'document and options, you get the same job and receipt. For a folder, the command seals every *.pdf below it that has no ' +
    'receipt yet; after an interruption, run it again.',
  arguments: [argument('[document...]', 'PDF files and folders')],
  options: SUBMIT_OPTIONS,
  examples: [
    'PDFSEAL_API_KEY=$(cat seal.key) pdfseal submit contract.pdf --url https://seal.example.com --visibility private',
    'pdfseal submit *.pdf --url http://127.0.0.1:8400 --key-file seal.key --visibility organization --json',
    'pdfseal submit archive/ --digest-only --url http://127.0.0.1:8400 --key-file seal.key --visibility private',
    'pdfseal submit a.pdf --source-url https://files.example.com/a.pdf --url … --key-file seal.key --visibility private',
  ],
  misuse: (options, documents) => reachMisuse(options) ?? misuse(documents, options),
  async run(options, documents) {
    const { sourceUrl: urls, trust, parallel, timeout: patienceMs } = options;
    const works =
      urls === undefined
        ? findDocuments(documents)
        : hostedDocuments(urls, documents, options.checksum ?? []);
    const isFolder = works.some(({ found }) => found) || works.length === 0;
    const submitter = new Submitter({
      client: new ApiClient(options.url, readApiKey(options), reachOf(options)),
      fields: fieldsOf(options),
      patienceMs,
      idempotencyKey: options.idempotencyKey,
      digestOnly: options.digestOnly ?? false,
      parallel: parallel ?? (isFolder ? PARALLEL_IN_FOLDERS : 1),
      counted: isFolder,
      trust: trust === undefined ? undefined : parseTrust(readTextFile(trust, FILE_BYTES_MAX)),
      strippedCopy: options.strippedCopy ?? false,
      sealedPdf: options.sealedPdf ?? false,
      force: options.force ?? false,
    });
    const { failed } = await submitter.run(works);
    if (failed > 0) ownProcess().exitCode = EXIT.failed;
  },
});

/** Describes a wrong combination of options. */
function misuse(documents: readonly string[], options: SubmitOptions): string | undefined {
  const { sourceUrl: urls, checksum: checksums = [], digestOnly, idempotencyKey } = options;
  if (urls === undefined) {
    if (documents.length === 0) return "missing required argument 'document'";
    if (checksums.length > 0) return '--checksum is for --source-url';
  } else {
    if (digestOnly)
      return '--digest-only and --source-url exclude each other: with --digest-only, the document stays here';
    const count = documents.length > 0 ? documents.length : checksums.length;
    if (count !== urls.length || (documents.length > 0 && checksums.length > 0))
      return 'each --source-url needs a local copy of its document or a --checksum, in the same order';
  }
  const unfit = digestOnly && (options.strippedCopy || options.preserveMetadata);
  if (unfit) return '--digest-only sends no document, so there is no metadata to keep or remove';
  if (digestOnly && options.sealedPdf)
    return '--digest-only sends no document, so the service cannot attach a receipt to it';
  if (idempotencyKey !== undefined && (urls ?? documents).length > 1)
    return '--idempotency-key is for one document; without it, each document gets a key of its own';
  return undefined;
}

function fieldsOf(options: SubmitOptions) {
  const { visibility, purpose, customerReference, mode, preserveMetadata, sealedPdf } = options;
  return {
    visibility,
    mode,
    ...(purpose !== undefined && { purpose }),
    ...(customerReference !== undefined && { customer_reference: customerReference }),
    ...(preserveMetadata && { preserve_metadata: 'true' }),
    ...(sealedPdf && { sealed_pdf: 'attach' }),
  };
}

function parseParallel(text: string): number {
  const count = parseCountArgument(text);
  if (count <= PARALLEL_MAX) return count;
  throw new InvalidArgumentError(`Expected at most ${PARALLEL_MAX}.`);
}

/** Returns the text as given: a signature in the URL may cover every character. */
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
