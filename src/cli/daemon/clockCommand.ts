import { acceptClock } from '../../ops/daemonOperations.ts';
import { group } from '../command.ts';
import { operationCommand } from '../operationCommand.ts';
import { print, printResult } from '../terminal.ts';
import { forPeople } from '../times.ts';

const acceptCommand = operationCommand('accept', acceptClock, {
  summary: 'trust the date of the machine although it is far ahead',
  description:
    'Has the running daemon trust the clock of this machine again. With clock.trust = "system", the daemon seals nothing while the ' +
    'clock is more than 24 hours ahead of the last trusted date and the time that has passed since, for example after a long stop. ' +
    'Compare the clock with another source first: what is sealed with a wrong date cannot be changed, and nothing is sealed until ' +
    'that date has come. The command is on the audit trail.',
  examples: ['date --utc; pdfseal clock accept --config /etc/pdfseal/production.toml'],
  show: (dates) =>
    printResult(dates, () =>
      print(`the clock is trusted: it is ${forPeople(dates.to)}; expected was ${forPeople(dates.from)}`),
    ),
});

export const clockCommand = group('clock', 'Decides about a clock that no time source vouches for.', [
  acceptCommand,
]);
