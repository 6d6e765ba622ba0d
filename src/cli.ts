#!/usr/bin/env node
import './base/inspector.ts';
import { type Command, CommanderError } from 'commander';
import { ASK } from './cli/completion/scripts.ts';
import { EXIT } from './cli/exit.ts';
import { commandAt, withSubcommands } from './cli/help.ts';
import { programFor } from './cli/program.ts';
import { report } from './cli/report.ts';
import { isJson, note, speakJson } from './cli/terminal.ts';

const NODE_MAJOR_MIN = 24;

async function main(args: string[]): Promise<void> {
  exitOnBrokenPipe();
  if (isNodeTooOld()) return;
  if (args[0] === ASK) return answer(args.slice(1));
  if (args.includes('--json')) speakJson();
  try {
    await run(await programFor(args), args);
  } catch (error) {
    process.exitCode = report(error);
  }
}

/** What a shell asks while a command line is being typed, of which `words` are there. */
async function answer(words: string[]): Promise<void> {
  const { answerShell } = await import('./cli/completion/completionCommand.ts');
  answerShell(await programFor(words.slice(0, -1)), words);
}

async function run(program: Command, args: string[]): Promise<void> {
  const said: string[] = [];
  for (const command of withSubcommands(program)) {
    command.exitOverride().configureOutput({ writeErr: (text) => void said.push(text) });
  }
  const path = helpPath(args);
  if (path.length > 0) commandAt(program, path)?.help();
  try {
    await program.parseAsync(path.length > 0 ? path : args, { from: 'user' });
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    const complaint = isOfMissing(error) ? await mistyped(program, args, said, error) : error;
    if (!isJson()) process.stderr.write(said.join(''));
    throw complaint;
  }
}

/** The command whose help is asked for: `help keys issue`, or `keys issue --help`; where there is none, that is the fault to be told. */
function helpPath([first = '', ...others]: string[]): string[] {
  if (first === 'help') return others;
  const names = [first, ...others.slice(0, -1)];
  const isAsked = ['-h', '--help'].includes(others.at(-1) ?? '');
  return isAsked && names.every((name) => /^[a-z]/.test(name)) ? names : [];
}

function isOfMissing({ code }: CommanderError): boolean {
  return code === 'commander.missingMandatoryOptionValue';
}

/** Where an option is missing because its name is mistyped, commander only says the former: it is asked again without that. */
async function mistyped(
  program: Command,
  args: string[],
  said: string[],
  missing: CommanderError,
): Promise<unknown> {
  const before = said.splice(0);
  for (const command of withSubcommands(program)) {
    for (const option of command.options) option.mandatory = false;
    command.action(() => {
      said.splice(0, said.length, ...before);
      throw missing;
    });
  }
  return program.parseAsync(args, { from: 'user' }).catch((error: unknown) => error);
}

/** The shebang takes whatever node comes first, and an old one would only fail somewhere in the middle. */
function isNodeTooOld(): boolean {
  if (Number.parseInt(process.versions.node, 10) >= NODE_MAJOR_MIN) return false;
  note(
    `pdfseal: needs Node.js ${NODE_MAJOR_MIN}, and this is ${process.version}: run it with node_modules/.bin/node`,
  );
  process.exitCode = EXIT.usage;
  return true;
}

/** `pdfseal jobs list | head` is no failure worth a stack. */
function exitOnBrokenPipe(): void {
  for (const stream of [process.stdout, process.stderr]) {
    stream.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code !== 'EPIPE') throw error;
      process.exit(EXIT.brokenPipe);
    });
  }
}

await main(process.argv.slice(2));
