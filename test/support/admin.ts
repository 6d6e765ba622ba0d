import { type IncomingMessage, request } from 'node:http';
import { join } from 'node:path';
import { ApiCheck, type ApiDescription } from './openapi.ts';
import type { Sandbox } from './sandbox.ts';

export interface AdminAnswer {
  status: number;
  type: string;
  headers: Headers;
  text: string;
  json<T = Record<string, unknown>>(): T;
}

type Place = { socketPath: string } | { host: string; port: number };

/** Asks the administration of a sandbox, at the socket that a configuration without `admin.listen` has. */
export function askAdmin(
  sandbox: Sandbox,
  path: string,
  method: 'GET' | 'POST' = 'GET',
): Promise<AdminAnswer> {
  return askAdminAt({ socketPath: join(sandbox.dir, 'state', 'admin.sock') }, path, method);
}

const checks = new Map<string, ApiCheck>();

/** Asks the administration of a daemon, and holds its answer to the document that it serves. */
export async function askAdminAt(
  at: Place,
  path: string,
  method = 'GET',
  headers: Record<string, string> = {},
): Promise<AdminAnswer> {
  const answer = await ask(at, path, method, headers);
  const key = JSON.stringify(at);
  const check = checks.get(key) ?? new ApiCheck((await ask(at, '/openapi.json')).json<ApiDescription>());
  checks.set(key, check);
  check.check({ method, path, ...answer });
  return answer;
}

export function ask(
  at: Place,
  path: string,
  method = 'GET',
  headers: Record<string, string> = {},
): Promise<AdminAnswer> {
  return new Promise((resolve, reject) => {
    const asked = request({ ...at, path, method, headers, agent: false }, async (response) => {
      const chunks: Buffer[] = [];
      for await (const chunk of response) chunks.push(chunk);
      const text = Buffer.concat(chunks).toString();
      const { statusCode: status = 0 } = response;
      const type = response.headers['content-type'] ?? '';
      resolve({ status, type, headers: headersOf(response), text, json: () => JSON.parse(text) });
    });
    asked.once('error', reject).end();
  });
}

function headersOf({ headersDistinct }: IncomingMessage): Headers {
  const headers = new Headers();
  for (const [name, values = []] of Object.entries(headersDistinct)) headers.set(name, values.join(', '));
  return headers;
}

/** One sample of the Prometheus text format. */
export interface Sample {
  name: string;
  labels: Record<string, string>;
  value: number;
}

const NAME = '[a-zA-Z_:][a-zA-Z0-9_:]*';
const LABEL = '[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\\\\n]|\\\\["\\\\n])*"';
const SAMPLE = new RegExp(`^(${NAME})(?:\\{(${LABEL}(?:,${LABEL})*)?\\})? (\\S+)$`);
const COMMENT = new RegExp(`^# (HELP|TYPE) (${NAME}) (.+)$`);
const TYPES = ['counter', 'gauge', 'histogram'];

/**
 * Reads the text format (version 0.0.4), strictly: HELP and TYPE before the samples of a family, no family and no sample twice,
 * counters that end in `_total`, buckets that only grow and end with the count. Throws what promtool would complain of.
 */
export function parseMetrics(text: string): Sample[] {
  const lines = text.split('\n');
  if (lines.pop() !== '') throw new Error('the last line has no end');
  const families = new Map<string, string>();
  const helped = new Set<string>();
  const samples: Sample[] = [];
  let family = '';
  for (const line of lines) {
    if (line === '') continue;
    const [, kind, name = '', rest = ''] = COMMENT.exec(line) ?? [];
    if (kind === 'HELP') {
      if (helped.has(name)) throw new Error(`two HELP of ${name}`);
      helped.add(name);
    } else if (kind === 'TYPE') {
      if (families.has(name) || !helped.has(name) || !TYPES.includes(rest)) throw new Error(line);
      families.set(name, rest);
      family = name;
    } else samples.push(parseSample(line, family, families.get(family)));
  }
  const keys = samples.map(({ name, labels }) => JSON.stringify([name, Object.entries(labels).sort()]));
  if (new Set(keys).size < keys.length) throw new Error('a sample is there twice');
  checkHistograms(samples, families);
  return samples;
}

function parseSample(line: string, family: string, type: string | undefined): Sample {
  const [, name, labelText = '', digits = ''] = SAMPLE.exec(line) ?? [];
  if (name === undefined) throw new Error(`not a sample: ${line}`);
  const suffix = name.slice(family.length);
  const isOfFamily =
    name.startsWith(family) &&
    (type === 'histogram' ? ['_bucket', '_sum', '_count'].includes(suffix) : suffix === '');
  if (!isOfFamily) throw new Error(`${line}: not of ${family}`);
  if (type === 'counter' && !name.endsWith('_total')) throw new Error(`${name} is a counter without _total`);
  const value = digits === '+Inf' ? Infinity : Number(digits);
  if (Number.isNaN(value)) throw new Error(`no number: ${line}`);
  const labels = Array.from(labelText.matchAll(new RegExp(LABEL, 'g')), ([pair]) => {
    const at = pair.indexOf('=');
    return [pair.slice(0, at), JSON.parse(pair.slice(at + 1))] as const;
  });
  if (new Set(labels.map(([label]) => label)).size < labels.length) throw new Error(`a label twice: ${line}`);
  return { name, labels: Object.fromEntries(labels), value };
}

function checkHistograms(samples: Sample[], families: Map<string, string>): void {
  for (const [family, type] of families) {
    if (type !== 'histogram') continue;
    const series = Map.groupBy(
      samples.filter(({ name }) => name === `${family}_bucket`),
      ({ labels: { le: _, ...others } }) => JSON.stringify(others),
    );
    for (const [key, buckets] of series) {
      const bounds = buckets.map(({ labels: { le } }) => (le === '+Inf' ? Infinity : Number(le)));
      const grows = (values: number[]) =>
        values.every((value, n) => n === 0 || value >= (values[n - 1] ?? 0));
      const count = sampleOf(samples, `${family}_count`, JSON.parse(key));
      const last = buckets.at(-1);
      const isWhole = bounds.at(-1) === Infinity && last?.value === count;
      if (!grows(bounds) || !grows(buckets.map(({ value }) => value)) || !isWhole) {
        throw new Error(`the buckets of ${family}${key} are none`);
      }
    }
  }
}

/** The value of the sample with that name and at least those labels; undefined where there is none. */
export function sampleOf(
  samples: Sample[],
  name: string,
  labels: Record<string, string> = {},
): number | undefined {
  return samples.find(
    (sample) =>
      sample.name === name &&
      Object.entries(labels).every(([label, value]) => sample.labels[label] === value),
  )?.value;
}
