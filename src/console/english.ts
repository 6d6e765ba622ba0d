/**
 * All texts of the console in one table, so that another language can be added as a second table. Texts reported by the daemon, such as the
 * detail of a part, are shown unchanged.
 */
import type { Role } from '../base/people.ts';
import { englishAccess } from './englishAccess.ts';
import { englishAudit } from './englishAudit.ts';
import { englishCare } from './englishCare.ts';
import { englishCertificates } from './englishCertificates.ts';
import { englishFind } from './englishFind.ts';
import { englishNow, englishPages } from './englishNow.ts';
import { englishProposals } from './englishProposals.ts';
import { englishSessions } from './englishSessions.ts';
import { englishWebhooks } from './englishWebhooks.ts';

export const english = {
  lang: 'en',
  product: 'pdfseald',
  skip: 'Skip to the content',
  menu: 'Screens',
  signedInAs: 'Signed in as',
  logOut: 'Log out',
  roles: { auditor: 'auditor', operator: 'operator', administrator: 'administrator' } satisfies Record<
    Role,
    string
  >,
  roleMeans: {
    auditor: 'reads everything, changes nothing',
    operator: 'reads everything, requests backups, starts and ends drills, and resends webhooks',
    administrator: 'does everything that the console offers',
  } satisfies Record<Role, string>,
  utc: 'UTC',
  liveOff: 'Live updates have stopped. Reload the page.',
  signIn: 'Sign in',
  signInLead: 'The console has no passwords: a link that works once opens it.',
  signInHow: 'On the machine of the service, run this as root, and open the link that it prints:',
  signInCommand: 'pdfseal console login --as NAME --role ROLE',
  signInRoles: 'A role is one of these:',
  linkTitle: 'Open the console',
  linkLead: (environment: string) => `This link opens the console of ${environment} once.`,
  linkName: 'Name',
  linkRole: 'Role',
  linkNote: 'The audit trail records your changes under this name.',
  linkButton: 'Open the console',
  linkUsed: 'This link has just been used',
  linkUsedWhy:
    'If you pressed the button twice, the first press started your session: continue. If the page then asks you to sign in, request a new link.',
  linkUsedOpen: 'Continue to the console',
  linkUsedHow: 'If you did not use it, end the session: pdfseal console logout --as NAME',
  linkBad: 'This link is not valid',
  linkBadWhy: 'It has been used, is older than five minutes, or is incomplete.',
  linkBadHow: 'Request a new link: pdfseal console login --as NAME --role ROLE',
  loggedOut: 'You are logged out',
  loggedOutLead: 'This session has ended.',
  notFound: 'There is no such page',
  notFoundHow: 'Go back, or choose a screen in the menu.',
  roleLacks: (role: string) => `Your role does not allow this: it requires the role ${role}`,
  roleLacksHow: 'Ask an administrator of this machine for a link with that role.',
  stale: 'This form is out of date',
  staleHow: 'Go back, reload the page and try again.',
  correctHow: 'Go back and correct the form. The request was not carried out.',
  laterHow: 'Try again later. If this happens again, see the screen Now.',
  failed: 'The console had an internal error',
  failedHow: 'The daemon log shows the cause. Reload the page to try again.',
  foreign: 'The console accepts only requests from its own pages',
  foreignHow: 'Type the address of the console into your browser, or open your login link.',
  wrongHost: (name: string) => `This request was sent to ${name}, which is not a name of the console`,
  wrongHostHow: 'Open it as localhost, through the tunnel that `pdfseal console login` prints.',
  tooMany: 'Too many requests at the same time',
  tooManyHow: 'Wait a moment, and reload the page.',
  badMethod: 'The console accepts GET to read a page, and POST to change something',
  tooLong: 'The form is too long',
  formLate: (seconds: number) => `The form was not received within ${seconds} s`,
  formLateHow: 'Check your connection, go back, and try again.',
  nul: 'The request contains the character U+0000',
  nulHow: 'Remove the character, and try again.',
  /** The parts of the daemon, by their names in the status. */
  parts: {
    service: 'Service',
    canary: 'Canary',
    partitions: 'HSM partitions',
    timestamps: 'Time-stamps',
    witnesses: 'Witnesses',
    sealing: 'Sealing',
    scanner: 'Virus scanner',
    queue: 'Queue',
    store: 'Store',
  },
  now: englishNow,
  audit: englishAudit,
  find: englishFind,
  access: englishAccess,
  webhooks: englishWebhooks,
  sessions: englishSessions,
  care: englishCare,
  pages: englishPages,
  certificates: englishCertificates,
  proposals: englishProposals,
};
