/** What is left on a real terminal, and what Ctrl-C says. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { truncateSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import t from 'tap';
import { ENVIRONMENT } from '../support/daemon.ts';
import { programFile } from '../support/programs.ts';
import { makeFixtures } from '../support/receipts.ts';

const CLI = await programFile('cli', 'src');
const [good] = await makeFixtures();
if (good === undefined) throw new Error('no receipt');
const { document, receipt, trust } = good;
/** Its hashing takes longer than any test, and its place on the disk is nothing. */
const ENDLESS_BYTES = 2 ** 42;

/** The lines that are left on a terminal that was sent this. */
function screenAfter(sent: string): string[] {
  const lines = [''];
  let [row, column] = [0, 0];
  const pieces = sent.matchAll(/\p{Cc}\[(\d*)([A-Za-z])|\p{Cc}\[\?\d+[hl]|\p{Cc}[78](?!\d)|[\s\S]/gu);
  for (const [piece, count = '', command] of pieces) {
    const line = lines[row] ?? '';
    if (command === 'G') column = Number(count || 1) - 1;
    else if (command === 'K') lines[row] = count === '2' ? '' : line.slice(0, column);
    else if (piece === '\r') column = 0;
    else if (piece === '\n') {
      row += 1;
      lines[row] ??= '';
    } else if (!piece.startsWith('\u001b')) {
      lines[row] = line.slice(0, column).padEnd(column) + piece + line.slice(column + 1);
      column += 1;
    }
  }
  return lines.map((line) => line.trimEnd()).filter((line) => line !== '');
}

/** What a child said, and how it ended. */
async function endOf(child: ChildProcess) {
  let [stdout, stderr] = ['', ''];
  child.stdout?.setEncoding('utf8').on('data', (text: string) => {
    stdout += text;
  });
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
  });
  const [status, signal] = (await once(child, 'close')) as [number | null, NodeJS.Signals | null];
  return { status, signal, stdout, stderr };
}

t.test('a progress bar leaves only the results on the terminal', async (t) => {
  const names = Array.from({ length: 40 }, (_, n) => `${n + 10}.pdf`);
  const dir = t.testdir({
    'trust.json': trust,
    archive: Object.fromEntries(
      names.flatMap((name) => [
        [name, document],
        [`${name}.receipt.json`, receipt],
      ]),
    ),
  });
  const command = `${process.execPath} ${CLI} verify archive --trust trust.json`;
  const child = spawn('script', ['-qec', command, '/dev/null'], {
    cwd: dir,
    env: { ...ENVIRONMENT, TERM: 'xterm' },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const { status, stdout } = await endOf(child);
  t.equal(status, 0, stdout);
  t.match(stdout, /documents \[/, 'there was a bar');
  const screen = screenAfter(stdout);
  t.strictSame(
    screen.slice(0, 40).map((line) => /^good +archive\/(\S+) +Sealed on.*since\.$/.exec(line)?.[1]),
    names,
  );
  t.match(screen.slice(40), [/^The trust file/, '40 good, 0 bad, 0 could not tell']);
  t.equal(screen.length, 42);
});

t.test('Ctrl-C says what was done, and ends the command by its signal', async (t) => {
  const dir = t.testdir({
    'trust.json': trust,
    archive: { 'a.pdf': document, 'a.pdf.receipt.json': receipt, 'b.pdf': '', 'b.pdf.receipt.json': receipt },
    inbox: { 'a.pdf': document, 'a.pdf.receipt.json': receipt, 'b.pdf': '%PDF-1.4', 'c.pdf': '%PDF-1.4 %' },
  });
  truncateSync(join(dir, 'archive/b.pdf'), ENDLESS_BYTES);
  const run = (...args: string[]) =>
    spawn(process.execPath, [CLI, ...args], {
      cwd: dir,
      env: { ...ENVIRONMENT, PDFSEAL_API_KEY: 'key' },
      stdio: ['ignore', 'pipe', 'pipe'],
    });

  const verifying = run('verify', 'archive', '--trust', 'trust.json');
  verifying.stdout?.once('data', () => verifying.kill('SIGINT'));
  t.match(await endOf(verifying), {
    signal: 'SIGINT',
    stdout: /^good +archive\/a\.pdf/,
    stderr: /^interrupted: 1 of 2 verified: 1 good, 0 bad, 0 could not tell\n$/,
  });

  const silent = createServer(() => submitting.kill('SIGINT')).listen(0, '127.0.0.1');
  t.teardown(() => {
    silent.closeAllConnections();
    silent.close();
  });
  await once(silent, 'listening');
  const url = `http://127.0.0.1:${(silent.address() as AddressInfo).port}`;
  const submitting: ChildProcess = run(
    'submit',
    'inbox',
    '--url',
    url,
    '--visibility',
    'private',
    '--parallel',
    '1',
  );
  t.match(await endOf(submitting), {
    signal: 'SIGINT',
    stderr:
      /interrupted: 0 sealed, 1 already had a receipt, 0 failed, 2 left; run the command again to continue\n$/,
  });
});
