import { assert } from '../base/assert.ts';

/** Kinds of ids: a job, a webhook endpoint, a message to one. */
export type IdKind = 'job' | 'we' | 'msg';

/** Sorts before every UUID that was issued. */
export const LEAST_UUID = '00000000-0000-0000-0000-000000000000';

const ID = /^(job|we|msg)_([0-9a-f]{32})$/;

/** The UUID of an id of that kind, without dashes; undefined if the id does not have the form this store issues. */
export function uuidOf(kind: IdKind, id: string): string | undefined {
  const [, prefix, uuid] = ID.exec(id) ?? [];
  return prefix === kind ? uuid : undefined;
}

/** Like {@link uuidOf}, but throws BrokenInvariant for an id that this service did not issue. */
export function ownUuid(kind: IdKind, id: string): string {
  const uuid = uuidOf(kind, id);
  assert(uuid !== undefined, `${id} is not an id of this service`);
  return uuid;
}

/** The id of that kind for a UUID as the database writes it, with dashes. */
export function idOf(kind: IdKind, uuid: string): string {
  return `${kind}_${uuid.replaceAll('-', '')}`;
}
