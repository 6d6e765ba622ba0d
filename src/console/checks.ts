/** Checks that every request must pass before its content is read: it must be for this console, and come from one of its pages. */
import type { IncomingMessage } from 'node:http';
import { BoundedBytes } from '../base/bounded.ts';
import { IncomingBody } from '../web/incomingBody.ts';
import type { Door } from './doors.ts';
import { english } from './english.ts';
import { Refusal } from './screen.ts';

/**
 * Headers of every answer. Scripts, styles and requests may only come from the console itself, no other page can frame it, and text cannot
 * become script.
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
 * Refuses a Host that is not this console: a foreign page could otherwise reach it under a host name of its own (DNS rebinding). Also
 * refuses a request that a browser made for another site. Browsers send this in Sec-Fetch-Site, which scripts cannot change. Throws
 * Refusal.
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

/** Browsers send a form in one piece. A client without a session that takes longer would occupy a place needed by others. */
export const STRANGER_FORM_MS_MAX = 5_000;
export const FORM_MS_MAX = 30_000;

/** The fields of a form, which may take `msMax` to arrive. Throws Refusal, or ServiceError. */
export async function readFields(request: IncomingMessage, msMax: number): Promise<URLSearchParams> {
  if (request.headers['content-type'] !== FORM_TYPE) throw new Refusal(415, english.stale, english.staleHow);
  const form = new BoundedBytes(FORM_BYTES_MAX);
  const body = new IncomingBody(request, { idleTimeoutMs: msMax });
  using _late = setTimeout(
    () => body.fail(new Refusal(408, english.formLate(msMax / 1000), english.formLateHow)),
    msMax,
  );
  await body.read((chunk) => {
    if (!form.add(chunk)) throw new Refusal(413, english.tooLong, english.staleHow);
  });
  return new URLSearchParams(form.bytes.toString());
}

/** The value of a cookie; undefined unless it was sent exactly once. */
export function cookieOf({ headers }: IncomingMessage, name: string): string | undefined {
  const found = (headers.cookie ?? '').split('; ').filter((pair) => pair.startsWith(`${name}=`));
  return found.length === 1 ? found[0]?.slice(name.length + 1) : undefined;
}
