import { copyFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { freePort } from './support/freePort.ts';
import { makePdf } from './support/pdf.ts';
import { openSandbox, type Sandbox } from './support/sandbox.ts';

/**
 * `npm run quickstart [-- [--once] [document.pdf]]`: a throw-away pdfseald, one sealed document, its verified receipt, a PDF that carries it, and
 * the commands to do the same by hand. Everything it makes goes when it ends.
 */
async function quickstart(): Promise<void> {
  const { values, positionals } = parseArgs({
    options: { once: { type: 'boolean' } },
    allowPositionals: true,
  });
  const interrupted = new Promise<void>((interrupt) => {
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => interrupt());
  });
  const sandbox = await openSandbox({
    code: 'dist',
    stamped: true,
    fresh: true,
    tables: { pdf: 'attach = true' },
    tail: `[console]\nlisten = "127.0.0.1:${await freePort()}"\n`,
  });
  try {
    say('A sandbox: a SoftHSM token with a log key, an empty log, a config file', sandbox.configFile);
    await sandbox.start();
    const apiKey = await sandbox.issueKey();
    say('pdfseald, and an API key for it', `${sandbox.url}  ${apiKey}`);
    const document = await seal(sandbox, apiKey, positionals[0]);
    await verify(sandbox, document);
    await verifySealed(sandbox, document);
    if (values.once) return;
    tellHow(sandbox, apiKey);
    await tellWhere(sandbox, document);
    say('Ctrl-C stops pdfseald and removes all of this', '');
    await interrupted;
  } finally {
    await sandbox.close();
  }
}

/** Works on a copy: the receipt of a sandbox is no company for a document that stays. */
async function seal(sandbox: Sandbox, apiKey: string, given: string | undefined): Promise<string> {
  const document = join(sandbox.dir, given === undefined ? 'hello.pdf' : basename(given));
  if (given === undefined) writeFileSync(document, await makePdf(`Sealed at ${new Date().toISOString()}`));
  else copyFileSync(resolve(process.env.INIT_CWD ?? '.', given), document);
  const submit = (...more: string[]) => {
    const options = ['--url', sandbox.url, '--visibility', 'private', '--customer-reference', 'quickstart'];
    return sandbox.pdfseal(['submit', document, ...options, ...more], { env: { PDFSEAL_API_KEY: apiKey } });
  };
  let { status, stderr } = await submit('--sealed-pdf');
  if (stderr.includes('pdf_not_sealable')) {
    say('This document cannot carry its receipt, so it gets a receipt alone', stderr.trimEnd());
    ({ status, stderr } = await submit());
  }
  if (status !== 0) throw new Error(`pdfseal submit ended with ${status}: ${stderr}`);
  say(`The receipt of ${basename(document)}`, readFileSync(receiptOf(document), 'utf8').trimEnd());
  return document;
}

async function verify(sandbox: Sandbox, document: string): Promise<void> {
  const args = ['verify', document, receiptOf(document), '--trust', sandbox.trustFile];
  const { status, stdout, stderr } = await sandbox.pdfseal(args);
  say(
    'Verified without pdfseald: document, receipt and trust file are enough',
    `${stdout}${stderr}`.trimEnd(),
  );
  if (status !== 0) throw new Error(`pdfseal verify ended with ${status}`);
}

async function verifySealed(sandbox: Sandbox, document: string): Promise<void> {
  const sealed = `${document}.sealed.pdf`;
  if (!existsSync(sealed)) return;
  const args = ['verify', sealed, '--trust', sandbox.trustFile];
  const { status, stdout, stderr } = await sandbox.pdfseal(args);
  say(
    'The document with its receipt inside, which viewers such as okular and evince list as an attachment, pdfseal-receipt.json',
    `${sealed}\nnpx pdfseal ${args.join(' ')}\n${stdout.split('\n')[0]}\n…${stderr}\n${stdout.trimEnd().split('\n').at(-1)}`,
  );
  if (status !== 0) throw new Error(`pdfseal verify ended with ${status}`);
}

function tellHow(sandbox: Sandbox, apiKey: string): void {
  say(
    'Now a document of yours, in another terminal, in this folder',
    `KEY=${apiKey}
curl -sS ${sandbox.url}/v1/jobs/seal -H "Authorization: Bearer $KEY" \\
     -F visibility=private -F mode=blocking -F file=@my.pdf | tee job.json
curl -sS $(sed -E 's/.*"receipt_url":"([^"]+)".*/\\1/' job.json) -H "Authorization: Bearer $KEY" -o my.pdf.receipt.json
npx pdfseal verify my.pdf my.pdf.receipt.json --trust ${sandbox.trustFile}`,
  );
}

/** What a browser opens; the link of the console works once, within five minutes. */
async function tellWhere(sandbox: Sandbox, document: string): Promise<void> {
  const person = ['--as', 'you', '--role', 'administrator', '--config', sandbox.configFile];
  const login = ['console', 'login', ...person];
  const { status, stdout, stderr } = await sandbox.pdfseal(login);
  if (status !== 0) throw new Error(`pdfseal console login ended with ${status}: ${stderr}`);
  const sealed = `${document}.sealed.pdf`;
  const files = [document, receiptOf(document), sandbox.trustFile];
  say(
    'In a browser',
    [
      `the console:      ${stdout.trim()}`,
      `the verify page:  ${new URL('../dist/verify.html', import.meta.url)}`,
      ...files.map((file, n) => `${n === 0 ? 'drop on it:       ' : ' '.repeat(18)}${file}`),
      ...(existsSync(sealed) ? [`the sealed PDF:   ${sealed}`] : []),
    ].join('\n'),
  );
  say('Another link into the console', `npx pdfseal ${login.join(' ')}`);
}

function say(what: string, details: string): void {
  const indented = details.replaceAll(/^(?=.)/gm, '  ');
  process.stdout.write(`\n${what}\n${indented}\n`);
}

function receiptOf(document: string): string {
  return `${document}.receipt.json`;
}

try {
  await quickstart();
} catch (error) {
  process.stderr.write(`quickstart: ${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
}
