/** Clients that code generators make of the description, against the real daemon: `npm run long -- --only generators`. */
import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { ROOT } from '../support/manual.ts';
import { openSandbox } from '../support/sandbox.ts';

/** With a lockfile of their own, so that they are not among the packages of pdfseald. */
const GENERATORS = join(ROOT, 'node_modules/.cache/generators');
mkdirSync(GENERATORS, { recursive: true });
for (const name of ['.npmrc', 'package.json', 'package-lock.json'])
  copyFileSync(join(ROOT, 'test/generators', name), join(GENERATORS, name));
const install = ['ci', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error'];
execFileSync('npm', install, { cwd: GENERATORS, stdio: ['ignore', 'ignore', 'inherit'] });

interface Generator {
  /** The command that writes the client of `openapi.json`. */
  command: string[];
  /** What a developer writes: seals `pdf` as a form and as the body, and prints the phases of both. */
  program: string;
}

const CALLERS: Record<string, Generator> = {
  'openapi-typescript with openapi-fetch': {
    command: ['openapi-typescript', 'openapi.json', '--output', 'api.ts', '--default-non-nullable=false'],
    program: `
      import createClient from 'openapi-fetch';
      import type { paths } from './api.ts';
      const api = createClient<paths>({ baseUrl: url, headers: { Authorization: \`Bearer \${key}\` } });
      const form = await api.POST('/forms/seal', {
        body: { visibility: 'private', mode: 'blocking', file: '' },
        bodySerializer(body) {
          const form = new FormData();
          for (const [name, value] of Object.entries(body)) if (name !== 'file') form.append(name, String(value));
          form.append('file', pdf, 'invoice.pdf');
          return form;
        },
      });
      const body = await api.POST('/documents/seal', {
        params: { query: { visibility: 'private', mode: 'blocking' }, header: { 'Idempotency-Key': 'as-the-body' } },
        headers: { 'Content-Type': 'application/pdf' },
        body: '',
        bodySerializer: () => pdf,
      });
      const job = await api.GET('/jobs/{job_id}', { params: { path: { job_id: body.data?.id ?? '' } } });
      console.log(form.data?.phase, body.data?.phase, job.data?.phase);
    `,
  },
  'hey-api': {
    command: ['openapi-ts', '-f', 'hey.config.mjs'],
    program: `
      import { client } from './hey/client.gen.ts';
      import { getSealJob, sealDocument, sealForm } from './hey/sdk.gen.ts';
      client.setConfig({ baseUrl: url, auth: key });
      const form = await sealForm({ body: { visibility: 'private', mode: 'blocking', file: pdf } });
      const body = await sealDocument({
        query: { visibility: 'private', mode: 'blocking' },
        headers: { 'Idempotency-Key': 'as-the-body' },
        body: pdf,
      });
      const job = await getSealJob({ path: { job_id: body.data?.id ?? '' } });
      console.log(form.data?.phase, body.data?.phase, job.data?.phase);
    `,
  },
  orval: {
    command: ['orval', '--input', './openapi.json', '--output', './api.ts', '--client', 'fetch'],
    program: `
      import { getSealJob, sealDocument, sealForm } from './api.ts';
      const headers = { Authorization: \`Bearer \${key}\` };
      const fetchAt = globalThis.fetch;
      globalThis.fetch = (path, options) => fetchAt(url + path, options);
      const form = await sealForm({ visibility: 'private', mode: 'blocking', file: pdf }, { headers });
      const body = await sealDocument(pdf, { visibility: 'private', mode: 'blocking' }, { headers });
      const id = body.status === 202 ? body.data.id : '';
      const job = await getSealJob(id, { headers });
      for (const { status, data } of [form, body, job]) if (status !== 202 && status !== 200) throw new Error(JSON.stringify(data));
      console.log(...[form, body, job].map(({ data }) => 'phase' in data && data.phase));
    `,
  },
};

const HEY_CONFIG = `export default {
  input: 'openapi.json',
  output: { path: 'hey', module: { extension: '.ts' } },
  plugins: ['@hey-api/client-fetch', '@hey-api/typescript', '@hey-api/sdk'],
};`;

const HEAD = `
  const [url = '', key = ''] = process.argv.slice(2);
  const pdf = new File(['%PDF-1.4\\n%%EOF\\n'], 'invoice.pdf', { type: 'application/pdf' });
`;

const TSCONFIG = {
  compilerOptions: {
    ...{ target: 'es2024', module: 'nodenext', lib: ['es2024', 'dom', 'dom.iterable'], types: ['node'] },
    ...{ strict: true, noEmit: true, allowImportingTsExtensions: true, skipLibCheck: true },
  },
  files: ['program.ts'],
};

const sandbox = await openSandbox();
t.teardown(() => sandbox.close());
await sandbox.start();
const key = await sandbox.issueKey('erp', 'acme', '--scopes', 'jobs:create,jobs:read');
// As the manual says: generated code of the operation that takes every form does not compile.
const description = (await (await fetch(`${sandbox.url}/v1/openapi.json`)).json()) as { paths: object };
delete (description.paths as { '/jobs/seal'?: object })['/jobs/seal'];

for (const [name, { command, program }] of Object.entries(CALLERS)) {
  t.test(`a client that ${name} makes seals a document`, async (t) => {
    const dir = t.testdir({
      'openapi.json': JSON.stringify(description),
      'hey.config.mjs': HEY_CONFIG,
      'package.json': '{"type":"module"}',
      'tsconfig.json': JSON.stringify(TSCONFIG),
      'program.ts': `${HEAD}${program}`,
    });
    symlinkSync(join(GENERATORS, 'node_modules'), join(dir, 'node_modules'));
    const run = (file: string, ...args: string[]) =>
      execFileSync(process.execPath, [file, ...args], { cwd: dir, encoding: 'utf8', stdio: 'pipe' });
    const [generator = '', ...args] = command;
    run(join('node_modules/.bin', generator), ...args);
    run('node_modules/typescript/bin/tsc', '-p', '.');
    t.equal(run('program.ts', `${sandbox.url}/v1`, key), 'completed completed completed\n');
  });
}
