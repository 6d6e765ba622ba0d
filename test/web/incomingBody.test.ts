import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { PassThrough } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { IncomingBody } from '../../src/web/incomingBody.ts';

const IDLE_MS = 500;

t.test('after a pause by the service, the sender has the full idle time again', async (t) => {
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

/** A request whose body arrived together with its head. */
function arrived(text: string): IncomingMessage {
  const req = Object.assign(new PassThrough(), { complete: true });
  req.end(text);
  return req as unknown as IncomingMessage;
}

t.test('a body that has already arrived is read at once', async (t) => {
  const req = arrived('body');
  const taken: string[] = [];
  const ended = once(req, 'end');
  const read = new IncomingBody(req, { idleTimeoutMs: IDLE_MS }).read((chunk) => taken.push(String(chunk)));
  t.strictSame(taken, ['body']);
  await read;
  await ended;
  t.equal(req.listenerCount('data'), 0);
});

t.test('a body that has already arrived can fail like any other', async (t) => {
  const fault = new Error('a fault');
  const options = { idleTimeoutMs: IDLE_MS };
  const refuse = () => {
    throw fault;
  };
  await t.rejects(new IncomingBody(arrived('body'), options).read(refuse), fault, 'when it is refused');

  const held = new IncomingBody(arrived('body'), options);
  const hold = () => held.hold(sleep(1).then(refuse));
  await t.rejects(held.read(hold), fault, 'when its hold fails');

  const failed = new IncomingBody(arrived('body'), options);
  await t.rejects(
    failed.read(() => failed.fail(fault)),
    fault,
    'when its consumer gives up',
  );
});

t.test('a pause delays the end of a body that has already arrived', async (t) => {
  const body = new IncomingBody(arrived('body'), { idleTimeoutMs: IDLE_MS });
  const { promise, resolve } = Promise.withResolvers<void>();
  let isRead = false;
  const read = body
    .read(() => body.hold(promise))
    .then(() => {
      isRead = true;
    });
  await sleep(10);
  t.notOk(isRead);
  resolve();
  await read;
});
