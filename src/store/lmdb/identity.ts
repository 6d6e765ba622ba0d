import { OperatorError } from '../../base/errors.ts';
import { withoutMark } from '../move.ts';
import { encodeRecord, parseRecord } from '../records.ts';
import type { StoreIdentity } from '../store.ts';
import type { Change } from './commits.ts';
import type { Databases } from './databases.ts';

const IDENTITY_KEY = Buffer.from('identity');

/** Throws OperatorError if there is none, or if a newer program wrote a layout that this one does not know. */
export function readIdentity({ identity }: Databases, path: string, schema: number): StoreIdentity {
  const bytes = identity.getBinary(IDENTITY_KEY);
  if (bytes === undefined) throw new OperatorError(`${path} is not a store of pdfseald`);
  const found = parseRecord<StoreIdentity>(bytes);
  if (withoutMark(found).schema > schema) {
    throw new OperatorError(
      `${path} was made by a newer pdfseald (store schema ${found.schema}, this program knows ${schema}): install that version`,
    );
  }
  return found;
}

export function identityChange({ identity: database }: Databases, identity: StoreIdentity): Change {
  return { database, key: IDENTITY_KEY, value: encodeRecord(identity) };
}
