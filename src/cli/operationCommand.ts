/** Makes a command from an operation: its options and arguments are the fields, its text is that of the operation. */
import { isDeepStrictEqual } from 'node:util';
import { type Command, InvalidArgumentError } from 'commander';
import * as z from 'zod';
import type { Config } from '../config/config.ts';
import { loadConfig } from '../config/config.ts';
import {
  type AdminOperation,
  bareOf,
  type Field,
  type GivenFields,
  isRequired,
  valueOfText,
} from '../ops/operation.ts';
import type { DaemonParts, StoreParts } from '../ops/operationParts.ts';
import { argument, command, type Given, memberOf, option, type Parameter } from './command.ts';
import { askOperation, runOnStore } from './daemon/operationClient.ts';
import type { Explanation } from './help.ts';
import { CONFIG } from './options.ts';

type Fields = Readonly<Record<string, Field>>;

/** What only a command has. */
interface OperationForm<Own extends Fields, Answer, Options extends readonly Parameter[]>
  extends Explanation {
  summary?: string;
  /** Default: the sentences of the operation. */
  description?: string;
  /** Names of options that are not those of their fields. */
  names?: { readonly [Name in keyof Own]?: string };
  /** Options of the command alone. */
  options?: Options;
  /** Describes a wrong combination of options. */
  misuse?(typed: Given<Options>, fields: GivenFields<Own>): string | undefined;
  /** See `command`. */
  asks?(first: unknown): string;
  /** Fields that have no option, because the command finds their values by itself. */
  finds?: readonly (keyof Own)[];
  find?(typed: Given<Options>, config: Config): GivenFields<Own> | Promise<GivenFields<Own>>;
  show(answer: Answer, config: Config, typed: Given<Options>, fields: GivenFields<Own>): void | Promise<void>;
}

export function operationCommand<
  Parts extends StoreParts | DaemonParts,
  const Own extends Fields,
  Answer extends z.ZodType,
  const Options extends readonly Parameter[] = [],
>(
  name: string,
  stated: AdminOperation<Parts, Own, Answer>,
  form: OperationForm<Own, z.output<Answer>, Options>,
): () => Command {
  const { finds = [], misuse, find, show, ...explanation } = form;
  const names: Readonly<Record<string, string | undefined>> = form.names ?? {};
  const typed = Object.entries(stated.fields).filter(([field]) => !finds.includes(field));
  const isArgument = ([field, one]: [string, Field]) =>
    stated.route.path.includes(`{${field}}`) || one.typed?.startsWith('[') === true;
  const places = typed.filter(isArgument);
  const options = typed
    .filter((one) => !isArgument(one))
    .map(([field, one]) => ({ field, parameter: optionOf(names[field] ?? field, one) }));
  const extra: readonly Parameter[] = form.options ?? [];
  const fieldsIn = (given: Record<string, unknown>, args: readonly unknown[]) =>
    Object.fromEntries([
      // Commander makes an empty list of one that is left out.
      ...places.map(([field], n) => [field, isDeepStrictEqual(args[n], []) ? undefined : args[n]]),
      ...options.map(({ field, parameter }) => [field, given[memberOf(parameter)]]),
    ]) as GivenFields<Own>;
  return command(name, {
    description: [stated.says, stated.explains].filter((text) => text !== undefined).join(' '),
    ...explanation,
    arguments: places.map(([, { typed = '', says, schema }]) =>
      argument(typed, says, isSeveral(typed) ? {} : parserOf(schema)),
    ),
    options: [CONFIG, ...options.map(({ parameter }) => parameter), ...extra] as readonly Parameter[],
    misuse: (given, ...args) =>
      misuse?.(given as unknown as Given<Options>, fieldsIn(given as Record<string, unknown>, args)),
    async run(given, ...args) {
      const { config: file } = given as { config: string };
      const own = given as unknown as Given<Options>;
      const config = loadConfig(file, { files: 'unused' });
      const found = await find?.(own, config);
      const fields = { ...fieldsIn(given as Record<string, unknown>, args), ...found };
      const answer = await (stated.needs === 'store'
        ? runOnStore(stated as AdminOperation<StoreParts, Own, Answer>, config, fields)
        : askOperation(stated, config.admin.socket, fields));
      await show(answer, config, own, fields);
    },
  });
}

function optionOf(name: string, field: Field): Parameter {
  const { says, schema, typed } = field;
  const flag = `--${name.replaceAll('_', '-')}`;
  const bare = bareOf(schema);
  const standard = schema instanceof z.ZodPrefault ? schema.def.defaultValue : undefined;
  const isFlag = bare.type === 'boolean';
  const one = isSeveral(typed) && bare instanceof z.ZodArray ? bare.element : bare;
  return option(typed === undefined ? flag : `${flag} ${typed}`, says, {
    ...(one instanceof z.ZodEnum
      ? { choices: one.options.map(String) }
      : !isFlag && { parse: parserOf(schema) }),
    ...(isRequired(field) && { required: true as const }),
    ...(standard !== undefined && !isFlag && { default: standard, shown: String(standard) }),
  });
}

/** Whether each value of a list is typed as a word of its own: `<name...>`. */
function isSeveral(typed = ''): boolean {
  return typed.includes('...');
}

/** Checks a value, and leaves it as the operation expects it. */
function parserOf(schema: z.ZodType) {
  return (text: string): unknown => {
    const value = valueOfText(schema, text);
    const { error } = schema.safeParse(value);
    if (error === undefined) return value;
    const refusal = error.issues[0]?.message ?? '';
    throw new InvalidArgumentError(refusal.replace(/^must be /, 'Expected '));
  };
}
