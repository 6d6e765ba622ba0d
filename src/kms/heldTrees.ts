import { treesPath } from './duties.ts';
import type { TokenOptions, Tree } from './protocol.ts';
import { SignerFailure } from './signerFailure.ts';
import { SignerProcess } from './signerProcess.ts';
import { readTrees } from './treeFile.ts';

/** Short, because a unit only reads a file. */
const TIMEOUT_MS = 5_000;

/**
 * The trees that the signer of a log key signed last: a unit is queried, and a child's file is read, both without the token. Undefined if a
 * child's file is missing. Throws SignerFailure, or the error of the file system.
 */
export async function heldTrees(
  token: TokenOptions,
  { origin, folder, spki }: { origin: string; folder: string; spki: string },
): Promise<readonly Tree[] | undefined> {
  if (token.signer === undefined) return readTrees(treesPath({ origin, folder, isUnit: false }, spki));
  const signer = new SignerProcess(token, { name: 'check', duties: {}, sessions: 1 }, () => {});
  try {
    return await signer.ask({ kind: 'heldTrees' }, TIMEOUT_MS);
  } finally {
    void signer.end(new SignerFailure('signer_closed', 'the signer has been asked'));
  }
}
