import { readFileSync } from 'node:fs';
import type { Config } from '../config/config.ts';
import { parseWitnessPolicy } from '../log/witnessPolicy.ts';
import { submissionUrl } from '../watch/witnessClient.ts';
import type { Destination, Destinations } from '../web/egressServer.ts';
import { HttpClient, readAuthorities } from '../web/httpClient.ts';
import { TargetPolicy } from '../web/policy.ts';

/** In addition to fetching documents, the daemon probes up to 256; and some requests are being closed. */
const SOURCE_REQUESTS_SPARE = 256 + 16;
/** Deliveries that are being closed. */
const WEBHOOK_REQUESTS_SPARE = 16;
/** Requests for time-stamps and cosignatures follow one another; only a few overlap. */
const AUTHORITY_REQUESTS_MAX = 32;
const WITNESS_REQUESTS_MAX = 16;
const WEBHOOK_CONNECTIONS_IDLE = 4;

/** The purpose under which the daemon sends requests to the external authority of that name. */
export function authorityPurpose(name: string): string {
  return `authority:${name}`;
}

/** Whether the configuration names any destination. */
export function talksOutwards({ sources, webhooks, timestamp, witness }: Config): boolean {
  const isAsked = timestamp.authorities.some((name) => name in timestamp.remotes);
  return sources.allow.length + webhooks.allow.length > 0 || isAsked || witness.policy !== undefined;
}

/**
 * Everything that the configuration permits the daemon to send to. Authorities and witnesses are asked only at their configured URLs.
 * Documents can be fetched from the targets of `sources.allow`, and events posted to those of `webhooks.allow`: with a wildcard there, to
 * any public address. Throws OperatorError, or the error of the file system.
 */
export function destinationsOf({ sources, webhooks, timestamp, witness, log }: Config): Destinations {
  const destinations = new Map<string, Destination>();
  destinations.set('source', {
    client: new HttpClient({ policy: new TargetPolicy(sources.allow), ca: readAuthorities(sources) }),
    methods: ['GET', 'HEAD'],
    headers: ['accept-encoding', 'want-repr-digest'],
    redirectsMax: 3,
    requestsMax: sources.concurrentMax + SOURCE_REQUESTS_SPARE,
  });
  destinations.set('webhook', {
    client: new HttpClient({
      policy: new TargetPolicy(webhooks.allow),
      ca: readAuthorities(webhooks),
      idleConnectionsMax: WEBHOOK_CONNECTIONS_IDLE,
    }),
    methods: ['POST'],
    headers: ['content-type', 'webhook-id', 'webhook-timestamp', 'webhook-signature'],
    redirectsMax: 0,
    requestsMax: webhooks.inFlightMax + WEBHOOK_REQUESTS_SPARE,
  });
  for (const [name, { url, tlsCaFile }] of Object.entries(timestamp.remotes)) {
    if (!timestamp.authorities.includes(name)) continue;
    destinations.set(authorityPurpose(name), {
      client: new HttpClient({
        ca: readAuthorities({ caFile: tlsCaFile, publicCas: false }),
        idleConnectionsMax: 1,
      }),
      urls: new Set(url === undefined ? [] : [new URL(url).href]),
      methods: ['POST'],
      headers: ['content-type'],
      redirectsMax: 0,
      requestsMax: AUTHORITY_REQUESTS_MAX,
    });
  }
  if (witness.policy !== undefined) {
    const { witnesses } = parseWitnessPolicy(readFileSync(witness.policy, 'utf8'), log.origin);
    const urls = witnesses.flatMap(({ url }) => (url === undefined ? [] : [submissionUrl(url).href]));
    destinations.set('witness', {
      client: new HttpClient({ ca: readAuthorities(witness), idleConnectionsMax: 1 }),
      urls: new Set(urls),
      methods: ['POST'],
      headers: ['content-type'],
      redirectsMax: 0,
      requestsMax: 2 * urls.length + WITNESS_REQUESTS_MAX,
    });
  }
  return destinations;
}
