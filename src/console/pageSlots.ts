/** Limits concurrent work of the console, in total and for each person, because it shares the daemon with the API. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { SlotQueue } from '../base/slotQueue.ts';
import { Slots } from '../base/slots.ts';
import { english } from './english.ts';
import { Refusal } from './screen.ts';

/** Requests in progress or waiting. A browser that reopens all its tabs sends fewer. */
const ASKED = { of: 'requests', max: 64, perClientMax: 16 };
const UNDER_WAY = { of: 'pages', max: 4, perClientMax: 2 };
/** Short enough that a person does not conclude that the console hangs. */
const WAIT_MS_MAX = 10_000;

export class PageSlots {
  readonly #asked = new Slots(ASKED);
  readonly #underWay = new SlotQueue(UNDER_WAY);

  /** Runs the work when it is the person's turn. Throws Refusal if the person has too many requests at once, or waited too long. */
  async during<One>(person: string, work: () => One | Promise<One>): Promise<One> {
    const leave = this.#asked.tryTake(person);
    if (leave === undefined) throw tooMany();
    try {
      const give = await this.#underWay.take(person, { waitMs: WAIT_MS_MAX }).catch(() => {
        throw tooMany();
      });
      try {
        // Lets API requests run between two pages, even if a page does not wait for anything.
        await nextTurn();
        return await work();
      } finally {
        give();
      }
    } finally {
      leave();
    }
  }
}

function tooMany(): Refusal {
  return new Refusal(503, english.tooMany, english.tooManyHow);
}
