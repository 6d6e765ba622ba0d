/** Parts of pages about webhook endpoints on the screen Access. */
import { OperatorError } from '../base/errors.ts';
import { type ListedEndpoint, withDeliveries } from '../ops/webhookMessages.ts';
import type { Store } from '../store/store.ts';
import type { WebhookEndpoint } from '../store/webhookStore.ts';
import { english } from './english.ts';
import type { Html } from './html.ts';
import { Refusal, refuseWith } from './screen.ts';
import { reaches, type Session } from './sessions.ts';
import { state } from './values.ts';

const words = english.webhooks;

export type Faring = ReturnType<typeof faring>;

/** All endpoints, with their delivery counts. */
export async function allFaring(
  { webhooks }: Pick<Store, 'webhooks'>,
  endpoints: readonly WebhookEndpoint[],
  now: number,
): Promise<Faring[]> {
  return (await withDeliveries(webhooks, endpoints, now)).map(faring);
}

function faring(shown: ListedEndpoint) {
  const { deliveries: tally } = shown;
  const { last_failure: failure, last_delivered_at: delivered } = tally;
  const isFailing = failure !== undefined && (delivered === undefined || delivered < failure.at);
  const is =
    shown.disabled_reason === 'gone'
      ? 'gone'
      : shown.status === 'disabled'
        ? 'disabled'
        : isFailing
          ? 'failing'
          : 'enabled';
  const isTroubled = is === 'gone' || is === 'failing' || tally.dead_letters > 0;
  return { shown, tally, is, isTroubled } as const;
}

export function endpointState(is: Faring['is']): Html {
  const marks = { enabled: 'good', failing: 'bad', disabled: 'warning', gone: 'bad' } as const;
  return state(marks[is], words.states[is]);
}

/** Passes on a refusal by the store as one that the user can remedy. */
export function refuseEndpointAct(error: unknown): never {
  const code = error instanceof OperatorError ? error.code : undefined;
  if (code === 'not_found') throw new Refusal(404, words.noEndpoint, words.noEndpointHow);
  if (code === 'changed_meanwhile') throw new Refusal(409, words.changedMeanwhile, words.changedMeanwhileHow);
  return refuseWith(english.access.badHow)(error);
}

/** The path of an endpoint's URL can be its secret, so it is shown only to people who may change the endpoint. */
export function addressOf(url: string, { person }: Session): string {
  const { origin, pathname, search } = new URL(url);
  if (reaches(person.role, 'administrator')) return url;
  return `${origin}${pathname + search === '/' ? '/' : '/…'}`;
}
