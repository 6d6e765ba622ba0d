/** clamd's version: `ClamAV 1.4.3/27410/Sat Nov 21 08:12:00 2026`, or only the first part if no daily database is loaded. */
export interface ClamdVersion {
  /** `ClamAV 1.4.3`. */
  engine: string;
  /** Number of the daily signature database: `27410`. */
  signatures?: string;
  /** Build time of that database, milliseconds since the epoch. clamd states local time; its zone is assumed to be ours. */
  signaturesBuiltAt?: number;
}

/**
 * clamd's verdict on a document. `incomplete`: clamd reached one of its limits and did not scan the rest.
 * `encrypted`: clamd could not read the document, or a file inside it. `error`: any other answer; not a verdict.
 */
export type ScanAnswer =
  | { kind: 'clean' }
  | { kind: 'found'; name: string }
  | { kind: 'encrypted'; name: string }
  | { kind: 'incomplete'; name: string }
  | { kind: 'error'; text: string };

const VERSION = /^(ClamAV [\w.+~-]{1,64})(?:\/(\d{1,10})\/([\w: ]{1,32}))?$/;

/** Parses an answer to VERSION; undefined for any other text. */
export function parseVersion(text: string): ClamdVersion | undefined {
  const [, engine, signatures, built] = VERSION.exec(text) ?? [];
  if (engine === undefined) return undefined;
  const builtAt = Date.parse(built ?? '');
  return {
    engine,
    ...(signatures !== undefined && { signatures }),
    ...(!Number.isNaN(builtAt) && { signaturesBuiltAt: builtAt }),
  };
}

/** Parses an answer to a scan. Any text is safe: only the exact words `OK` and `FOUND` are verdicts. */
export function parseScanAnswer(text: string): ScanAnswer {
  if (text === 'stream: OK') return { kind: 'clean' };
  const [, found] = /^stream: (.+) FOUND$/.exec(text) ?? [];
  if (found === undefined) return { kind: 'error', text: printable(text) };
  // With `ExtendedDetectionInfo`, some versions add a digest of the document. The digest must not reach logs or clients.
  const name = printable(found.replace(/\([^()]*\)$/, ''));
  if (name.startsWith('Heuristics.Limits.Exceeded')) return { kind: 'incomplete', name };
  if (name.startsWith('Heuristics.Encrypted.')) return { kind: 'encrypted', name };
  return { kind: 'found', name };
}

function printable(text: string): string {
  return text.slice(0, 128).replace(/[^\x20-\x7e]/g, '?');
}
