import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import type { Test } from 'tap';
import type { NoAnswerReason } from '../../src/web/noAnswer.ts';
import { until } from './until.ts';

/** One way to answer a request that HTTP does not have, or not in any time. */
export interface Hostility {
  name: string;
  /** Where it goes wrong; what comes before is in order. */
  stage: 'connection' | 'head' | 'body';
  /** What ends it: a rule, however long the time-out, or the time-out alone. */
  reason: NoAnswerReason;
  /** Told of a connection, and of its first bytes unless the stage is `connection`. */
  serve(socket: Socket): void;
}

const HEAD = 'HTTP/1.1 200 OK\r\n';
const SIZED = `${HEAD}Content-Length: 100000\r\n\r\n`;
const CHUNKED = `${HEAD}Transfer-Encoding: chunked\r\n\r\n`;

/** Writes as fast as it is read. */
function flood(head: string, text: string) {
  return (socket: Socket): void => {
    socket.write(head);
    const more = () => {
      while (!socket.destroyed && socket.write(text.repeat(Math.ceil(65_536 / text.length))));
    };
    socket.on('drain', more);
    more();
  };
}

/** Writes a little again and again. */
function drip(head: string, text: string) {
  return (socket: Socket): void => {
    socket.write(head);
    const timer = setInterval(() => socket.write(text), 5);
    socket.once('close', () => clearInterval(timer));
  };
}

const say = (text: string) => (socket: Socket) => void socket.write(text);
const reset = (socket: Socket) => void socket.resetAndDestroy();
const sayAndReset = (text: string) => (socket: Socket) => {
  socket.write(text, () => setImmediate(() => socket.resetAndDestroy()));
};
const switching = 'HTTP/1.1 101 Switching Protocols\r\n';

export const HOSTILITIES: readonly Hostility[] = [
  {
    name: 'closes at once',
    stage: 'connection',
    reason: 'connection_reset',
    serve: (socket) => socket.end(),
  },
  { name: 'resets at once', stage: 'connection', reason: 'connection_reset', serve: reset },
  { name: 'says nothing', stage: 'head', reason: 'timeout', serve: () => {} },
  { name: 'closes', stage: 'head', reason: 'connection_reset', serve: (socket) => socket.end() },
  { name: 'resets', stage: 'head', reason: 'connection_reset', serve: reset },
  {
    name: 'switches protocols',
    stage: 'head',
    reason: 'invalid_answer',
    serve: say(`${switching}Upgrade: x\r\nConnection: upgrade\r\n\r\n`),
  },
  { name: 'switches to nothing', stage: 'head', reason: 'invalid_answer', serve: say(`${switching}\r\n`) },
  {
    name: 'switches protocols and closes',
    stage: 'head',
    reason: 'invalid_answer',
    serve: (socket) => void socket.end(`${switching}Upgrade: x\r\nConnection: upgrade\r\n\r\nmore`),
  },
  {
    name: 'is processing for ever',
    stage: 'head',
    reason: 'invalid_answer',
    serve: flood('', 'HTTP/1.1 102 Processing\r\n\r\n'),
  },
  {
    name: 'is processing, slowly',
    stage: 'head',
    reason: 'invalid_answer',
    serve: drip('', 'HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n'),
  },
  {
    name: 'says to go on, and no more',
    stage: 'head',
    reason: 'timeout',
    serve: say('HTTP/1.1 100 Continue\r\n\r\n'),
  },
  { name: 'sends a head byte by byte', stage: 'head', reason: 'timeout', serve: drip(`${HEAD}X: `, 'y') },
  { name: 'sends half a head', stage: 'head', reason: 'timeout', serve: say(`${HEAD}X:`) },
  {
    name: 'resets within the head',
    stage: 'head',
    reason: 'connection_reset',
    serve: sayAndReset(`${HEAD}X:`),
  },
  { name: 'sends headers for ever', stage: 'head', reason: 'invalid_answer', serve: flood(HEAD, 'X: y\r\n') },
  {
    name: 'sends a header for ever',
    stage: 'head',
    reason: 'invalid_answer',
    serve: flood(`${HEAD}X: `, 'y'),
  },
  { name: 'says what is no HTTP', stage: 'head', reason: 'invalid_answer', serve: say('SSH-2.0-x\r\n\r\n') },
  { name: 'has another HTTP', stage: 'head', reason: 'invalid_answer', serve: say('HTTP/9.9 abc\r\n\r\n') },
  {
    name: 'gives two lengths',
    stage: 'head',
    reason: 'invalid_answer',
    serve: say(`${HEAD}Content-Length: 1\r\nContent-Length: 2\r\n\r\nxx`),
  },
  {
    name: 'gives a negative length',
    stage: 'head',
    reason: 'invalid_answer',
    serve: say(`${HEAD}Content-Length: -1\r\n\r\nx`),
  },
  {
    name: 'gives a length and chunks',
    stage: 'head',
    reason: 'invalid_answer',
    serve: say(`${HEAD}Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n`),
  },
  { name: 'sends half a body', stage: 'body', reason: 'timeout', serve: say(`${SIZED}x`) },
  { name: 'sends a body byte by byte', stage: 'body', reason: 'timeout', serve: drip(SIZED, 'x') },
  { name: 'sends chunks byte by byte', stage: 'body', reason: 'timeout', serve: drip(CHUNKED, '1\r\nx\r\n') },
  {
    name: 'sends a body for ever',
    stage: 'body',
    reason: 'invalid_answer',
    serve: flood(`${HEAD}\r\n`, 'x'),
  },
  {
    name: 'sends chunks for ever',
    stage: 'body',
    reason: 'invalid_answer',
    serve: flood(CHUNKED, '1\r\nx\r\n'),
  },
  {
    name: 'closes within the body',
    stage: 'body',
    reason: 'connection_reset',
    serve: (socket) => void socket.end(`${SIZED}x`),
  },
  {
    name: 'resets within the body',
    stage: 'body',
    reason: 'connection_reset',
    serve: sayAndReset(`${SIZED}x`),
  },
  {
    name: 'sends an extension of a chunk for ever',
    stage: 'body',
    reason: 'invalid_answer',
    serve: flood(`${CHUNKED}1;x=`, 'y'),
  },
  {
    name: 'sends an extension of a chunk byte by byte',
    stage: 'body',
    reason: 'timeout',
    serve: drip(`${CHUNKED}1;x=`, 'y'),
  },
  {
    name: 'sends no chunk',
    stage: 'body',
    reason: 'invalid_answer',
    serve: say(`${CHUNKED}no chunk\r\n\r\n`),
  },
  {
    name: 'sends trailers for ever',
    stage: 'body',
    reason: 'invalid_answer',
    serve: flood(`${CHUNKED}0\r\n`, 'X: y\r\n'),
  },
  {
    name: 'sends a trailer byte by byte',
    stage: 'body',
    reason: 'timeout',
    serve: drip(`${CHUNKED}0\r\nX: `, 'y'),
  },
];

/** The same for those who expect TLS. */
export const TLS_HOSTILITIES: readonly Hostility[] = [
  { name: 'never shakes hands', stage: 'connection', reason: 'timeout', serve: () => {} },
  { name: 'sends half a record', stage: 'head', reason: 'timeout', serve: say('\x16\x03\x03\x40') },
  {
    name: 'sends a record byte by byte',
    stage: 'head',
    reason: 'timeout',
    serve: drip('\x16\x03\x03\x40\x00', '\x02'),
  },
  { name: 'resets while it shakes hands', stage: 'head', reason: 'connection_reset', serve: reset },
  {
    name: 'closes while it shakes hands',
    stage: 'head',
    reason: 'connection_reset',
    serve: (socket) => socket.end(),
  },
  {
    name: 'speaks clear text',
    stage: 'head',
    reason: 'tls_failed',
    serve: say(`${HEAD}Content-Length: 0\r\n\r\n`),
  },
  { name: 'refuses', stage: 'head', reason: 'tls_failed', serve: say('\x15\x03\x03\x00\x02\x02\x28') },
];

/** One of {@link HOSTILITIES}. */
export function hostilityOf(name: string): Hostility {
  const found = HOSTILITIES.find((one) => one.name === name);
  if (found === undefined) throw new Error(`nobody ${name}`);
  return found;
}

/** A server that answers every connection so. */
export interface HostileServer {
  /** Without a scheme and a slash at its end. */
  host: string;
  /** How many connections came. */
  connections(): number;
  /** Resolves when all of them are closed. */
  left(): Promise<void>;
}

const NO_HEAD = 'HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\n\r\n';

/**
 * On the loopback, or on the socket at `path`; closed with the test. With `toGet` HEAD is answered in order: it is not supported.
 */
export async function openHostile(
  t: Test,
  { name, stage, serve }: Hostility,
  { toGet = false, path }: { toGet?: boolean; path?: string } = {},
): Promise<HostileServer> {
  const sockets = new Set<Socket>();
  let connections = 0;
  const server = createServer((socket) => {
    connections += 1;
    sockets.add(socket);
    socket.on('error', () => {}).once('close', () => sockets.delete(socket));
    const begin = (asked: Buffer) => {
      if (toGet && asked.toString().startsWith('HEAD')) socket.end(NO_HEAD);
      else if (toGet || stage !== 'connection') serve(socket);
    };
    socket.once('data', begin).resume();
    if (!toGet && stage === 'connection') serve(socket);
  });
  server.listen(path === undefined ? { host: '127.0.0.1', port: 0 } : { path });
  await once(server, 'listening');
  t.teardown(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  return {
    host: path ?? `127.0.0.1:${(server.address() as AddressInfo).port}`,
    connections: () => connections,
    left: () => until(`${name}: its connections are closed`, () => sockets.size === 0),
  };
}
