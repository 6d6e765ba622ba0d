import { createLogger } from '../../src/base/logger.ts';

/** Logs a few lines and ends as it is told: `exit`, `fatal` (killed right after one), `flood` (exits after many) or `return`. */
const logger = createLogger('info');
const [, , end] = process.argv;
for (let n = 0; n < (end === 'flood' ? 10_000 : 3); n++) logger.info({ n }, 'chatter');
if (end === 'exit') process.exit(70);
if (end === 'fatal') {
  logger.fatal('the last line');
  process.kill(process.pid, 'SIGKILL');
}
if (end === 'flood') {
  logger.fatal('the last line');
  process.exit(70);
}
