import type { Socket } from 'node:net';
import type { Clock } from '../base/clock.ts';
import { ServiceError } from '../base/errors.ts';
import { hashApiKey, isApiKey } from '../job/apikey.ts';
import type { Credential, Scope, Store } from '../store/store.ts';
import type { Caller, Middleware, RequestContext } from './requestContext.ts';

export interface AuthOptions {
  store: Pick<Store, 'credentials'>;
  environment: string;
  /** Each organisation, with the partner organisations that can read its jobs of visibility `partner`. */
  organizations(): Readonly<Record<string, { readonly partners: readonly string[] }>>;
  clock: Clock;
  /** Called for every connection on which a request has a live key. */
  onAccepted?(socket: Socket): void;
}

const BEARER_TOKEN = /^bearer +([^ ].*)$/is;
const CHALLENGE = 'Bearer realm="pdfseald"';

/**
 * Passes requests that have a live API key (RFC 6750, section 2.1) and, if `scope` is given, that scope. It reads the key from the
 * store for every request, so that a new or revoked key takes effect at once.
 */
export function requireKey(options: AuthOptions, scope?: Scope): Middleware {
  return async (ctx, next) => {
    const keyHash = keyHashOf(ctx, options.environment);
    const credential = await requireLive(ctx, keyHash, options);
    const confirm = async () => void (await requireLive(ctx, keyHash, options));
    options.onAccepted?.(ctx.req.socket);
    ctx.state.caller = { ...callerOf(credential, options), confirm };
    if (scope && !allows(credential.scopes, scope)) {
      ctx.set('WWW-Authenticate', `${CHALLENGE}, error="insufficient_scope", scope="${scope}"`);
      throw new ServiceError(
        'insufficient_scope',
        `This operation needs an API key with the scope ${scope}.`,
      );
    }
    await next();
  };
}

/** A key that can change something can also read it. */
function allows(held: readonly Scope[], wanted: Scope): boolean {
  return held.includes(wanted) || (wanted === 'admin:read' && held.includes('admin'));
}

function keyHashOf(ctx: RequestContext, environment: string): string {
  const apiKey = bearerToken(ctx);
  if (!isApiKey(apiKey, environment)) throw refused(ctx);
  return hashApiKey(apiKey);
}

async function requireLive(ctx: RequestContext, keyHash: string, options: AuthOptions): Promise<Credential> {
  const credential = await options.store.credentials.get(keyHash);
  if (!credential || !isLive(credential, options.clock())) throw refused(ctx);
  return credential;
}

function bearerToken(ctx: RequestContext): string {
  const headers = ctx.req.headersDistinct.authorization ?? [];
  const [, token] = BEARER_TOKEN.exec(headers[0]?.trim() ?? '') ?? [];
  if (headers.length === 1 && token !== undefined) return token;
  if (headers.length > 1) throw refused(ctx);
  ctx.set('WWW-Authenticate', CHALLENGE);
  throw new ServiceError(
    'authentication_required',
    'This operation needs an API key, in the header Authorization: Bearer <API key>.',
  );
}

/** The message is the same for every fault of a key, so that guessing reveals nothing. */
function refused(ctx: RequestContext): ServiceError {
  ctx.set('WWW-Authenticate', `${CHALLENGE}, error="invalid_token"`);
  return new ServiceError(
    'invalid_api_key',
    'The API key is not accepted here: it is mistyped, unknown, of another environment, expired or revoked.',
  );
}

function isLive({ expiresAt, revokedAt }: Credential, now: number): boolean {
  return (expiresAt === undefined || now < expiresAt) && (revokedAt === undefined || now < revokedAt);
}

function callerOf(
  { id, clientId, organization }: Credential,
  { organizations }: AuthOptions,
): Omit<Caller, 'confirm'> {
  const partnerOf = Object.entries(organizations())
    .filter(([, { partners }]) => partners.includes(organization))
    .map(([name]) => name);
  return { viewer: { clientId, organization, partnerOf }, keyId: id };
}
