/** Every client library does what `clients/conformance` says, against the real daemon behind a proxy that makes trouble. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { copyFileSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import t from 'tap';
import { newSecret, signatureHeaders } from '../src/webhook/signature.ts';
import { digestsOf } from './support/client.ts';
import { go } from './support/goProgram.ts';
import { ROOT } from './support/manual.ts';
import { openSandbox } from './support/sandbox.ts';

type Value = string | number | boolean | undefined | { [name: string]: Value } | Value[];

interface Case {
  name: string;
  do: string;
  with: { [name: string]: Value };
  as?: 'seals' | 'reads' | 'wrong' | 'none';
  patience?: number;
  trouble?: string[];
  gives?: Value;
  throws?: Value;
  requests?: number;
}

interface Library {
  /** The command of its driver; a folder for what is compiled. */
  driver(dir: string): string[];
  /** The program of its README: its name, and the command that runs it in a folder after the library was installed there. */
  readme: { name: string; install(dir: string): { run: string[]; env?: Record<string, string> } };
}

const GO_ENV = { GOPATH: join(ROOT, 'node_modules/.cache/go-path'), GOFLAGS: '-mod=mod' };

const LIBRARIES: Record<string, Library> = {
  typescript: {
    driver: () => [process.execPath, 'clients/typescript/test/driver.ts'],
    readme: {
      name: 'seal.mjs',
      install(dir) {
        const folder = join(dir, 'node_modules/pdfseald-client');
        mkdirSync(folder, { recursive: true });
        copyFileSync(join(ROOT, 'clients/typescript/package.json'), join(folder, 'package.json'));
        const build = ['-p', 'clients/typescript', '--outDir', join(folder, 'dist')];
        execFileSync(process.execPath, ['node_modules/typescript/bin/tsc', ...build], { cwd: ROOT });
        return { run: [process.execPath, 'seal.mjs'] };
      },
    },
  },
  python: {
    driver: () => ['python3', 'clients/python/test/driver.py'],
    readme: {
      name: 'seal.py',
      install: () => ({
        run: ['python3', 'seal.py'],
        env: { PYTHONPATH: join(ROOT, 'clients/python'), PYTHONDONTWRITEBYTECODE: '1' },
      }),
    },
  },
  go: {
    driver(dir) {
      const cwd = join(ROOT, 'clients/go');
      go(['vet', './...'], { cwd, env: GO_ENV });
      go(['build', '-o', join(dir, 'driver'), './internal/driver'], { cwd, env: GO_ENV });
      return [join(dir, 'driver')];
    },
    readme: {
      name: 'seal.go',
      install(dir) {
        const library = join(ROOT, 'clients/go');
        const module = `module invoices\n\ngo 1.21\n\nrequire pdfseald.example/client v0.0.0\n\nreplace pdfseald.example/client => ${library}\n`;
        writeFileSync(join(dir, 'go.mod'), module);
        go(['build', '-o', 'seal', 'seal.go'], { cwd: dir, env: GO_ENV });
        return { run: ['./seal'] };
      },
    },
  },
  java: {
    driver(dir) {
      javac(dir, 'test/Driver.java');
      return ['java', '-XX:TieredStopAtLevel=1', '-cp', dir, 'Driver'];
    },
    readme: {
      name: 'Seal.java',
      install(dir) {
        javac(join(dir, 'classes'));
        return { run: ['java', '-XX:TieredStopAtLevel=1', '-cp', 'classes', 'Seal.java'] };
      },
    },
  },
};
/** Compiles the library, and what else is named, into a folder. */
function javac(dir: string, ...more: string[]): void {
  const sources = readdirSync(join(ROOT, 'clients/java/src/pdfseald')).map((name) => `src/pdfseald/${name}`);
  const compiler = ['-m', 'jdk.compiler/com.sun.tools.javac.Main', '-Xlint:all', '-Werror'];
  execFileSync('java', [...compiler, '-d', dir, ...sources, ...more], { cwd: join(ROOT, 'clients/java') });
}

const PATIENCE_SECONDS = 30;

const cases = JSON.parse(readFileSync(join(ROOT, 'clients/conformance/cases.json'), 'utf8')) as Case[];

t.test('there are enough cases, each with a name and an expectation of its own', async (t) => {
  t.ok(cases.length >= 60);
  t.equal(new Set(cases.map(({ name }) => name)).size, cases.length);
  for (const { name, gives, throws } of cases) t.ok((gives === undefined) !== (throws === undefined), name);
});

/** What a case says in place of values that it cannot know. */
class Known {
  readonly #values = new Map<string, Value>();

  set(name: string, value: Value): void {
    this.#values.set(name, value);
  }

  in(value: Value): Value {
    if (typeof value === 'string') return this.#values.get(value) ?? value;
    if (Array.isArray(value)) return value.map((one) => this.in(one));
    if (typeof value !== 'object') return value;
    return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, this.in(one)]));
  }
}

const JOB = {
  id: 'job_0123456789',
  environment: 'env_test',
  trace_id: '0'.repeat(32),
  capabilities: [],
  created_at: '2026-01-02T03:04:05.678Z',
  document_sha256: '0'.repeat(64),
};
const errorBody = (code: string) => ({
  request_id: 'req_1',
  error: { type: 'api_error', code, message: 'later', doc_url: '/v1/errors' },
});
const CODES: Record<string, string> = {
  429: 'rate_limit_exceeded',
  500: 'internal_error',
  503: 'shutting_down',
};

/** Passes requests on to the daemon; does to the first ones what it was asked to. */
class Trouble {
  readonly #daemon: string;
  readonly #server = createServer((request, response) => void this.#handle(request, response));
  readonly queue: string[] = [];
  requests = 0;

  constructor(daemon: string) {
    this.#daemon = daemon;
  }

  async open(): Promise<string> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  close(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }

  async #handle(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    this.requests += 1;
    const trouble = this.queue.shift();
    if (trouble === 'reset') return void incoming.socket.destroy();
    const body = Buffer.concat(await incoming.toArray());
    const json = (status: number, value: object, headers = {}) =>
      outgoing
        .writeHead(status, { 'Content-Type': 'application/json', ...headers })
        .end(JSON.stringify(value));
    const soon = { 'Retry-After': '0' };
    switch (trouble) {
      case 'no-hint':
        return void json(503, errorBody('shutting_down'));
      case 'html':
        return void outgoing
          .writeHead(502, { 'Content-Type': 'text/html', ...soon })
          .end('<h1>Bad gateway</h1>');
      case 'in-progress':
        return void json(409, errorBody('idempotency_in_progress'), soon);
      case 'garbage':
        return void outgoing.writeHead(202, soon).end('job?');
      case 'redirect':
        return void outgoing.writeHead(307, { Location: `${this.#daemon}${incoming.url}` }).end();
      case 'running':
        return void json(200, { ...JOB, phase: 'sealing' }, { 'Retry-After': '1' });
      case 'failed':
        return void json(200, { ...JOB, phase: 'failed', ...errorBody('source_unreachable') });
      case '429':
      case '500':
      case '502':
      case '503':
      case '504':
        return void json(Number(trouble), errorBody(CODES[trouble] ?? 'bad_gateway'), soon);
    }
    const answer = await this.#passOn(incoming, body);
    if (trouble === 'lost') return void incoming.socket.destroy();
    outgoing.writeHead(answer.status, answer.headers);
    if (trouble !== 'cut') return void outgoing.end(answer.body);
    outgoing.write(answer.body.subarray(0, answer.body.length / 2), () => incoming.socket.destroy());
  }

  async #passOn({ method, url, headers }: IncomingMessage, body: Buffer) {
    const { host: _, ...passed } = headers;
    const sent = request(`${this.#daemon}${url}`, { method, headers: { ...passed, connection: 'close' } });
    sent.end(body);
    const [answer] = (await once(sent, 'response')) as [IncomingMessage];
    const { connection: __, ...told } = answer.headers;
    return { status: answer.statusCode ?? 0, headers: told, body: Buffer.concat(await answer.toArray()) };
  }
}

/** A client library in a process of its own. */
class Driver {
  readonly #child: ChildProcess;
  readonly #lines: AsyncIterator<string>;

  constructor([command = '', ...args]: string[]) {
    this.#child = spawn(command, args, { cwd: ROOT, stdio: ['pipe', 'pipe', 'inherit'] });
    const { stdout } = this.#child;
    this.#lines = createInterface({ input: stdout as NonNullable<typeof stdout> })[Symbol.asyncIterator]();
  }

  async run(one: object): Promise<{ gives?: { job?: { id: string }; ids?: string[] }; throws?: object }> {
    this.#child.stdin?.write(`${JSON.stringify(one)}\n`);
    const { value, done } = await this.#lines.next();
    if (done) throw new Error('the driver has ended');
    return JSON.parse(value);
  }

  close(): void {
    this.#child.kill();
  }
}

/** A webhook as the service, or somebody else, sends it. */
function signed({ body, signed }: Case['with'], secrets: Record<string, string>): object {
  const {
    secrets: names = ['own'],
    body: sentBody = body,
    id = 'msg_1',
    age = 0,
    ...other
  } = signed as {
    secrets?: string[];
    body?: string;
    id?: string;
    age?: number;
    without?: string;
    timestamp?: string;
    signature?: string;
  };
  const headers: Record<string, string> = signatureHeaders({
    webhookId: 'msg_1',
    sentAt: Date.now() - age * 1000,
    body: Buffer.from(String(sentBody)),
    secrets: names.map((name) => secrets[name] ?? ''),
  });
  headers['webhook-id'] = id;
  if (other.timestamp !== undefined) headers['webhook-timestamp'] = other.timestamp;
  if (other.signature !== undefined) headers['webhook-signature'] = other.signature;
  if (other.without !== undefined) delete headers[other.without];
  return { body, headers, secrets: [secrets.own] };
}

const sandbox = await openSandbox({});
t.teardown(() => sandbox.close());
await sandbox.start();
const trouble = new Trouble(sandbox.url);
const url = await trouble.open();
t.teardown(() => trouble.close());
const reads = await sandbox.issueKey('archive', 'acme', '--scopes', 'jobs:read');

for (const [language, { driver: driverIn, readme }] of Object.entries(LIBRARIES)) {
  t.test(`the client library for ${language}`, async (t) => {
    const seals = await sandbox.issueKey(language, 'acme', '--scopes', 'jobs:create,jobs:read');
    const keys = { seals, reads, wrong: `${seals.slice(0, -4)}0000`, none: undefined };
    const secrets = { own: newSecret(), other: newSecret() };
    const driver = new Driver(driverIn(t.testdir()));
    t.teardown(() => driver.close());

    const known = new Known();
    const digests = digestsOf(Buffer.from(`%PDF-1.4\n% kept by ${language}\n%%EOF\n`));
    known.set('$digests', digests);
    for (const one of cases) {
      const { name, do: operation, as = 'seals', patience = PATIENCE_SECONDS, gives, throws, requests } = one;
      const { document } = one.with;
      if (typeof document === 'string' && one.with.checksum_sha256 === '$sha256')
        known.set('$sha256', createHash('sha256').update(document).digest('hex'));
      trouble.queue.splice(0, Number.POSITIVE_INFINITY, ...(one.trouble ?? []));
      trouble.requests = 0;
      const given = operation === 'webhook' ? signed(one.with, secrets) : known.in(one.with);
      const answer = await driver.run({ url, api_key: keys[as], patience, do: operation, with: given });
      const expected = { gives: known.in(gives), throws: known.in(throws) };
      t.match(answer, JSON.parse(JSON.stringify(expected)), name);
      // A match would be content with more, and with another number of them.
      const { ids } = (expected.gives ?? {}) as { ids?: Value };
      if (ids !== undefined) t.strictSame(answer.gives?.ids, ids, `${name}: all, and no others`);
      if (requests !== undefined) t.equal(trouble.requests, requests, `${name}: requests`);
      const { job } = answer.gives ?? {};
      if (job !== undefined) known.set(`$job:${name}`, job.id);
      if (job !== undefined && name === 'a blocking create is completed') {
        const path = `${sandbox.url}/v1/jobs/${job.id}/receipt.json`;
        const receipt = await fetch(path, { headers: { Authorization: `Bearer ${seals}` } });
        const bytes = Buffer.from(await receipt.arrayBuffer());
        known.set('$receipt', createHash('sha256').update(bytes).digest('hex'));
      }
    }

    const text = readFileSync(join(ROOT, 'clients', language, 'README.md'), 'utf8');
    const [, block = ''] = /^```(?:js|python|go|java)\n(.*?)^```/ms.exec(text) ?? [];
    const dir = t.testdir({ [readme.name]: block, 'invoice 1.pdf': `%PDF-1.4\n% for ${language}\n%%EOF\n` });
    const { run, env } = readme.install(dir);
    const [program = '', ...args] = [...run, 'invoice 1.pdf'];
    const said = execFileSync(program, args, {
      cwd: dir,
      env: { ...process.env, ...env, PDFSEAL_URL: sandbox.url, PDFSEAL_API_KEY: seals },
      encoding: 'utf8',
    });
    t.match(said, /^job_\w+ is completed\n$/);
    const receipt = readFileSync(join(dir, 'invoice 1.pdf.receipt.json'), 'utf8');
    t.match(JSON.parse(receipt), { customer_reference: 'invoice 1.pdf' });
  });
}
