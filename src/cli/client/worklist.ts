import { readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { unusable } from '../../base/atomicFile.ts';
import type { DocumentDigests } from '../../job/job.ts';
import type { TrustFile } from '../../manifest/trustFile.ts';
import { parseReceiptJson } from '../../prove/verify/receiptText.ts';
import { createVerifier, type Verdict } from '../../prove/verify/verify.ts';
import { filesBelow, isFolder } from '../files.ts';

/** A document to be sealed, and the place for its receipt. */
export interface Work {
  /** Its name in messages. */
  name: string;
  /** Path of the receipt without its ending: `<stem>.receipt.json`. */
  stem: string;
  /** The document, if it is on this machine. */
  path?: string;
  /** The URL from which the service fetches it. */
  source?: { url: string; checksum?: string };
  /** Whether it was found in a folder: then it is skipped if its receipt exists. */
  found: boolean;
}

/** The named files, and below named folders every `*.pdf`, in the order of their names. Links to folders are not followed. */
export function findDocuments(paths: readonly string[]): Work[] {
  return paths.flatMap((path) => {
    if (!isFolder(path)) return [workOf(path, false)];
    return filesBelow(path)
      .filter(isDocument)
      .map((file) => workOf(file, true));
  });
}

function workOf(path: string, found: boolean): Work {
  return { name: path, stem: path, path, found };
}

function isDocument(path: string): boolean {
  return /\.pdf$/i.test(path) && !/(\.stripped|\.pdf\.sealed)\.pdf$/i.test(path);
}

/** Hosted documents, the n-th with the n-th local copy or checksum. A receipt goes next to the copy, or into the current folder. */
export function hostedDocuments(
  urls: readonly string[],
  paths: readonly string[],
  checksums: readonly string[],
): Work[] {
  return urls.map((url, n) => {
    const [path, checksum] = [paths[n], checksums[n]];
    const name = basename(decodeName(new URL(url).pathname)) || 'document.pdf';
    return {
      name: path ?? new URL(url).origin + new URL(url).pathname,
      stem: path ?? name,
      path,
      source: { url, checksum },
      found: false,
    };
  });
}

function decodeName(pathname: string): string {
  try {
    return decodeURIComponent(pathname).replaceAll('\0', '');
  } catch {
    return pathname;
  }
}

export type Held = 'none' | 'own' | 'other';

/** Judges whether a receipt is for a document; with a trust file, also by its signatures. */
export function receiptKeeper(
  trust: TrustFile | undefined,
): (path: string, document: DocumentDigests) => Held {
  const verify = createVerifier(trust ?? { logs: [], timestampAuthorities: [] });
  return (path, document) => {
    const text = readIfThere(path);
    if (text === undefined) return 'none';
    const verdict = verify({ document, receipt: parseReceiptJson(text) });
    const isGood = trust === undefined ? agrees(verdict) : verdict.outcome === 'good';
    return isGood && verdict.matches === 'document' ? 'own' : 'other';
  };
}

/** Verifies everything that needs no keys: the receipt is complete, for this document, and its leaf is in the tree of its checkpoint. */
function agrees({ checks }: Verdict): boolean {
  const names = ['receipt', 'document', 'manifest', 'leaf'];
  return (
    checks.filter(({ name, outcome }) => names.includes(name) && outcome === 'passed').length === names.length
  );
}

function readIfThere(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw unusable('read', path, cause);
  }
}
