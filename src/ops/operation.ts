/**
 * The operations of an administrator, each stated once.
 *
 * To add an operation, state it with {@link operation} in the file of its family, and name it in `operationTable.ts`. The route of the
 * administration with its OpenAPI follows. For a command, call `operationCommand` in `src/cli` with what only a command has, such as
 * examples, and how the answer is printed. For a page of the console, let the handler call {@link perform}.
 *
 * A face reads what was typed or sent, passes it to {@link perform} as an object of texts, numbers, booleans and lists, and shows the answer.
 * A face may refuse a value earlier, in its own words; every check that counts, the write and its audit record belong to the operation.
 */
import * as z from 'zod';
import { type ErrorCode, ServiceError } from '../base/errors.ts';
import { missingField, quoteName, readValue } from '../job/fieldValues.ts';
import { parseCount } from '../log/checkpoint.ts';
import type { ActName, ActObject, Actor } from '../manifest/auditRecord.ts';
import { actBy, onRecord } from '../store/acts.ts';
import type { Store } from '../store/store.ts';

/** The header with which a command reports who called it: URL-encoded JSON. */
export const ACTOR_HEADER = 'pdfseal-actor';

/** One field of an operation. */
export interface Field<Schema extends z.ZodType = z.ZodType> {
  /** A phrase, as in the help of a command: `client that uses the key`. */
  says: string;
  /** Reads the value as it is sent. If a caller can send what it refuses, the message begins with `must be`. */
  schema: Schema;
  /** How a command names the value: `<duration>`. Not needed for true and false. */
  typed?: string;
}

type Fields = Readonly<Record<string, Field>>;

/** The fields as a face passes them. */
export type GivenFields<Own extends Fields> = {
  [Name in keyof Own]?: z.input<Own[Name]['schema']> | undefined;
};

/** The fields as `run` receives them. */
export type Values<Own extends Fields> = { [Name in keyof Own]: z.output<Own[Name]['schema']> };

export interface AdminOperation<
  Parts = never,
  Own extends Fields = Fields,
  Answer extends z.ZodType = z.ZodType,
> {
  /** The name in refusals and tests. For an operation on the store, it is that of its command: `keys.issue` is `pdfseal keys issue`. */
  name: `${string}.${string}`;
  /** One sentence. */
  says: string;
  /** Further sentences, for OpenAPI and help. */
  explains?: string;
  route: {
    /** The `operationId`. */
    id: string;
    /** A GET changes nothing. */
    method: 'get' | 'post';
    /** Fields in braces are part of the path. */
    path: string;
    /** How a POST sends the other fields. With `text`, one of them is the whole body. */
    sends?: 'query' | 'json' | { text: string };
    /** How many run at once, with a share for each caller. */
    atOnce?: { of: string; max: number };
    /** Error codes besides those that follow from the fields. */
    failures?: readonly ErrorCode[];
  };
  /**
   * `reader`: a user of the socket, or the scope `admin:read`. `administrator`: a user whom the kernel reports, or the scope `admin`.
   * `owner`: root or the user of the daemon, at the socket.
   */
  role: 'reader' | 'administrator' | 'owner';
  /** Where it runs: in the daemon, or on the store alone, so that a command can run it while no daemon does. */
  needs: 'daemon' | 'store';
  fields: Own;
  /** The acts on the audit trail. */
  acts: readonly ActName[];
  /** Throws ServiceError if this daemon lacks the part that does it: then nothing is recorded. */
  guard?(parts: Parts): unknown;
  /** Records the only act around `run`: its begin, and its end with what the answer adds. Otherwise `run` records it with its write. */
  around?: {
    object(fields: Values<Own>): ActObject;
    result(answer: z.output<Answer>): ActObject;
  };
  answer: {
    /** The name of the schema in `openapi.json`. */
    name: string;
    says: string;
    schema: Answer;
  };
  run(parts: Parts, fields: Values<Own>, actor: Actor): Promise<z.output<Answer>>;
}

/** States an operation. */
export function operation<Parts, const Own extends Fields, Answer extends z.ZodType>(
  stated: AdminOperation<Parts, Own, Answer>,
): AdminOperation<Parts, Own, Answer> {
  return stated;
}

/** Any operation, where only its description matters. */
export type AnyOperation = Omit<AdminOperation, 'run' | 'around' | 'guard'>;

/** Runs an operation for a face. Throws ServiceError that names the field at fault, and the errors of `run`. */
export async function perform<
  Parts extends { store: Pick<Store, 'trail'> },
  Own extends Fields,
  Answer extends z.ZodType,
>(
  stated: AdminOperation<Parts, Own, Answer>,
  parts: Parts,
  given: GivenFields<Own>,
  actor: Actor,
): Promise<z.output<Answer>> {
  const fields = readFields(stated.fields, given);
  stated.guard?.(parts);
  const { around } = stated;
  const [name] = stated.acts;
  if (around === undefined || name === undefined) return stated.run(parts, fields, actor);
  const act = actBy(actor, name, around.object(fields));
  return onRecord(
    parts.store.trail,
    act,
    () => stated.run(parts, fields, actor),
    (answer) => around.result(answer),
  );
}

function readFields<Own extends Fields>(own: Own, given: GivenFields<Own>): Values<Own> {
  const stranger = Object.keys(given).find((name) => !Object.hasOwn(own, name));
  if (stranger !== undefined)
    throw new ServiceError('unknown_parameter', `There is no parameter ${quoteName(stranger)} here.`);
  const read = Object.entries(own).map(([name, field]) => {
    if (given[name] === undefined && isRequired(field)) throw missingField(name);
    return [name, readValue(name, field.schema, given[name])];
  });
  return Object.fromEntries(read);
}

/** A value from its text, in a query or on a command line. The schema refuses a text that is not such a value. */
export function valueOfText(schema: z.ZodType, text: string): unknown {
  switch (bareOf(schema).type) {
    case 'boolean':
      return text === 'true' ? true : text === 'false' ? false : text;
    case 'number':
      return parseCount(text) ?? text;
    case 'array':
      return text.split(',').map((one) => one.trim());
    default:
      return text;
  }
}

/** The schema of a value that is there: without its default, and without what makes it optional. */
export function bareOf(schema: z.ZodType): z.ZodType {
  const isWrapper = schema instanceof z.ZodOptional || schema instanceof z.ZodPrefault;
  return isWrapper ? bareOf(schema.unwrap() as z.ZodType) : schema;
}

/** Whether a value must be sent. */
export function isRequired({ schema }: Field): boolean {
  return !schema.safeParse(undefined).success;
}
