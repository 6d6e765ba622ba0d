/** What every request must be before anything is read of it: sent to this console, and by one of its own pages. */
import type { IncomingMessage } from 'node:http';
import type { Door } from './doors.ts';
import { english } from './english.ts';
import { Refusal } from './screen.ts';

/**
 * With every answer. Scripts, styles and requests are of the console itself; no other page can frame it, and no text becomes script.
 */
export const HEADERS: Readonly<Record<string, string>> = {
  'Content-Security-Policy': [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self' data:",
    "connect-src 'self'",
    "form-action 'self'",
    "base-uri 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
  ].join('; '),
  'X-Content-Type-Options': 'nosniff',
  'X-Frame-Options': 'DENY',
  'Referrer-Policy': 'no-referrer',
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Permissions-Policy': 'camera=(), microphone=(), geolocation=(), payment=(), usb=()',
  'Cache-Control': 'no-store',
};

/**
 * Refuses a Host that is not this console, which is how a page of a stranger reaches it under a name of its own (DNS rebinding); and
 * a request that a browser made for another site. Browsers say so in Sec-Fetch-Site, and no script can change it. Throws Refusal.
 */
export function checkOrigin(
  { headers, method }: IncomingMessage,
  door: Pick<Door, 'isNamed' | 'nameRemedy'>,
): void {
  const name = URL.parse(`http://${headers.host}`)?.hostname.replaceAll(/[[\]]/g, '') ?? '';
  if (!door.isNamed(name))
    throw new Refusal(421, english.wrongHost(String(headers.host).slice(0, 80)), door.nameRemedy);
  const site = headers['sec-fetch-site'];
  const isOwn = site === 'same-origin' || (site === 'none' && method === 'GET');
  if (!isOwn) throw new Refusal(403, english.foreign, english.foreignHow);
}

const FORM_TYPE = 'application/x-www-form-urlencoded';
const FORM_BYTES_MAX = 64 * 1024;

/** The fields of a form. The server bounds how long it may take. Throws Refusal. */
export async function readFields(request: IncomingMessage): Promise<URLSearchParams> {
  if (request.headers['content-type'] !== FORM_TYPE) throw new Refusal(415, english.stale, english.staleHow);
  const chunks: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const chunk of request) {
      bytes += chunk.length;
      if (bytes > FORM_BYTES_MAX) throw new Refusal(413, english.tooLong, english.staleHow);
      chunks.push(chunk);
    }
  } catch (error) {
    // Whoever sent it went away: nobody reads the answer.
    throw error instanceof Refusal ? error : new Refusal(400, english.stale, english.staleHow);
  }
  return new URLSearchParams(Buffer.concat(chunks).toString());
}

/** The value of a cookie; undefined unless it was sent exactly once. */
export function cookieOf({ headers }: IncomingMessage, name: string): string | undefined {
  const found = (headers.cookie ?? '').split('; ').filter((pair) => pair.startsWith(`${name}=`));
  return found.length === 1 ? found[0]?.slice(name.length + 1) : undefined;
}
