/** Quoted text, other text, or a comma. Whatever follows an unfinished quote cannot be read. */
const PIECE = /"(?:[^"\\]|\\.)*"|[^",]+|,/sy;

/** `wait=N` of a `Prefer` header, in milliseconds; the first one counts, and what cannot be read is ignored (RFC 7240, section 2). */
export function preferredWaitMs(header: string): number | undefined {
  for (const preference of preferencesOf(header)) {
    const [text = ''] = preference.split(';');
    const equals = text.indexOf('=');
    if (equals === -1 || text.slice(0, equals).trim().toLowerCase() !== 'wait') continue;
    const [, quoted, bare] = /^(?:"(\d{1,6})"|(\d{1,6}))$/.exec(text.slice(equals + 1).trim()) ?? [];
    const seconds = quoted ?? bare;
    if (seconds !== undefined) return Number(seconds) * 1000;
  }
  return undefined;
}

/** The members of the list; a comma within quotes is text. None where a quote has no end. */
function preferencesOf(header: string): string[] {
  const members = [''];
  PIECE.lastIndex = 0;
  for (let at = 0; at < header.length; at = PIECE.lastIndex) {
    const [piece] = PIECE.exec(header) ?? [];
    if (piece === undefined) return [];
    if (piece === ',') members.push('');
    else members.push((members.pop() ?? '') + piece);
  }
  return members;
}
