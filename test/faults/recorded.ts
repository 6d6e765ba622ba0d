/**
 * What is recorded: the workload, administrators and the daemon, all below one strace. Called with a seed, a folder for the result, and
 * another `dist`. Leaves the folder of the site, as the tokens are needed by every image.
 */
import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { openSandbox } from '../support/sandbox.ts';
import { BEGIN, PROMISED } from './trace.ts';
import { SITE, Workload } from './workload.ts';

const STDERR = 2;
/** On a busy machine commands take long, and the trace of what is sent meanwhile would outgrow what Node reads in one piece. */
const TRIES_MAX = 300;

const [, , seed = '1', into = '', dist] = process.argv;
const closes: (() => void)[] = [];
const head = 'compliance_mode = true';
const sandbox = await openSandbox({
  ...SITE,
  head,
  tables: { ...SITE.tables, pdf: 'attach = true' },
  code: dist ? { dist } : 'dist',
});
const base = join(into, 'base');
mkdirSync(base);
execFileSync('cp', ['-a', `${sandbox.dir}/.`, base]);
writeSync(STDERR, BEGIN);
let daemon = await sandbox.start();
const workload = await Workload.open({ teardown: (close) => closes.push(close) }, sandbox, Number(seed), {
  attaches: true,
});
let isOver = false;
const isEnough = () => isOver || workload.history.tries.length >= TRIES_MAX;
const sending = workload.run(isEnough, { lanes: 3, pauseMs: 20 });
await command('trust', 'export', '--output', join(sandbox.dir, 'exported.json'));
await command('backup', '--output', join(sandbox.dir, 'backup'));
await sleep(500);
isOver = true;
await sending;
await daemon.stop();
await command('hsm', 'certify');
daemon = await sandbox.start();
await daemon.stop();
const { history } = workload;
writeFileSync(join(into, 'recorded.json'), JSON.stringify({ dir: sandbox.dir, port: sandbox.port, history }));
for (const close of closes) close();

/** Runs `pdfseal`. Once it ends well, what it made must survive. */
async function command(...args: string[]): Promise<void> {
  const { status } = await sandbox.pdfseal([...args, '--config', sandbox.configFile]);
  if (status === 0) writeSync(STDERR, `${PROMISED}${args[0]}\n`);
}
