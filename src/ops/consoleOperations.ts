/** Operations that let people into the console, and out. */
import * as z from 'zod';
import { PERSON_NAME_RULE, ROLES, readPersonName } from '../base/people.ts';
import { WIRE } from '../health/sections/section.ts';
import { actBy } from '../store/acts.ts';
import { operation } from './operation.ts';
import { readBy } from './operationFields.ts';
import { type DaemonParts, existing } from './operationParts.ts';

const NO_CONSOLE = 'No console is configured: add the table [console], and restart the daemon.';

/** The name comes back in the composed form (NFC), so that one name is one text. */
const personName = readBy(readPersonName, PERSON_NAME_RULE);

export const linkConsole = operation({
  name: 'console.link',
  says: 'Makes a one-time link to the console for a person.',
  route: { id: 'linkConsole', method: 'post', path: '/console/link', failures: ['not_found'] },
  role: 'owner',
  needs: 'daemon',
  acts: ['console.invite'],
  fields: {
    name: {
      says: 'whom the link is for: acts are recorded with this name',
      schema: personName,
      typed: '<name>',
    },
    role: {
      says: 'what the person may do',
      schema: z.enum(ROLES, `must be one of ${ROLES.join(', ')}.`),
      typed: '<role>',
    },
  },
  answer: {
    name: 'ConsoleLink',
    says: 'The link, which is nowhere else.',
    schema: z.object({
      link: z
        .string()
        .describe('The secret of the link: `/login/<link>` opens the console once, within five minutes.'),
      name: z.string(),
      role: z.enum(ROLES),
    }),
  },
  async run({ console, store }: DaemonParts, person, actor) {
    const door = existing(console, NO_CONSOLE);
    await store.trail.append(actBy(actor, 'console.invite', { ...person }));
    return { link: door.invite(person), ...person };
  },
});

export const endConsoleSessions = operation({
  name: 'console.logout',
  says: 'Ends all sessions of the console and all links to it, or those of one person.',
  route: { id: 'endConsoleSessions', method: 'post', path: '/console/logout', failures: ['not_found'] },
  role: 'owner',
  needs: 'daemon',
  acts: ['console.logout', 'console.logout_all'],
  fields: {
    name: {
      says: 'the sessions and links of this person (default: of all people)',
      schema: personName.optional(),
      typed: '<name>',
    },
  },
  answer: {
    name: 'ConsoleLogout',
    says: 'They are ended.',
    schema: z.object({ sessions: WIRE.count.describe('How many there were.') }),
  },
  async run({ console, store }: DaemonParts, { name }, actor) {
    const sessions = existing(console, NO_CONSOLE).endAll(name);
    const act = name === undefined ? 'console.logout_all' : 'console.logout';
    const object = { ...(name !== undefined && { name }), sessions };
    await store.trail.append(actBy(actor, act, object));
    return { sessions };
  },
});
