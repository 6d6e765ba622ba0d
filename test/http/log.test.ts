import { createHash } from 'node:crypto';
import t from 'tap';
import { parseCheckpoint } from '../../src/log/checkpoint.ts';
import { parseNote } from '../../src/log/note.ts';
import { openTestApp, pdfOf } from '../support/app.ts';
import type { Answer, Envelope } from '../support/client.ts';

const codeOf = (answer: Answer) => `${answer.status} ${answer.json<Envelope>().error.code}`;

t.test('the checkpoint and the tiles of a log are served', async (t) => {
  const { client, issue } = await openTestApp(t);
  t.equal(codeOf(await client.get('/v1/log/checkpoint')), '404 not_found', 'an empty log has no checkpoint');
  t.equal(codeOf(await client.get('/v1/log/tile/0/000.p/1')), '404 not_found');
  for (const text of ['a', 'b', 'c']) await client.seal(pdfOf(text), { mode: 'blocking' });

  const reader = client.as(await issue({ scopes: [] }));
  const checkpoint = await reader.get('/v1/log/checkpoint');
  t.equal(checkpoint.headers.get('Content-Type'), 'text/plain; charset=utf-8');
  t.equal(checkpoint.headers.get('Cache-Control'), 'no-cache');
  t.equal(parseCheckpoint(parseNote(checkpoint.text)?.text ?? '')?.treeSize, 3);

  const tile = await reader.get('/v1/log/tile/0/000.p/3');
  t.equal(tile.bytes.length, 3 * 32);
  t.equal(tile.headers.get('Content-Type'), 'application/octet-stream');
  t.equal(tile.headers.get('Cache-Control'), 'private, max-age=31536000, immutable');
  for (const width of [1, 2]) {
    const narrower = await reader.get(`/v1/log/tile/0/000.p/${width}`);
    t.strictSame(narrower.bytes, tile.bytes.subarray(0, width * 32), `width ${width} is a prefix`);
  }

  t.same(
    (await reader.get('/v1/log/tile/0%2F000.p%2f3')).bytes,
    tile.bytes,
    'as generated clients ask for it',
  );

  const entries = await reader.get('/v1/log/tile/entries/000.p/3');
  t.equal(entries.bytes.length, 3 * (2 + 64));
  for (const n of [0, 1, 2]) {
    const entry = entries.bytes.subarray(n * 66, (n + 1) * 66);
    t.equal(entry.readUInt16BE(), 64);
    const leafHash = createHash('sha256').update(Buffer.of(0)).update(entry.subarray(2)).digest();
    t.strictSame(leafHash, tile.bytes.subarray(n * 32, (n + 1) * 32), `entry ${n} hashes to the tile`);
  }
});

t.test(
  'the newest checkpoint has its cosignatures, and the newest witnessed one has its own route',
  async (t) => {
    const { client, store } = await openTestApp(t, { app: { logPublic: true } });
    const anyone = client.as(undefined);
    const read = async (path = '') => {
      const answer = await anyone.get(`/v1/log/checkpoint${path}`);
      return answer.status === 200 ? answer.text : codeOf(answer);
    };
    t.equal(await read('/witnessed'), '404 not_found');
    await client.seal(pdfOf('a'), { mode: 'blocking' });
    t.equal(await read('/witnessed'), '404 not_found', 'nobody has cosigned');
    const first = await read();
    const line = (name: string) => `— ${name} ${Buffer.alloc(76, name).toString('base64')}\n`;
    const cosigned = { treeSize: 1, checkpoint: `${first}${line('a')}` };
    await store.witnessing.put({ witnesses: {}, cosigned });
    t.equal(await read(), cosigned.checkpoint);
    t.equal(await read('/witnessed'), '404 not_found', 'a is not the quorum');
    const witnessed = { treeSize: 1, checkpoint: `${first}${line('a')}${line('b')}` };
    await store.witnessing.put({ witnesses: {}, cosigned: witnessed, witnessed });
    t.equal(await read(), witnessed.checkpoint);
    t.equal(await read('/witnessed'), witnessed.checkpoint);
    await client.seal(pdfOf('b'), { mode: 'blocking' });
    const second = await read();
    t.equal(
      parseCheckpoint(parseNote(second)?.text ?? '')?.treeSize,
      2,
      'a newer one is served before it is cosigned',
    );
    t.notMatch(second, line('a'));
    t.equal(await read('/witnessed'), witnessed.checkpoint);
  },
);

t.test('tiles that do not exist are not found', async (t) => {
  const { client } = await openTestApp(t, { app: { logPublic: true } });
  await client.seal(pdfOf('a'), { mode: 'blocking' });
  const anyone = client.as(undefined);
  t.equal((await anyone.get('/v1/log/checkpoint')).status, 200, 'a public log asks for no key');
  const tile = await anyone.get('/v1/log/tile/0/000.p/1');
  t.match(tile.headers.get('Cache-Control'), /^public, /);
  const paths = [
    '0/000',
    '0/000.p/2',
    '0/000.p/0',
    '0/000.p/01',
    '0/000.p/256',
    '0/001.p/1',
    '1/000.p/1',
    '63/000.p/1',
    '64/000.p/1',
    '00/000.p/1',
    '0/0',
    '0/x000/000.p/1',
    'entries/000',
    'entries/000.p/2',
    'entries/001.p/1',
    '0/x999/x999/x999/x999/x999/999',
    '-1/000',
    'data/000',
    '%30/000.p/1',
    '0/000.p/1/',
    '__proto__',
  ];
  for (const path of paths) t.equal(codeOf(await anyone.get(`/v1/log/tile/${path}`)), '404 not_found', path);
});

t.test('a log that is not public asks for a key', async (t) => {
  const { client } = await openTestApp(t);
  for (const path of ['checkpoint', 'tile/0/000.p/1', 'tile/entries/000.p/1']) {
    t.equal(codeOf(await client.as(undefined).get(`/v1/log/${path}`)), '401 authentication_required', path);
  }
});
