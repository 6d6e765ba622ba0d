/** What clamd says of itself: `ClamAV 1.4.3/27410/Sat Nov 21 08:12:00 2026`, without the rest where no daily database is loaded. */
export interface ClamdVersion {
  /** `ClamAV 1.4.3`. */
  engine: string;
  /** Number of the daily signature database: `27410`. */
  signatures?: string;
  /** When that was built, milliseconds since the epoch; clamd tells it in local time, and its zone is taken for ours. */
  signaturesBuiltAt?: number;
}

/**
 * What clamd says of a document. `incomplete`: it met one of its limits, so that it knows nothing of the rest. `encrypted`:
 * it could not look into it, or into a file inside. `error`: anything else, which is no verdict.
 */
export type ScanAnswer =
  | { kind: 'clean' }
  | { kind: 'found'; name: string }
  | { kind: 'encrypted'; name: string }
  | { kind: 'incomplete'; name: string }
  | { kind: 'error'; text: string };

const VERSION = /^(ClamAV [\w.+~-]{1,64})(?:\/(\d{1,10})\/([\w: ]{1,32}))?$/;

/** Undefined for what is no answer to VERSION. */
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

/** Any text is safe: only exactly `OK` and `FOUND` are verdicts. */
export function parseScanAnswer(text: string): ScanAnswer {
  if (text === 'stream: OK') return { kind: 'clean' };
  const [, found] = /^stream: (.+) FOUND$/.exec(text) ?? [];
  if (found === undefined) return { kind: 'error', text: printable(text) };
  const name = signatureName(found);
  if (name.startsWith('Heuristics.Limits.Exceeded')) return { kind: 'incomplete', name };
  if (name.startsWith('Heuristics.Encrypted.')) return { kind: 'encrypted', name };
  return { kind: 'found', name };
}

/** With `ExtendedDetectionInfo` some versions add a digest of the document, which must go nowhere. */
function signatureName(found: string): string {
  return printable(found.replace(/\([^()]*\)$/, ''));
}

function printable(text: string): string {
  return text.slice(0, 128).replace(/[^\x20-\x7e]/g, '?');
}
