import { setTimeout as sleep } from 'node:timers/promises';
import { Command, InvalidArgumentError, Option } from 'commander';
import { systemClock } from '../../base/clock.ts';
import { OperatorError } from '../../base/errors.ts';
import { loadConfig } from '../../config/config.ts';
import { EXIT } from '../exit.ts';
import { explain } from '../help.ts';
import { configOption, jsonOption, parseWaitArgument } from '../options.ts';
import { commandFailure, report } from '../report.ts';
import { printJson } from '../terminal.ts';
import { loadedOtherwise } from './configCommand.ts';
import { readStatus } from './status/reach.ts';
import { ENDLESS, type Look, render } from './status/render.ts';
import { Screen } from './status/screen.ts';

const WATCH_MS = 2_000;
const WATCH_MS_MIN = 200;

export function statusCommand(): Command {
  return explain(
    new Command('status')
      .description(
        'Shows how the running daemon is: its parts, partitions, queue, log, certificates and chores, on one screen, and what to do ' +
          'about what is not well. Give --config again for another environment: then each has a line, and below it what is not well.',
      )
      .addOption(configOption().argParser((file: string, files: string[] = []) => [...files, file]))
      .addOption(
        new Option(
          '--watch [interval]',
          'again and again, until q or Ctrl-C (every 2s if no interval is given)',
        ).argParser(parseInterval),
      )
      .addOption(jsonOption())
      .action(showStatus),
    {
      exit: { 0: 'ready', 1: 'not ready, or no daemon answers; with --watch, when it was last looked at' },
      examples: [
        'pdfseal status --config /etc/pdfseal/production.toml',
        'pdfseal status --config /etc/pdfseal/production.toml --config /etc/pdfseal/sandbox.toml --watch 5s',
        'pdfseal status --config /etc/pdfseal/production.toml --json | jq .queue',
      ],
    },
  );
}

interface StatusOptions {
  config: string[];
  /** Milliseconds, or true for the default. */
  watch?: number | true;
  json?: true;
}

async function showStatus({ config: files, watch, json }: StatusOptions): Promise<void> {
  const intervalMs = watch === true ? WATCH_MS : watch;
  if (intervalMs === undefined) await showOnce(files, json);
  else if (process.stdout.isTTY && !json) await watchOnScreen(files, intervalMs);
  else {
    for (;;) {
      await showOnce(files, json);
      await sleep(intervalMs);
    }
  }
}

async function showOnce(files: readonly string[], json: true | undefined): Promise<void> {
  const looks = await lookAt(files);
  const [only] = looks;
  if (looks.length === 1 && only && 'error' in only) process.exitCode = report(only.error);
  else if (json) for (const look of looks) printJson(present(look));
  else {
    const { columns = ENDLESS.columns } = process.stdout;
    for (const line of render(looks, { ...ENDLESS, columns }, systemClock()))
      process.stdout.write(`${line}\n`);
  }
}

async function watchOnScreen(files: readonly string[], intervalMs: number): Promise<void> {
  let looks = await lookAt(files);
  using screen = new Screen((room) => render(looks, room, systemClock()));
  while (!screen.closed.aborted) {
    screen.redraw();
    await sleep(intervalMs, undefined, { signal: screen.closed }).catch(() => {});
    if (!screen.closed.aborted) looks = await lookAt(files);
  }
}

async function lookAt(files: readonly string[]): Promise<(Look & { error?: unknown })[]> {
  const looks = await Promise.all(files.map(lookAtOne));
  const isReady = looks.every((look) => 'status' in look && look.status.ready);
  process.exitCode = isReady ? EXIT.ok : EXIT.failed;
  return looks;
}

async function lookAtOne(file: string): Promise<Look & { error?: unknown }> {
  try {
    const config = loadConfig(file, { files: 'unused' });
    const status = await readStatus(config);
    return { file, status, trouble: loadedOtherwise(status.config, config.sha256) };
  } catch (error) {
    if (!(error instanceof OperatorError)) throw error;
    return { file, failure: commandFailure(error), error };
  }
}

function present(look: Look): object {
  return 'status' in look ? look.status : { ready: false, config: { file: look.file }, error: look.failure };
}

function parseInterval(text: string): number {
  const intervalMs = parseWaitArgument(text);
  if (intervalMs >= WATCH_MS_MIN) return intervalMs;
  throw new InvalidArgumentError(`Expected ${WATCH_MS_MIN}ms at least.`);
}
