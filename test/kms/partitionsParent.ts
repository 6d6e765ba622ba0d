/** A parent to be killed: opens one partition, prints its child's pid, and signs when told to on stdin. */
import { pino } from 'pino';
import { openPartitions } from '../../src/kms/partitions.ts';
import { CHECKPOINT } from '../support/partitions.ts';

const { token, key } = JSON.parse(process.argv[2] ?? '');
const partitions = await openPartitions({
  partitions: [token],
  keys: [key],
  quorum: { needed: 1 },
  duties: { anything: true },
  sessions: 2,
  signTimeoutMs: 60_000,
  logger: pino({ level: 'silent' }),
});
console.log(partitions.status()[0]?.pid);
process.stdin.once('data', () => {
  partitions.sign(CHECKPOINT).catch(() => {});
  console.log('signing');
});
