import type { Argument, Command, Option } from 'commander';
import { type Config, loadConfig } from '../../config/config.ts';
import { kmsKeyId } from '../../log/verifierKey.ts';
import { shownOptions } from '../help.ts';
import { configuredKeys } from '../hsm/hsmKeys.ts';
import { configFiles, defaultConfigFile } from '../options.ts';

/** A word that would fit, and its meaning. */
interface Candidate {
  word: string;
  meaning: string;
}

export interface Candidates {
  words: Candidate[];
  /** Whether a file name fits too. */
  files: boolean;
}

/** Words that may replace the last of `words`, which follow `pdfseal` on the command line. */
export function candidatesFor(program: Command, words: readonly string[]): Candidates {
  const current = words.at(-1) ?? '';
  const typed = current === '=' ? '' : current;
  const line = readLine(program, words.slice(0, -1));
  const { words: all, files } = everything(line, typed);
  return { words: all.filter(({ word }) => word.startsWith(typed)), files };
}

/** The position of the next word on the command line. */
interface Line {
  command: Command;
  /** The option that waits for its value. */
  awaiting: Option | undefined;
  /** Options that were given, and the values of those that take one. */
  given: Map<Option, string | undefined>;
  /** Number of arguments so far. */
  count: number;
  /** Whether `--` was given: only arguments follow it. */
  onlyArguments: boolean;
}

function readLine(program: Command, words: readonly string[]): Line {
  const line: Line = {
    command: program,
    awaiting: undefined,
    given: new Map(),
    count: 0,
    onlyArguments: false,
  };
  for (const word of words) readWord(line, word);
  return line;
}

function readWord(line: Line, word: string): void {
  // bash splits at it: --config=FILE becomes three words.
  if (word === '=') return;
  const isOption = word.startsWith('-') && !line.onlyArguments;
  if (line.awaiting && !(isOption && !line.awaiting.required)) {
    line.given.set(line.awaiting, word);
    if (!line.awaiting.variadic) line.awaiting = undefined;
  } else if (word === '--') line.onlyArguments = true;
  else if (isOption) readOption(line, word);
  else {
    const inner = line.command.commands.find((one) => one.name() === word);
    if (inner) line.command = inner;
    else if (word !== 'help') line.count += 1;
  }
}

function readOption(line: Line, word: string): void {
  const [name, value] = word.split('=', 2);
  const option = line.command.options.find(({ long, short }) => long === name || short === name);
  line.awaiting = undefined;
  if (option === undefined) return;
  line.given.set(option, value);
  if (value === undefined && (option.required || option.optional)) line.awaiting = option;
}

function everything(line: Line, typed: string): Candidates {
  const { command, awaiting, count, onlyArguments } = line;
  if (awaiting?.required) return valuesOf(awaiting, awaiting.long ?? '', line);
  if (typed.startsWith('-') && !onlyArguments) return { words: optionsOf(line), files: false };
  if (command.commands.length > 0) return { words: commandsOf(command), files: false };
  const { registeredArguments } = command;
  const last = registeredArguments.at(-1);
  const argument = registeredArguments[count] ?? (last?.variadic ? last : undefined);
  if (argument === undefined) return { words: onlyArguments ? [] : optionsOf(line), files: false };
  return valuesOf(argument, argument.name(), line);
}

function commandsOf(command: Command): Candidate[] {
  const named = command.commands.map((one) => ({
    word: one.name(),
    meaning: one.summary() || one.description(),
  }));
  return [...named, { word: 'help', meaning: 'print the help of a command' }];
}

/** Options that were not given yet, or may be repeated. */
function optionsOf({ command, given }: Line): Candidate[] {
  const open = shownOptions(command).filter((option) => !given.has(option) || isRepeated(option));
  const own = open.map(({ long, description }) => ({ word: long ?? '', meaning: description }));
  return [...own, { word: '--help', meaning: 'print this help' }];
}

function isRepeated({ description }: Option): boolean {
  return /once for each/.test(description);
}

const FILE_PLACEHOLDER = /<(file|folder|path)(\.\.\.)?>/;
const FILE_ARGUMENTS = ['document', 'receipt', 'file'];

function valuesOf(taker: Option | Argument, name: string, { command, given }: Line): Candidates {
  const choices = (taker.argChoices ?? []).map((word) => ({ word, meaning: '' }));
  const config = command.options.find(({ long }) => long === '--config');
  const found = valuesFrom(name, config && given.get(config));
  const files = 'flags' in taker ? FILE_PLACEHOLDER.test(taker.flags) : FILE_ARGUMENTS.includes(name);
  return { words: [...choices, ...found], files };
}

/** Option values that the config file contains. Nothing here opens a store: a shell runs this on every TAB. */
const CONFIGURED: Readonly<Record<string, (config: Config) => Candidate[]>> = {
  '--partition': ({ kms }) => kms.partitions.map((one) => ({ word: kmsKeyId(one), meaning: 'partition' })),
  '--new-keys': ({ kms }) => [
    { word: 'all', meaning: 'a new key in every partition' },
    { word: 'none', meaning: 'no new keys' },
    ...kms.partitions.map((one) => ({ word: kmsKeyId(one), meaning: 'a new key in this partition only' })),
  ],
  '--region': (config) =>
    configuredKeys(config).map(({ token, purpose }) => ({ word: token.region, meaning: purpose })),
  '--key-label': (config) =>
    configuredKeys(config).map(({ token, purpose }) => ({
      word: token.keyLabel,
      meaning: `${purpose}, ${token.region}`,
    })),
};

function valuesFrom(name: string, configFile: string | undefined): Candidate[] {
  try {
    if (name === '--config') return configFiles().map((word) => ({ word, meaning: 'environment' }));
    const valuesIn = CONFIGURED[name];
    if (valuesIn === undefined) return [];
    const values = valuesIn(loadConfig(configFile ?? defaultConfigFile(), { files: 'unused' }));
    return [...new Map(values.map((one) => [one.word, one])).values()];
  } catch {
    // A shell that completes a word shows no errors.
    return [];
  }
}
