/** One client that takes all it can get, in each way there is: for what others notice of it. */
import { Agent, request } from 'node:http';
import { createConnection, type NetConnectOpts, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

/** Against whom. */
export interface Target {
  port: number;
  /** With all scopes of a client. */
  apiKey: string;
  /** Of a copy that is larger than what sockets hold. */
  copyPath?: string;
  /** A TimeStampReq in DER. */
  query?: Uint8Array;
  /** Of an endpoint of the client. */
  endpointId?: string;
  console?: ConsoleTarget;
  /** Of a witness of the log. */
  witness?: Place;
}

export type Place = { host: string; port: number } | { socketPath: string };

/** The console, with the session of an auditor. */
export interface ConsoleTarget {
  at: Place;
  cookie: string;
  formToken: string;
}

/** What became of it so far. */
export interface Greed {
  /** Answers by status; requests that are held open have none. */
  answers: Map<number, number>;
  opened: number;
  stop(): Promise<void>;
}

interface Sent {
  method: string;
  path: string;
  headers?: Record<string, string>;
  body?: Uint8Array | string;
  signal?: AbortSignal;
}

const CONNECTIONS = 48;
const IDLE_CONNECTIONS = 600;
const LOGINS = 300;
/** How often the greedy client fetches a newer checkpoint. */
const REFRESH_MS = 50;
/** Of those that are answered, each as fast as it can. */
const FLOODING_CONNECTIONS = 16;
const PIPELINED = 500;
const DOCUMENT = `%PDF-1.7\n%${'.'.repeat(10_000)}\n%%EOF\n`;
/** What one batch may have. */
const LINES =
  `{"document_sha256":"${'ab'.repeat(32)}","document_sha512":"${'cd'.repeat(64)}","bytes":1,"visibility":"private","mode":"blocking"}\n`.repeat(
    10_000,
  );
const FORM =
  '--b\r\nContent-Disposition: form-data; name="visibility"\r\n\r\nprivate\r\n' +
  '--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n%PDF-1.7\n';

/** Each begins at once, and goes on until it is stopped. */
export const WAYS: Readonly<Record<string, (target: Target) => Greed>> = {
  'slow uploads': (target) =>
    hold(
      local(target.port),
      CONNECTIONS,
      head('POST', '/v1/jobs/seal', target.apiKey, [
        'Content-Type: multipart/form-data; boundary=b',
        'Content-Length: 1000000',
      ]) + FORM,
    ),
  'unread downloads': (target) =>
    hold(local(target.port), CONNECTIONS, head('GET', target.copyPath ?? '/', target.apiKey)),
  'batches held open': (target) =>
    hold(
      local(target.port),
      CONNECTIONS,
      `${head('POST', '/v1/batches/seal', target.apiKey, [
        'Content-Type: application/x-ndjson',
        'Transfer-Encoding: chunked',
      ])}1\r\n\n\r\n`,
    ),
  'idle connections': (target) => hold(local(target.port), IDLE_CONNECTIONS, ''),
  'time-stamps': (target) =>
    flood(target, {
      method: 'POST',
      path: '/v1/timestamp',
      headers: { 'Content-Type': 'application/timestamp-query' },
      body: target.query ?? '',
    }),
  'webhook tests': (target) =>
    flood(target, { method: 'POST', path: `/v1/webhook-endpoints/${target.endpointId}/test` }),
  'requests with a wrong key': (target) =>
    flood({ ...target, apiKey: 'seal_sandbox_wrong' }, { method: 'GET', path: '/v1/jobs' }),
  repeats: (target) =>
    flood(target, {
      method: 'POST',
      path: '/v1/jobs/seal?visibility=private',
      headers: { 'Content-Type': 'application/pdf', 'Idempotency-Key': 'again-and-again' },
      body: DOCUMENT,
    }),
  'batches of blocking lines': (target) =>
    flood(target, {
      method: 'POST',
      path: '/v1/batches/seal',
      headers: { 'Content-Type': 'application/x-ndjson' },
      body: LINES,
    }),
  lists: (target) => flood(target, { method: 'GET', path: '/v1/jobs?limit=100' }),
  'lists that find nothing': (target) =>
    flood(target, { method: 'GET', path: '/v1/jobs?limit=100&phase=failed&visibility=partner' }),
  'pipelining without a key': ({ port }) => pipeline(port, head('GET', '/v1/jobs'), true),
  'pipelined lists': ({ port, apiKey }) => pipeline(port, head('GET', '/v1/jobs?limit=100', apiKey), true),
  'unread answers': ({ port, apiKey }) => pipeline(port, head('GET', '/v1/jobs?limit=100', apiKey), false),
  creates: (target) =>
    flood(target, {
      method: 'POST',
      path: '/v1/jobs/seal?visibility=private',
      headers: { 'Content-Type': 'application/pdf' },
      body: DOCUMENT,
    }),
};

/** What is done beside the API, by strangers and by those who look on. */
export const OTHER_WAYS: Readonly<Record<string, (target: Target) => Greed>> = {
  'slow log-ins': ({ port, console }) =>
    hold(
      console?.at ?? local(port),
      LOGINS,
      `${head('POST', '/login', undefined, [
        'Sec-Fetch-Site: same-origin',
        'Content-Type: application/x-www-form-urlencoded',
        'Content-Length: 100',
      ])}l`,
    ),
  'audit checks': ({ port, console }) =>
    floodAt(console?.at ?? local(port), () => ({
      method: 'POST',
      path: '/audit/check',
      headers: {
        host: 'localhost',
        'sec-fetch-site': 'same-origin',
        'content-type': 'application/x-www-form-urlencoded',
        cookie: console?.cookie ?? '',
      },
      body: `token=${console?.formToken}`,
    })),
  'witness repeats': repeatCheckpoints,
};

function reached(at: Place): NetConnectOpts {
  return 'socketPath' in at ? { path: at.socketPath } : at;
}

function local(port: number): Place {
  return { host: '127.0.0.1', port };
}

/** The log's newest checkpoint again and again, to a witness that has cosigned it. */
function repeatCheckpoints({ port, apiKey, witness = local(port) }: Target): Greed {
  let body = '';
  const headers = { Authorization: `Bearer ${apiKey}` };
  const refresh = async () => {
    const answer = await fetch(`http://127.0.0.1:${port}/v1/log/checkpoint`, { headers });
    const checkpoint = await answer.text();
    body = `old ${checkpoint.split('\n')[1]}\n\n${checkpoint}`;
  };
  const timer = setInterval(() => refresh().catch(() => {}), REFRESH_MS);
  const greed = floodAt(witness, () => ({ method: 'POST', path: '/add-checkpoint', body }));
  return {
    ...greed,
    stop: async () => {
      clearInterval(timer);
      await greed.stop();
    },
  };
}

function head(method: string, path: string, apiKey?: string, headers: string[] = []): string {
  const known = apiKey === undefined ? [] : [`Authorization: Bearer ${apiKey}`];
  const lines = [`${method} ${path} HTTP/1.1`, 'Host: localhost', ...known, ...headers];
  return `${lines.join('\r\n')}\r\n\r\n`;
}

/** Connections that send this and then nothing more, nor read. */
function hold(at: Place, count: number, text: string): Greed {
  return keepOpen(at, count, (socket, greed) => {
    greed.opened += 1;
    if (text !== '') socket.write(text);
    socket.once('data', (chunk: Buffer) => {
      countAnswer(greed.answers, Number(chunk.toString('latin1', 9, 12)));
      socket.pause();
      if (!chunk.includes(' 200 ')) socket.destroy();
    });
  });
}

/** The same request again and again on each connection, without waiting for answers. Each counts as opened. */
function pipeline(port: number, text: string, isRead: boolean): Greed {
  const chunk = text.repeat(PIPELINED);
  return keepOpen(local(port), CONNECTIONS, (socket, greed) => {
    const write = () => {
      do greed.opened += PIPELINED;
      while (socket.write(chunk));
    };
    socket.on('drain', write);
    if (isRead)
      socket.setEncoding('latin1').on('data', (answers: string) => {
        for (const [, status] of answers.matchAll(/^HTTP\/1\.1 (\d{3}) /gm))
          countAnswer(greed.answers, Number(status));
      });
    else socket.pause();
    write();
  });
}

/** Connections on which something is done once they are open; one that is closed is opened again. */
function keepOpen(
  at: Place,
  count: number,
  use: (socket: Socket, greed: Pick<Greed, 'answers' | 'opened'>) => void,
): Greed {
  const greed = { answers: new Map<number, number>(), opened: 0 };
  const sockets = new Set<Socket>();
  let isOver = false;
  const open = () => {
    const socket = createConnection(reached(at));
    sockets.add(socket);
    socket.once('connect', () => use(socket, greed));
    socket.on('error', () => {});
    socket.once('close', () => {
      sockets.delete(socket);
      if (!isOver) setTimeout(() => isOver || open(), 20);
    });
  };
  for (let n = 0; n < count; n += 1) open();
  return {
    ...greed,
    get opened() {
      return greed.opened;
    },
    async stop() {
      isOver = true;
      for (const socket of sockets) socket.destroy();
    },
  };
}

/** The same request again and again on many connections. */
function flood({ port, apiKey }: Target, sent: Sent): Greed {
  const headers = { Authorization: `Bearer ${apiKey}`, ...sent.headers };
  return floodAt(local(port), () => ({ ...sent, headers }));
}

function floodAt(at: Place, next: () => Sent): Greed {
  const agent = new Agent({ keepAlive: true, maxSockets: FLOODING_CONNECTIONS });
  const answers = new Map<number, number>();
  const over = new AbortController();
  const run = async () => {
    while (!over.signal.aborted) {
      const status = await send(agent, at, { ...next(), signal: over.signal }).catch(() => 0);
      countAnswer(answers, status);
      if (status === 0) await sleep(20);
    }
  };
  const running = Array.from({ length: FLOODING_CONNECTIONS }, run);
  return {
    answers,
    opened: FLOODING_CONNECTIONS,
    async stop() {
      // Without the signal, a request that waits for a connection would still begin.
      over.abort();
      agent.destroy();
      await Promise.all(running);
    },
  };
}

function send(agent: Agent, at: Place, { body, headers, ...sent }: Sent): Promise<number> {
  return new Promise((resolve, reject) => {
    const length = { 'Content-Length': String(body?.length ?? 0) };
    const outgoing = request({ agent, ...at, ...sent, headers: { ...length, ...headers } });
    outgoing.once('error', reject).once('response', (answer) => {
      answer.resume().once('close', () => resolve(answer.statusCode ?? 0));
    });
    outgoing.end(body);
  });
}

function countAnswer(answers: Map<number, number>, status: number): void {
  answers.set(status, (answers.get(status) ?? 0) + 1);
}
