import assert from 'node:assert/strict';
import type { Copies } from '../../src/copy/copies.ts';
import type { CipheredFile } from '../../src/copy/spool.ts';
import type { StoredCopy } from '../../src/store/store.ts';

/** A recorded document, which must be there. */
export async function found(copies: Copies, record: StoredCopy, bytes: number): Promise<CipheredFile> {
  const file = await copies.find(record, bytes);
  assert.ok(file, `${record.file} is missing`);
  return file;
}
