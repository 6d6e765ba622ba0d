import { createLogger } from '../../src/base/logger.ts';

/** Logs a few lines and ends as it is told: `exit`, `fatal` (killed right after one) or `return`. */
const logger = createLogger('info');
for (let n = 0; n < 3; n++) logger.info({ n }, 'chatter');
if (process.argv[2] === 'exit') process.exit(70);
if (process.argv[2] === 'fatal') {
  logger.fatal('the last line');
  process.kill(process.pid, 'SIGKILL');
}
