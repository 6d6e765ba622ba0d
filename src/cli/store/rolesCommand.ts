import { loadConfig } from '../../config/config.ts';
import { makeRolesAt } from '../../store/engines.ts';
import { command } from '../command.ts';
import { CONFIG } from '../options.ts';
import { printResult } from '../terminal.ts';

export const rolesCommand = command('roles', {
  description:
    'Creates the PostgreSQL roles pdfseal_front, pdfseal_seal and pdfseal_admin if the server lacks them, and grants them their rights in ' +
    'the database of the log, and no others. The configuration must log in as the owner of the tables. If that role may not create roles, ' +
    'the command says what a superuser has to execute first. It also brings the tables up to date. Run it again at any time.',
  options: [CONFIG],
  examples: [
    'pdfseal store roles --config /etc/pdfseal/production.toml',
    'runuser -u postgres -- psql --command=\'GRANT pdfseal_front TO "front1"\' --command=\'ALTER ROLE "front1" CONNECTION LIMIT 20\'',
  ],
  async run({ config }) {
    const roles = await makeRolesAt(loadConfig(config, { files: 'unused' }).store);
    printResult({ roles }, `${roles.join(', ')}: they have their rights in the database of the log`);
  },
});
