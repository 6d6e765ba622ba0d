import { type Clock, toRfc3339 } from '../base/clock.ts';
import type { Limits, Standing } from '../limits/limits.ts';
import { environmentId } from '../manifest/manifest.ts';
import type { IntakeOptions } from './receive.ts';
import { answerJson, callerOf, type Middleware } from './requestContext.ts';
import type { ApiBody } from './schemas.ts';

interface MeOptions {
  limits: Pick<Limits, 'standings'>;
  intake: Pick<IntakeOptions, 'documentBytesMax'>;
  /** Without the `env_` prefix used in answers. */
  environment: string;
  clock: Clock;
}

/** `GET /v1/me`: who the caller is to this service, what it may do, and how much of its limits is left. */
export function answerMe({ limits, intake, environment, clock }: MeOptions): Middleware {
  return (ctx) => {
    const { viewer, keyId, scopes, expiresAt, certificateSha256 } = callerOf(ctx);
    const standings = limits.standings(viewer.clientId);
    const [rate] = standings.filter(({ kind }) => kind === 'rate');
    const now = clock();
    const body: ApiBody<'Me'> = {
      client: viewer.clientId,
      organization: viewer.organization,
      environment: environmentId(environment),
      key_id: keyId,
      scopes: [...scopes],
      ...(expiresAt !== undefined && { expires_at: toRfc3339(expiresAt) }),
      ...(certificateSha256 !== undefined && { certificate_sha256: certificateSha256 }),
      document_bytes_max: intake.documentBytesMax,
      ...(rate && { rate: presentStanding(rate, now) }),
      quotas: standings
        .filter(({ kind }) => kind === 'quota')
        .map((quota) => ({ name: quota.name ?? '', ...presentStanding(quota, now) })),
    };
    ctx.set('Cache-Control', 'no-store');
    answerJson(ctx, 200, body);
  };
}

function presentStanding({ limit, windowMs, remaining, resetMs }: Standing, now: number) {
  return {
    limit,
    window_seconds: Math.ceil(windowMs / 1000),
    remaining,
    resets_at: toRfc3339(now + resetMs),
  };
}
