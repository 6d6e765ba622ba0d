/** A command in one table: its text for help, manual and completion, its parameters, and its action. */
import { Argument, Command, InvalidArgumentError, Option } from 'commander';
import { fromEnvironment, ownProcess, type Variable } from '../base/env.ts';
import { type Explanation, explain } from './help.ts';

/** Parses an argument as typed; `before` is the earlier value of the same option. Throws InvalidArgumentError. */
type Parse = (text: string, before?: never) => unknown;

interface Settings {
  parse?: Parse;
  choices?: readonly string[];
  required?: true;
  default?: unknown;
  /** The default, as a user would type it. */
  shown?: string;
  /** The name of another option, which excludes this one. */
  conflicts?: string;
  /** The environment variable that gives its value if it is left out. */
  variable?: Variable;
  /** Whether it names the config file: if it is left out, `completeConfig` fills it in. */
  isConfig?: true;
}

type How = Parse | Settings;

/** An option or an argument, with the flags that commander reads: `--client <name>`, or `<key_id>`. */
export interface Parameter<Flags extends string = string, Own extends How = How> {
  flags: Flags;
  description: string;
  how: Own;
}

/** An option. Its value is the result of `parse`, one of the choices, or the text itself. */
export function option<Flags extends string, const Own extends How = Record<never, never>>(
  flags: Flags,
  description: string,
  how?: Own,
): Parameter<Flags, NoInfer<Own>> {
  return { flags, description, how: how ?? ({} as Own) };
}

/** The name of an option in {@link Given}. */
export function memberOf({ flags }: Parameter): string {
  return new Option(flags).attributeName();
}

/** Like {@link option}. */
export const argument = option;

type Camel<Name extends string> = Name extends `${infer First}-${infer Rest}`
  ? `${First}${Capitalize<Camel<Rest>>}`
  : Name;
type NameOf<Flags> = Flags extends `--no-${infer Name}`
  ? Camel<Name>
  : Flags extends `--${infer Name} ${string}`
    ? Camel<Name>
    : Flags extends `--${infer Name}`
      ? Camel<Name>
      : never;
type Typed<Own> = Own extends
  | ((...text: never[]) => infer Value)
  | { parse: (...text: never[]) => infer Value }
  ? Value
  : Own extends { choices: readonly (infer Choice)[] }
    ? Choice
    : string;
type Several<Flags, Own> = Own extends Parse | { parse: Parse }
  ? Typed<Own>
  : Flags extends `${string}...${string}`
    ? Typed<Own>[]
    : Typed<Own>;
type OptionValue<Flags, Own> = Flags extends `--no-${string}`
  ? boolean
  : Flags extends `${string}<${string}`
    ? Several<Flags, Own>
    : Flags extends `${string}[${string}`
      ? Several<Flags, Own> | true
      : true;
type Member<One> =
  One extends Parameter<infer Flags, infer Own>
    ? Own extends { required: true } | { default: unknown } | { isConfig: true }
      ? { [Name in NameOf<Flags>]: OptionValue<Flags, Own> }
      : Flags extends `--no-${string}`
        ? { [Name in NameOf<Flags>]: boolean }
        : { [Name in NameOf<Flags>]?: OptionValue<Flags, Own> }
    : never;
type All<Members> = (Members extends unknown ? (one: Members) => void : never) extends (
  all: infer Every,
) => void
  ? { [Name in keyof Every]: Every[Name] }
  : never;

/** The values of these options, by their names. */
export type Given<Options extends readonly Parameter[]> = All<Member<Options[number]>>;

type ArgumentValues<Arguments extends readonly Parameter[]> = {
  [N in keyof Arguments]: Arguments[N] extends Parameter<infer Flags, infer Own>
    ? Flags extends `[${string}...]` | `<${string}`
      ? Several<Flags, Own>
      : Several<Flags, Own> | undefined
    : never;
};

interface Form<Options extends readonly Parameter[], Arguments extends readonly Parameter[]>
  extends Explanation {
  summary?: string;
  description?: string;
  options?: Options;
  arguments?: Arguments;
  /** Commands below it. */
  commands?: readonly (() => Command)[];
  /** Describes a wrong combination of these, if there is one: wrong usage. */
  misuse?(given: Given<Options>, ...args: ArgumentValues<Arguments>): string | undefined;
  /** For an act that cannot be undone: asks a person at a terminal, unless `--yes` is given. `first`: the first argument. */
  asks?(first: unknown): string;
  run(given: Given<Options>, ...args: ArgumentValues<Arguments>): void | Promise<void>;
}

/** Makes the command, a new one each time. */
export function command<
  const Options extends readonly Parameter[] = [],
  const Arguments extends readonly Parameter[] = [],
>(name: string, form: Form<Options, Arguments>): () => Command {
  return () => {
    // Options after the name of a command belong to that command, and not to any above it.
    const made = group(name, form.description ?? '', form.commands ?? [])().enablePositionalOptions();
    if (form.summary !== undefined) made.summary(form.summary);
    for (const one of form.arguments ?? []) made.addArgument(argumentOf(one));
    for (const one of form.options ?? []) made.addOption(optionOf(one));
    if (form.asks !== undefined) made.option('--yes', 'do not ask at a terminal');
    made.action(async (...typed: unknown[]) => {
      const count = form.arguments?.length ?? 0;
      const args = typed.slice(0, count) as ArgumentValues<Arguments>;
      const given = typed[count] as Given<Options>;
      const wrong = form.misuse?.(given, ...args);
      if (wrong !== undefined) made.error(`error: ${wrong}`);
      const { stdin, stderr } = ownProcess();
      const isAsked = stdin.isTTY === true && stderr.isTTY === true && made.getOptionValue('yes') !== true;
      if (form.asks !== undefined && isAsked) {
        const { confirm } = await import('./questions.ts');
        await confirm(form.asks(args[0]));
      }
      await form.run(given, ...args);
    });
    return explain(made, form);
  };
}

/** A command that only groups others. */
export function group(name: string, description: string, commands: readonly (() => Command)[]) {
  return (): Command => {
    const made = new CompletingCommand(name).description(description);
    for (const make of commands) made.addCommand(make());
    return made;
  };
}

/** A command whose missing options come from the environment; it names all that are still missing. */
class CompletingCommand extends Command {
  /** Commander calls this for a required option without a value. */
  missingMandatoryOptionValue(): void {
    const missing = this.options.filter((one) => one.mandatory && !this.#complete(one));
    if (missing.length === 0) return;
    const names = missing.map(({ flags }) => `'${flags}'`).join(', ');
    const word = missing.length === 1 ? 'option' : 'options';
    this.error(`error: required ${word} ${names} not specified`, {
      code: 'commander.missingMandatoryOptionValue',
    });
  }

  /** Whether the option has a value, if need be from the environment. */
  #complete(option: Option): boolean {
    const name = option.attributeName();
    if (this.getOptionValue(name) !== undefined) return true;
    const variable = option instanceof EnvironmentOption ? option.variable : undefined;
    const text = variable && fromEnvironment(variable);
    if (text === undefined) return false;
    try {
      this.setOptionValueWithSource(name, option.parseArg?.(text, undefined) ?? text, 'env');
    } catch (error) {
      if (!(error instanceof InvalidArgumentError)) throw error;
      this.error(`error: ${variable}: ${error.message}`);
    }
    return true;
  }
}

/** An option whose value can be in the environment. */
class EnvironmentOption extends Option {
  readonly variable: Variable;

  constructor(flags: string, description: string, variable: Variable) {
    super(flags, `${description} (default: the environment variable ${variable})`);
    this.variable = variable;
  }
}

/** `--config FILE` of commands that work on an environment. */
export class ConfigOption extends Option {}

function optionOf({ flags, description, how }: Parameter): Option {
  const settings = settingsOf(how);
  const { parse, choices, required = false, shown, conflicts, isConfig, variable } = settings;
  const option = isConfig
    ? new ConfigOption(flags, description)
    : variable !== undefined
      ? new EnvironmentOption(flags, description, variable)
      : new Option(flags, description);
  if (choices !== undefined) option.choices(choices);
  if (parse !== undefined) option.argParser(parse as (text: string, before: unknown) => unknown);
  if ('default' in settings) option.default(settings.default, shown);
  if (conflicts !== undefined) option.conflicts(conflicts);
  return option.makeOptionMandatory(required);
}

function argumentOf({ flags, description, how }: Parameter): Argument {
  const { parse, choices } = settingsOf(how);
  const argument = new Argument(flags, description);
  if (choices !== undefined) argument.choices(choices);
  if (parse !== undefined) argument.argParser(parse as (text: string, before: unknown) => unknown);
  return argument;
}

function settingsOf(how: How): Settings {
  return typeof how === 'function' ? { parse: how } : how;
}
