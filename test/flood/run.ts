/** `node test/flood/run.ts [--seconds N] [--pipelined N] [--connections N] [--honest N]`: prints the report; ends with 1 if a promise was broken. */
import { parseArgs } from 'node:util';
import { flood, PEAK_MIB_MAX } from './flood.ts';

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '300' },
    pipelined: { type: 'string', default: '1000000' },
    connections: { type: 'string', default: '16384' },
    honest: { type: 'string', default: '64' },
  },
});
const ends: (() => unknown)[] = [];
try {
  const report = await flood(
    { teardown: (end) => ends.unshift(end) },
    {
      seconds: Number(values.seconds),
      pipelined: Number(values.pipelined),
      connections: Number(values.connections),
      honest: Number(values.honest),
    },
  );
  const { refused, fewest, beforeMib, peakMib } = report;
  if (refused > 0 || fewest === 0 || peakMib - beforeMib > PEAK_MIB_MAX) process.exitCode = 1;
  console.log(JSON.stringify(report));
} finally {
  for (const end of ends) await end();
}
