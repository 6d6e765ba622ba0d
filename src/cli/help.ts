import { type Command, Help, Option } from 'commander';
import { MANUAL_FOLDER } from '../base/package.ts';
import { EXIT_MEANINGS, EXIT_STATUSES, exitMeaningsOf, type OwnMeanings } from './exit.ts';
import { note } from './terminal.ts';

/** Text in the help and the manual page of a command, in addition to its options. */
export interface Explanation {
  /** Command lines; a remark follows two or more spaces. */
  examples: string[];
  exit?: OwnMeanings;
  /** Paragraphs after the options. */
  notes?: string;
  /** Former names of options, which still work, each with the option to use now, followed by further flags that the old name included. */
  formerly?: Readonly<Record<`--${string}`, string>>;
  /** Whether it lacks --json, because its output is already made for programs. */
  withoutJson?: true;
}

const explanations = new WeakMap<Command, Explanation>();

/** Adds to a command the text that its options lack. */
export function explain(command: Command, explanation: Explanation): Command {
  explanations.set(command, explanation);
  for (const [old, now] of Object.entries(explanation.formerly ?? {})) addFormerOption(command, old, now);
  return command;
}

/** Accepts an option by its old name, with one note. Help, manual and completion know only the new name. */
function addFormerOption(command: Command, old: string, now: string): void {
  const [name = '', ...flags] = now.split(' ');
  const current = command.options.find(({ long }) => long === name);
  if (current === undefined) throw new Error(`${command.name()} has no ${name}`);
  const former = new Option(current.flags.replace(name, old)).hideHelp();
  former.attributeName = () => current.attributeName();
  if (current.parseArg !== undefined) former.argParser(current.parseArg);
  command.addOption(former);
  const given = new Set<string>();
  for (const option of [current, former]) {
    command.on(`option:${option.name()}`, () => {
      if (given.add(option.name()).size > 1) command.error(`error: ${old} is now ${name}: name one of them`);
    });
  }
  let isTold = false;
  command.on(`option:${former.name()}`, () => {
    for (const flag of flags) command.setOptionValue(flag.slice('--'.length), true);
    if (!isTold) note(`pdfseal: ${old} is now ${now}; both work`);
    isTold = true;
  });
}

/** The options that help, manual and completion name. */
export function shownOptions(command: Command): Option[] {
  return command.options.filter(({ hidden }) => !hidden);
}

export function explanationOf(command: Command): Explanation | undefined {
  return explanations.get(command);
}

/** The command and all below it. */
export function withSubcommands(command: Command): Command[] {
  return [command, ...command.commands.flatMap(withSubcommands)];
}

/** The command that `names` lead to from `from`; names after it are arguments. Undefined if a name is unknown. */
export function commandAt(from: Command, names: readonly string[]): Command | undefined {
  const [name, ...others] = names;
  if (name === undefined || from.commands.length === 0) return from;
  const inner = from.commands.find((one) => one.name() === name);
  return inner && commandAt(inner, others);
}

/** Gives a command and all below it the same form of help, and --json. */
export function dressCommands(program: Command): void {
  for (const command of withSubcommands(program)) {
    if (command.commands.length > 0) command.helpCommand('help [command]', 'print the help of a command');
    else if (!explanations.get(command)?.withoutJson)
      command.option('--json', 'print JSON, one object per line');
    command
      .helpOption('-h, --help', 'print this help')
      .showHelpAfterError('(--help says more)')
      .configureHelp({ optionDescription: describeOption })
      .addHelpText('after', ({ command }) => footerOf(command));
  }
}

/** Commander names defaults and choices, but does not say which options are required. */
export function describeOption(option: Option): string {
  const description = new Help().optionDescription(option);
  return option.mandatory ? `${description} (required)` : description;
}

function footerOf(command: Command): string {
  const { examples, exit = {}, notes } = explanations.get(command) ?? { examples: [] };
  const isGroup = command.commands.length > 0;
  const statuses = isGroup
    ? EXIT_STATUSES.map((status) => [status, EXIT_MEANINGS[status]] as const)
    : exitMeaningsOf(exit);
  const width = Math.max(...statuses.map(([status]) => String(status).length));
  const rows = statuses.map(([status, meaning]) => `  ${String(status).padStart(width)}  ${meaning}`);
  const parts = [
    ...(notes === undefined ? [] : [notes]),
    ...(isGroup && command.parent !== null ? [] : [`Exit status:\n${rows.join('\n')}`]),
    ...(command.parent === null ? [`The manual: ${MANUAL_FOLDER}/index.html`] : []),
    ...(examples.length === 0 ? [] : [`Examples:\n${examples.map((line) => `  ${line}`).join('\n')}`]),
  ];
  return parts.map((part) => `\n${part}`).join('\n');
}
