import t from 'tap';
import { traceIdOf } from '../../src/http/trace.ts';

const TRACE_ID = '4bf92f3577b34da6a3ce929d0e0e4736';
const PARENT_ID = '00f067aa0ba902b7';

/** W3C Trace Context, sections 3.2.2 and 4.3. */
const lent: [string, string][] = [
  ['version 00', `00-${TRACE_ID}-${PARENT_ID}-01`],
  ['not sampled', `00-${TRACE_ID}-${PARENT_ID}-00`],
  ['unknown flags', `00-${TRACE_ID}-${PARENT_ID}-ff`],
  ['a later version', `cc-${TRACE_ID}-${PARENT_ID}-01`],
  ['a later version with more fields', `cc-${TRACE_ID}-${PARENT_ID}-01-what-the-future-will-be-like`],
  ['space around', ` 00-${TRACE_ID}-${PARENT_ID}-01 `],
];

const refused: [string, string[] | undefined][] = [
  ['absent', undefined],
  ['empty', ['']],
  ['version ff', [`ff-${TRACE_ID}-${PARENT_ID}-01`]],
  ['version 00 with more fields', [`00-${TRACE_ID}-${PARENT_ID}-01-extra`]],
  ['version 00 with a last dash', [`00-${TRACE_ID}-${PARENT_ID}-01-`]],
  ['a later version with a glued field', [`cc-${TRACE_ID}-${PARENT_ID}-01.what`]],
  ['zero trace-id', [`00-${'0'.repeat(32)}-${PARENT_ID}-01`]],
  ['zero parent-id', [`00-${TRACE_ID}-${'0'.repeat(16)}-01`]],
  ['upper case', [`00-${TRACE_ID.toUpperCase()}-${PARENT_ID}-01`]],
  ['short trace-id', [`00-${TRACE_ID.slice(1)}-${PARENT_ID}-01`]],
  ['sent twice', [`00-${TRACE_ID}-${PARENT_ID}-01`, `00-${TRACE_ID}-${PARENT_ID}-01`]],
];

t.test('a valid traceparent sets the trace id', async (t) => {
  for (const [what, traceparent] of lent) t.equal(traceIdOf([traceparent]), TRACE_ID, what);
});

t.test('a missing or invalid traceparent gets a new trace id', async (t) => {
  for (const [what, traceparents] of refused) {
    const traceId = traceIdOf(traceparents);
    t.match(traceId, /^[0-9a-f]{32}$/, what);
    t.not(traceId, TRACE_ID, what);
    t.not(traceId, traceIdOf(traceparents), what);
  }
});
