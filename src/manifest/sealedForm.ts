import * as z from 'zod';
import { toRfc3339 } from '../base/clock.ts';
import type { Epoch } from '../log/epochs.ts';
import { encodeQuorum, parseQuorum } from '../log/quorum.ts';
import { encodeVkey, kmsKeyId, parseVkey } from '../log/verifierKey.ts';
import type { ActObject } from './auditRecord.ts';

/** In the format of {@link toRfc3339}, so that times can be compared as texts. */
const time = z.iso.datetime({ precision: 3 }).refine((text) => {
  const at = Date.parse(text);
  return !Number.isNaN(at) && toRfc3339(at) === text;
});

const sealedFormSchema = z.object({
  from: time,
  /** When the epoch ends, as far as the record knows: an epoch is open until the next is planned. */
  until: time.nullable(),
  /** `<region>/<key label> <vkey>`. */
  verifier_keys: z.array(z.string()),
  /** `<region>/<label>` of the partition that holds each of the keys. */
  partitions: z.array(z.string()),
  /** `<region>/<key label>` of the keys that are in files; absent if all are in HSMs. */
  software_keys: z.array(z.string()).min(1).exactOptional(),
  quorum: z.union([z.number(), z.string()]),
  timestamps: z.enum(['required', 'none']),
  /** `<authority> <Base64 DER of the root>`. */
  timestamp_roots: z.array(z.string()),
});

/** The definition of an epoch in the form of its record in the audit trail. Equal epochs have equal forms. */
export type SealedForm = z.infer<typeof sealedFormSchema>;

/** The members of {@link SealedForm} that define an epoch; `until` follows from the next epoch. */
export const FORM_MEMBERS = sealedFormSchema.omit({ until: true }).keyof().options;

/** The form of an epoch of the log with that origin. `until` in milliseconds since the Unix epoch. */
export function sealedForm(
  origin: string,
  { from, keys, quorum, timestamps, roots }: Epoch,
  until?: number,
): SealedForm {
  const software = keys.filter((key) => key.software).map(kmsKeyId);
  return {
    from: toRfc3339(from),
    until: until === undefined ? null : toRfc3339(until),
    verifier_keys: keys.map((key) => `${kmsKeyId(key)} ${encodeVkey(origin, key)}`),
    partitions: keys.map(({ region, partition }) => kmsKeyId({ region, keyLabel: partition })),
    ...(software.length > 0 && { software_keys: software }),
    quorum: encodeQuorum(quorum),
    timestamps,
    timestamp_roots: roots.map(({ name, root }) => `${name} ${root}`),
  };
}

/** The epoch of a form; undefined for a form that {@link sealedForm} cannot produce for a log with that origin. */
export function parseForm(origin: string, form: SealedForm): Epoch | undefined {
  const keys = form.verifier_keys.map((line, index) => {
    const [id, text] = cutAtLast(line);
    const vkey = parseVkey(text);
    const [region, keyLabel] = cutAt(id, id.indexOf('/'));
    const [, partition] = cutAt(form.partitions[index] ?? '', region.length);
    if (vkey === undefined) return undefined;
    const software = form.software_keys?.includes(id) ? { software: true as const } : {};
    return { region, keyLabel, algorithm: vkey.algorithm, spki: vkey.spki, ...software, partition };
  });
  const quorum = parseQuorum(form.quorum);
  if (quorum === undefined) return undefined;
  const epoch = {
    from: Date.parse(form.from),
    keys: keys.filter((key) => key !== undefined),
    quorum,
    timestamps: form.timestamps,
    roots: form.timestamp_roots.map((line) => {
      const [name, root] = cutAtLast(line);
      return { name, root };
    }),
  };
  const until = form.until === null ? undefined : Date.parse(form.until);
  const isSame = JSON.stringify(sealedForm(origin, epoch, until)) === JSON.stringify(readForm(form));
  return isSame ? epoch : undefined;
}

function cutAtLast(line: string): [before: string, after: string] {
  return cutAt(line, line.lastIndexOf(' '));
}

function cutAt(line: string, index: number): [before: string, after: string] {
  return [line.slice(0, index), line.slice(index + 1)];
}

/** The object of an act on one epoch: its form, and the `kms_key_id`s of its keys. */
export function epochObject(origin: string, epoch: Epoch): ActObject {
  return { keys: epoch.keys.map(kmsKeyId), ...sealedForm(origin, epoch) };
}

/** The forms of all epochs of a log, in their order. */
export function sealedForms(origin: string, list: readonly Epoch[]): SealedForm[] {
  return list.map((epoch, index) => sealedForm(origin, epoch, list[index + 1]?.from));
}

/** The form in the object of a record; undefined if the record does not define the epoch. */
export function readForm(object: ActObject): SealedForm | undefined {
  return sealedFormSchema.safeParse(object).data;
}
