import { type Command, CommanderError } from 'commander';
import { asProcess, type OwnProcess, ownProcess } from '../base/env.ts';
import { ASK } from './completion/scripts.ts';
import { commandAt, withSubcommands } from './help.ts';
import { programFor } from './program.ts';
import { report } from './report.ts';
import { isJson } from './terminal.ts';

/** The width of help that does not go to a terminal, as in commander. */
const HELP_COLUMNS = 80;

/** Runs the command line of a process, and leaves the exit status there. */
export function run(process: OwnProcess): Promise<void> {
  return asProcess(process, () => obey(process.argv.slice(2)));
}

async function obey(args: string[]): Promise<void> {
  if (args[0] === ASK) return answer(args.slice(1));
  try {
    await carryOut(await programFor(args), args);
  } catch (error) {
    ownProcess().exitCode = report(error);
  }
}

/** Answers a shell that completes a command line; `words` are the words typed so far. */
async function answer(words: string[]): Promise<void> {
  const { answerShell } = await import('./completion/completionCommand.ts');
  answerShell(await programFor(words.slice(0, -1)), words);
}

async function carryOut(program: Command, args: string[]): Promise<void> {
  const { stdout, stderr } = ownProcess();
  const said: string[] = [];
  for (const command of withSubcommands(program)) {
    command.exitOverride().configureOutput({
      writeOut: (text) => void stdout.write(text),
      writeErr: (text) => void said.push(text),
      getOutHelpWidth: () => stdout.columns ?? HELP_COLUMNS,
      getErrHelpWidth: () => stderr.columns ?? HELP_COLUMNS,
    });
  }
  const path = helpPath(args);
  if (path.length > 0) commandAt(program, path)?.help();
  try {
    await program.parseAsync(path.length > 0 ? path : args, { from: 'user' });
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    const complaint = isOfMissing(error) ? await mistyped(program, args, said, error) : error;
    if (!isJson()) stderr.write(said.join(''));
    throw complaint;
  }
}

/** The path of the command whose help is requested: `help keys issue`, or `keys issue --help`. Empty if no help is requested. */
function helpPath([first = '', ...others]: string[]): string[] {
  if (first === 'help') return others;
  const names = [first, ...others.slice(0, -1)];
  const isAsked = ['-h', '--help'].includes(others.at(-1) ?? '');
  return isAsked && names.every((name) => /^[a-z]/.test(name)) ? names : [];
}

function isOfMissing({ code }: CommanderError): boolean {
  return code === 'commander.missingMandatoryOptionValue';
}

/** Commander reports a required option as missing even if its name is mistyped. A second run, without required options, finds the mistyped name. */
async function mistyped(
  program: Command,
  args: string[],
  said: string[],
  missing: CommanderError,
): Promise<unknown> {
  const before = said.splice(0);
  for (const command of withSubcommands(program)) {
    for (const option of command.options) option.mandatory = false;
    command.action(() => {});
  }
  const found: unknown = await program.parseAsync(args, { from: 'user' }).catch((error: unknown) => error);
  if (found instanceof CommanderError && found.code !== 'commander.error') return found;
  said.splice(0, said.length, ...before);
  return missing;
}
