import { basename } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { Command, InvalidArgumentError, Option } from 'commander';
import { apiKeyFromEnvironment } from '../base/env.ts';
import { OperatorError } from '../base/errors.ts';
import { IDEMPOTENCY_KEY_PATTERN } from '../job/fields.ts';
import { type DocumentDigests, JOB_MODES, type JobMode, VISIBILITIES, type Visibility } from '../job/job.ts';
import { ApiClient } from './apiClient.ts';
import {
  createFileAtomically,
  digestFile,
  readTextFile,
  saveDocument,
  writeFileAtomically,
} from './files.ts';
import { jsonOption, parseDurationArgument } from './options.ts';
import { Refused, submitDocument } from './submission.ts';
import { EXIT, note, print, printJson, showProgress } from './terminal.ts';

interface SubmitOptions {
  url: URL;
  keyFile?: string;
  visibility: Visibility;
  purpose?: string;
  customerReference?: string;
  mode: JobMode;
  preserveMetadata?: true;
  strippedCopy?: true;
  idempotencyKey?: string;
  timeout: number;
  force?: true;
  json?: true;
}

const PATIENCE_MS_DEFAULT = 10 * 60_000;
/** More than any receipt or key file has. */
const FILE_BYTES_MAX = 16 << 20;

export function submitCommand(): Command {
  return new Command('submit')
    .description(
      'Seals documents: uploads each, waits for its receipt and stores that beside it, as <document>.receipt.json. What ' +
        'may pass (no connection, 429, 503) is tried again. Running it again for the same document and options gives ' +
        'the same job and receipt, for 48 hours.',
    )
    .argument('<document...>', 'PDF files')
    .requiredOption('--url <url>', 'where pdfseald is, such as https://seal.example.com', parseUrl)
    .option(
      '--key-file <file>',
      'file that holds the API key (default: environment variable PDFSEAL_API_KEY)',
    )
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
      '--idempotency-key <key>',
      'for one document: instead of the key derived from document and options',
      parseIdempotencyKey,
    )
    .addOption(
      new Option('--timeout <duration>', 'how long to try and wait for each document')
        .argParser(parseDurationArgument)
        .default(PATIENCE_MS_DEFAULT, '10m'),
    )
    .option('--force', 'replace an existing, different receipt file')
    .addOption(jsonOption())
    .addHelpText(
      'after',
      `
Examples:
  PDFSEAL_API_KEY=$(cat seal.key) pdfseal submit contract.pdf --url https://seal.example.com --visibility private
  pdfseal submit *.pdf --url http://127.0.0.1:8400 --key-file seal.key --visibility organization --json`,
    )
    .action(submit);
}

async function submit(documents: string[], options: SubmitOptions, command: Command): Promise<void> {
  if (options.idempotencyKey !== undefined && documents.length > 1) {
    command.error('error: --idempotency-key is for one document; leave it out to have one derived for each');
  }
  const client = new ApiClient(options.url, readApiKey(options.keyFile));
  for (const path of documents) {
    try {
      await submitOne(client, path, options);
    } catch (error) {
      if (!(error instanceof OperatorError)) throw error;
      process.exitCode = EXIT.failed;
      reportFailure(path, error, options.json);
    }
  }
}

async function submitOne(client: ApiClient, path: string, options: SubmitOptions): Promise<void> {
  const document = await digestFile(path);
  const progress = showProgress(basename(path), document.bytes, 'bytes');
  const copyPath = options.strippedCopy && `${path}.stripped.pdf`;
  try {
    const submitted = await submitDocument(path, document, {
      client,
      fields: fieldsOf(options),
      idempotencyKey: options.idempotencyKey,
      patienceMs: options.timeout,
      ...(copyPath && {
        saveCopy: (body, digests) => saveCopy(copyPath, body, digests, options.force ?? false),
      }),
      onSent: progress.update,
      onWait: (why, seconds) => {
        progress.stop();
        if (!options.json) note(`${path}: ${why} (again in ${Math.ceil(seconds)} s)`);
      },
    });
    progress.stop();
    const receiptPath = `${path}.receipt.json`;
    storeReceipt(receiptPath, submitted.receipt, submitted.jobId, options.force ?? false);
    const { jobId, replayed } = submitted;
    if (options.json) {
      printJson({
        document: path,
        job_id: jobId,
        phase: 'completed',
        document_sha256: document.sha256,
        receipt: receiptPath,
        ...(copyPath && { stripped_copy: copyPath }),
        replayed,
      });
    } else print(`${receiptPath}  ${jobId}${replayed ? '  (sealed before)' : ''}`);
  } finally {
    progress.stop();
  }
}

/** A file that is there already must be this very copy. */
async function saveCopy(
  path: string,
  body: AsyncIterable<Buffer>,
  digests: DocumentDigests,
  force: boolean,
): Promise<void> {
  if (await saveDocument(path, body, digests, force)) return;
  if (isDeepStrictEqual(await digestFile(path), digests)) return;
  throw new Refused('copy_exists', `${path} is another file; --force replaces it`);
}

function storeReceipt(path: string, receipt: string, jobId: string, force: boolean): void {
  if (force) writeFileAtomically(path, receipt);
  else if (!createFileAtomically(path, receipt) && readTextFile(path, FILE_BYTES_MAX) !== receipt) {
    throw new Refused(
      'receipt_exists',
      `${path} holds another receipt; the new one is that of ${jobId}, and --force replaces it`,
      jobId,
    );
  }
}

function reportFailure(path: string, error: OperatorError, json: true | undefined): void {
  const { code, jobId } = error instanceof Refused ? error : { code: 'failed', jobId: undefined };
  if (json) printJson({ document: path, job_id: jobId, error: { code, message: error.message } });
  else note(`pdfseal: ${path}: ${error instanceof Refused ? `${code}: ` : ''}${error.message}`);
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

function parseIdempotencyKey(text: string): string {
  if (IDEMPOTENCY_KEY_PATTERN.test(text)) return text;
  throw new InvalidArgumentError('Expected 8 to 128 visible ASCII characters.');
}
