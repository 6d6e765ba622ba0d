/** How the body of a refused request is discarded. */
import type { IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import t from 'tap';
import { discard } from '../../src/http/requestBody.ts';

const PIECE = Buffer.alloc(64 * 1024);

/** A body of so many pieces, which are all there, and how many of them were read. */
function bodyOf(pieces: number) {
  const body = { read: 0, ended: false };
  const req = new Readable({
    read() {
      if (body.read < pieces) body.read += 1;
      else body.ended = true;
      this.push(body.ended ? null : PIECE);
    },
  });
  return { body, req: req as IncomingMessage };
}

t.test('unwanted bodies take turns, and are read at a bounded pace together', async (t) => {
  const bodies = [bodyOf(40), bodyOf(40), bodyOf(40)];
  const begunAt = performance.now();
  await Promise.all(bodies.map(({ req }) => discard(req, 'a')));
  const tookMs = performance.now() - begunAt;
  t.ok(tookMs > 200, `${tookMs} ms for what would be there at once`);
  t.ok(bodies.every(({ body }) => body.ended));
});

t.test('a body whose client has gone gives its turn to the next', async (t) => {
  const [gone, other] = [bodyOf(1_000_000), bodyOf(20)];
  const discarded = discard(gone.req, 'a');
  gone.req.destroy();
  await Promise.all([discarded, discard(other.req, 'a')]);
  t.ok(other.body.ended);
  t.notOk(gone.body.ended);
});

t.test(
  'a sender of very many unwanted bodies has few connections kept for that, and leaves room for others',
  async (t) => {
    const many = Array.from({ length: 40 }, () => bodyOf(2));
    const other = bodyOf(2);
    await Promise.all([...many.map(({ req }) => discard(req, 'greedy')), discard(other.req, 'modest')]);
    t.equal(many.filter(({ body }) => body.ended).length, 32);
    t.ok(other.body.ended);
  },
);
