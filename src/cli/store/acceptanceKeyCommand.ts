import { createFileAtomically } from '../../base/atomicFile.ts';
import { OperatorError } from '../../base/errors.ts';
import { newAcceptanceKey } from '../../store/acceptanceKeys.ts';
import { argument, command } from '../command.ts';
import { note, printResult } from '../terminal.ts';

export const acceptanceKeyCommand = command('make-acceptance-key', {
  summary: 'create the key with which nodes mark the jobs that they accept',
  description:
    'Creates an acceptance key, 32 random bytes, in a file that only its owner can read, for store.acceptance_key_credential or ' +
    'store.acceptance_key_file. Each node writes a MAC by this key beside a job that it accepts into PostgreSQL. The daemon that seals ' +
    'then fails jobs that somebody else wrote into the database. Every node of the environment needs the same file. The command never ' +
    'replaces a file.',
  arguments: [argument('<file>', 'the file to write')],
  examples: ['pdfseal store make-acceptance-key /etc/pdfseal/production.pins/acceptance'],
  run(_, file) {
    if (!createFileAtomically(file, newAcceptanceKey(), 0o600))
      throw new OperatorError(`${file} exists already, and this command replaces no file`);
    printResult({ file }, `key    ${file}  made`);
    note(
      'Next: copy the file to every front and to every other machine, and name it there, before you restart the daemon that seals.',
    );
  },
});
