import type { Socket } from 'node:net';
import type { Clock } from '../base/clock.ts';
import { ServiceError } from '../base/errors.ts';
import { hashApiKey, hashCertificateName, isApiKey } from '../job/apikey.ts';
import { isLiveAt } from '../store/apiKeys.ts';
import type { Credential, Scope } from '../store/credentialStore.ts';
import type { Store } from '../store/store.ts';
import type { TlsPeer } from '../web/clientCertificate.ts';
import type { Caller, Middleware, RequestContext } from './requestContext.ts';

export interface AuthOptions {
  store: Pick<Store, 'credentials' | 'serviceTime'>;
  environment: string;
  /** Each organization, with the partner organizations that can read its jobs of visibility `partner`. */
  organizations(): Readonly<Record<string, { readonly partners: readonly string[] }>>;
  clock: Clock;
  /** The TLS client of a connection. If absent, client certificates are not supported. Headers are never used for this. */
  peerOf?(socket: Socket): TlsPeer;
  /** Called for every connection on which a request has a valid key. */
  onAccepted?(socket: Socket): void;
}

const BEARER_TOKEN = /^bearer +([^ ].*)$/is;
const CHALLENGE = 'Bearer realm="pdfseald"';
/** A command starts with service time as last saved: up to a minute behind that of the daemon. */
const SERVICE_TIME_SLACK_MS = 120_000;

/**
 * Passes requests that have a valid API key (RFC 6750, section 2.1), or a client certificate that is mapped to a client, and, if `scope` is
 * given, that scope. It reads the store for every request, so that a new or revoked key takes effect at once.
 */
export function requireKey(options: AuthOptions, scope?: Scope): Middleware {
  return async (ctx, next) => {
    const credential = await requireLive(ctx, options);
    const confirm = async () => {
      if ((await requireLive(ctx, options)).id !== credential.id) throw unauthenticated(ctx, CHANGED);
    };
    options.onAccepted?.(ctx.req.socket);
    const { id: keyId, clientId, organization, scopes, expiresAt, certificateSha256 } = credential;
    const partnerOf = Object.entries(options.organizations())
      .filter(([, { partners }]) => partners.includes(organization))
      .map(([name]) => name);
    const viewer = { clientId, organization, partnerOf };
    ctx.state.caller = { viewer, keyId, scopes, expiresAt, certificateSha256, confirm };
    // A key that can change something can also read it.
    const isAllowed =
      !scope || scopes.includes(scope) || (scope === 'admin:read' && scopes.includes('admin'));
    if (!isAllowed) {
      ctx.set('WWW-Authenticate', `${CHALLENGE}, error="insufficient_scope", scope="${scope}"`);
      throw new ServiceError(
        'insufficient_scope',
        `This operation needs an API key with the scope ${scope}.`,
      );
    }
    await next();
  };
}

/** The credential of a request; with the client certificate if that was used instead of a key. */
type LiveCredential = Credential & Pick<Caller, 'certificateSha256'>;

/** A request with the header Authorization is judged by its key, regardless of the certificate of the connection. */
async function requireLive(ctx: RequestContext, options: AuthOptions): Promise<LiveCredential> {
  const peer: TlsPeer = options.peerOf?.(ctx.req.socket) ?? { isRequired: false };
  if (peer.isRequired && peer.certificate === undefined) throw refusedPeer(ctx, peer);
  if (ctx.req.headers.authorization === undefined) return ofCertificate(ctx, peer, options);
  const credential = await liveOf(hashApiKey(apiKeyOf(ctx, options.environment)), options);
  if (credential === undefined) throw refused(ctx);
  if (credential.boundTo !== undefined && credential.boundTo !== peer.certificate?.sha256)
    throw refusedUnbound(ctx, peer);
  return credential;
}

/**
 * The first certificate name that is mapped to a client counts: the subject is tried before the alternative names. After a revoked name, no
 * other is tried: losing a name must not turn a certificate into another client.
 */
async function ofCertificate(
  ctx: RequestContext,
  peer: TlsPeer,
  options: AuthOptions,
): Promise<LiveCredential> {
  const { certificate } = peer;
  if (certificate === undefined) throw refusedPeer(ctx, peer);
  for (const name of certificate.names) {
    const keyHash = hashCertificateName(name);
    const credential = await liveOf(keyHash, options);
    if (credential !== undefined) return { ...credential, certificateSha256: certificate.sha256 };
    if ((await options.store.credentials.get(keyHash))?.revokedAt !== undefined) break;
  }
  const shown = certificate.names.map((name) => JSON.stringify(name)).join(', ');
  throw unauthenticated(
    ctx,
    `The client certificate stands for no client here. Its names are: ${shown || 'none'}. ` +
      'Ask the administrator to add one of them (pdfseal keys issue --certificate-name), or send an API key.',
  );
}

async function liveOf(keyHash: string, { store, clock }: AuthOptions): Promise<Credential | undefined> {
  const credential = await store.credentials.get(keyHash);
  if (credential === undefined || !isLiveAt(credential, clock())) return undefined;
  const { since, createdAt, expiresAt, serviceEnd } = credential;
  // Setting the clock back does not extend the life of a key while the service runs.
  const hasServed =
    (serviceEnd !== undefined && store.serviceTime.now() > serviceEnd + SERVICE_TIME_SLACK_MS) ||
    (expiresAt !== undefined &&
      store.serviceTime.since(since) > expiresAt - createdAt + SERVICE_TIME_SLACK_MS);
  return hasServed ? undefined : credential;
}

/** The API key of a request, in the valid form for this environment. It may still be unknown. */
export function apiKeyOf(ctx: RequestContext, environment: string): string {
  const headers = ctx.req.headersDistinct.authorization ?? [];
  const [, apiKey] = BEARER_TOKEN.exec(headers[0]?.trim() ?? '') ?? [];
  if (headers.length <= 1 && apiKey === undefined) throw unauthenticated(ctx, NO_KEY);
  if (headers.length > 1 || apiKey === undefined || !isApiKey(apiKey, environment)) throw refused(ctx);
  return apiKey;
}

const CHANGED = 'The client of this connection has changed since the request began. Send the request again.';
const NO_KEY = 'This operation needs an API key, in the header Authorization: Bearer <API key>.';

function unauthenticated(ctx: RequestContext, message: string): ServiceError {
  ctx.set('WWW-Authenticate', CHALLENGE);
  return new ServiceError('authentication_required', message);
}

/**
 * The request has no accepted certificate, and no key or the site requires a certificate. This cannot change during the connection, so it
 * is closed.
 */
function refusedPeer(ctx: RequestContext, { isRequired, fault }: TlsPeer): ServiceError {
  if (fault === undefined) return unauthenticated(ctx, NO_KEY);
  ctx.set('Connection', 'close');
  const remedy = isRequired ? '' : ', or send an API key';
  return unauthenticated(
    ctx,
    `The client certificate ${fault}. Connect again with a certificate that is valid${remedy}.`,
  );
}

function refusedUnbound(ctx: RequestContext, { certificate, fault }: TlsPeer): ServiceError {
  let found = fault === undefined ? 'presents none' : `presents one that ${fault}`;
  if (certificate !== undefined) found = `presents another (SHA-256 ${certificate.sha256})`;
  return refused(
    ctx,
    `This API key is bound to a client certificate, and the connection ${found}. Connect over TLS with that certificate; if it was ` +
      'renewed, ask the administrator for a key that is bound to the new one (pdfseal keys rotate --bind-certificate).',
  );
}

/** The message is the same for every fault of a key, so that guessing reveals nothing. */
const NOT_ACCEPTED =
  'The API key is not accepted here: it is mistyped, unknown, of another environment, expired or revoked.';

function refused(ctx: RequestContext, message = NOT_ACCEPTED): ServiceError {
  ctx.set('WWW-Authenticate', `${CHALLENGE}, error="invalid_token"`);
  return new ServiceError('invalid_api_key', message);
}
