import type { IncomingMessage } from 'node:http';
import { PassThrough } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { IncomingBody } from '../../src/net/incomingBody.ts';

const IDLE_MS = 500;

t.test('after a hold of ours the sender has the whole idle time again', async (t) => {
  const body = new IncomingBody(new PassThrough() as unknown as IncomingMessage, { idleTimeoutMs: IDLE_MS });
  const outcome = t.rejects(
    body.read(() => {}),
    { code: 'body_timeout' },
  );
  const hold = sleep(IDLE_MS * 0.8);
  body.hold(hold);
  await hold;
  const releasedAt = performance.now();
  await outcome;
  const waitedMs = performance.now() - releasedAt;
  t.ok(waitedMs > IDLE_MS * 0.9, `then it is waited for, here ${waitedMs} ms`);
});
