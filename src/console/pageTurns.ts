/** Bounds how much the console does at once, in all and for each person: it shares the daemon with the API. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { Slots } from '../base/slots.ts';
import { Turns } from '../base/turns.ts';
import { english } from './english.ts';
import { Refusal } from './screen.ts';

/** Asked for, those that wait among them. A browser that opens all its tabs again asks for fewer. */
const ASKED = { of: 'requests', max: 64, perClientMax: 16 };
const UNDER_WAY = { of: 'pages', max: 4, perClientMax: 2 };
/** Shorter than what a person takes for a console that does not answer. */
const WAIT_MS_MAX = 10_000;

export class PageTurns {
  readonly #asked = new Slots(ASKED);
  readonly #underWay = new Turns(UNDER_WAY);

  /** Does the work when it is the person's turn. Throws Refusal where the person asked for too much at once, or waited too long. */
  async during<One>(person: string, work: () => One | Promise<One>): Promise<One> {
    const leave = this.#asked.tryTake(person);
    if (leave === undefined) throw tooMany();
    try {
      const give = await this.#underWay.take(person, { waitMs: WAIT_MS_MAX }).catch(() => {
        throw tooMany();
      });
      try {
        // Requests to the API come between two pages, even where a page itself waits for nothing.
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
