/** A command in one table: its text for help, manual and completion, its parameters, and its action. */
import { Argument, Command, Option } from 'commander';
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
    made.action(async (...typed: unknown[]) => {
      const count = form.arguments?.length ?? 0;
      const args = typed.slice(0, count) as ArgumentValues<Arguments>;
      const given = typed[count] as Given<Options>;
      const wrong = form.misuse?.(given, ...args);
      if (wrong !== undefined) made.error(`error: ${wrong}`);
      await form.run(given, ...args);
    });
    return explain(made, form);
  };
}

/** A command that only groups others. */
export function group(name: string, description: string, commands: readonly (() => Command)[]) {
  return (): Command => {
    const made = new Command(name).description(description);
    for (const make of commands) made.addCommand(make());
    return made;
  };
}

/** `--config FILE` of commands that work on an environment. */
export class ConfigOption extends Option {}

function optionOf({ flags, description, how }: Parameter): Option {
  const settings = settingsOf(how);
  const { parse, choices, required = false, shown, conflicts, isConfig } = settings;
  const option = isConfig ? new ConfigOption(flags, description) : new Option(flags, description);
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
