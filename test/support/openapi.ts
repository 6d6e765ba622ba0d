import { Ajv2020 } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';

/** One answer, as it came over the wire. */
export interface Exchange {
  method: string;
  /** Path and query. */
  path: string;
  status: number;
  headers: Headers;
  text: string;
}

interface ResponseObject {
  headers?: Record<string, { $ref?: string; required?: boolean; schema?: { pattern?: string } }>;
  content?: Record<string, { schema?: object }>;
}

interface Operation {
  responses: Record<string, ResponseObject>;
}

export interface ApiDescription {
  servers: { url: string }[];
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, object>; headers: Record<string, ResponseObject['headers']> };
}

/** What may be answered where no operation is: by the transport, by the router, or by a bug. */
const STATUSES_WITHOUT_OPERATION = [400, 404, 405, 408, 431, 500, 503];

/** Holds answers to the OpenAPI document the daemon serves. */
export class ApiCheck {
  readonly #api: ApiDescription;
  readonly #ajv: Ajv2020;
  /** What every path begins with: `/v1`, or nothing. */
  readonly #base: string;

  constructor(description: ApiDescription) {
    this.#api = closed(description);
    this.#base = new URL(description.servers[0]?.url ?? '', 'http://localhost').pathname.replace(/\/$/, '');
    this.#ajv = new Ajv2020({ strict: false, allErrors: true });
    addFormats.default(this.#ajv);
    this.#ajv.addSchema({ ...this.#api, $id: 'api' });
  }

  /** Throws with all that is not as described: status, headers, media type, body. */
  check(exchange: Exchange): void {
    const problems = this.#problems(exchange);
    if (problems.length === 0) return;
    const { method, path, status, text } = exchange;
    throw new Error(
      `${method} ${path} → ${status} is not as described:\n${problems.join('\n')}\n${text.slice(0, 500)}`,
    );
  }

  /** Throws unless the text is JSON of the described schema of that name, and nothing more. */
  checkSchema(name: string, text: string): void {
    const problems = this.#schemaProblems(['components', 'schemas', name], text);
    if (problems.length > 0) throw new Error(`not a ${name}:\n${problems.join('\n')}\n${text.slice(0, 500)}`);
  }

  #problems(exchange: Exchange): string[] {
    const { method, status } = exchange;
    const template = this.#templateOf(exchange.path);
    const verb = method === 'HEAD' ? 'get' : method.toLowerCase();
    const operation = template === undefined ? undefined : this.#api.paths[template]?.[verb];
    if (!operation || template === undefined) return this.#problemsWithoutOperation(exchange);
    const response = operation.responses[status];
    if (!response) return [`status ${status} is not described`];
    const pointer = ['paths', template, verb, 'responses', String(status), 'content'];
    return [...this.#headerProblems(response, exchange), ...this.#bodyProblems(response, pointer, exchange)];
  }

  #problemsWithoutOperation(exchange: Exchange): string[] {
    if (!STATUSES_WITHOUT_OPERATION.includes(exchange.status)) return ['no such operation is described'];
    const missing = Object.keys(this.#api.components.headers).filter((name) => !exchange.headers.has(name));
    const problems = missing.map((name) => `header ${name} is missing`);
    if (exchange.method === 'HEAD') return problems;
    return [...problems, ...this.#schemaProblems(['components', 'schemas', 'ErrorEnvelope'], exchange.text)];
  }

  #templateOf(path: string): string | undefined {
    const whole = path.replace(/^https?:\/\/[^/]*/, '').replace(/[?#].*$/s, '');
    const pathname = whole.startsWith(`${this.#base}/`) ? whole.slice(this.#base.length) : whole;
    const templates = Object.keys(this.#api.paths);
    return templates.find((one) => one === pathname) ?? templates.find((one) => matches(one, pathname));
  }

  #headerProblems(response: ResponseObject, { headers }: Exchange): string[] {
    return Object.entries(response.headers ?? {}).flatMap(([name, described]) => {
      const { required, schema } = this.#resolve(described);
      const value = headers.get(name);
      if (value === null) return required ? [`header ${name} is missing`] : [];
      const fits = schema?.pattern === undefined || new RegExp(schema.pattern).test(value);
      return fits ? [] : [`header ${name}: ${value} does not match ${schema?.pattern}`];
    });
  }

  #resolve(described: { $ref?: string; required?: boolean; schema?: { pattern?: string } }) {
    const name = described.$ref?.split('/').at(-1);
    return name === undefined ? described : (this.#api.components.headers[name] as typeof described);
  }

  #bodyProblems(response: ResponseObject, pointer: string[], exchange: Exchange): string[] {
    const { method, headers, text } = exchange;
    if (!response.content) return text === '' ? [] : ['no body is described'];
    const mediaType = headers.get('Content-Type')?.split(';')[0] ?? 'none';
    const content = response.content[mediaType];
    if (!content) return [`Content-Type ${mediaType} is not described`];
    if (method === 'HEAD') return text === '' ? [] : ['HEAD has a body'];
    if (!content.schema) return [];
    const texts = mediaType === 'application/x-ndjson' ? text.split('\n').slice(0, -1) : [text];
    return texts.flatMap((one) => this.#schemaProblems([...pointer, mediaType, 'schema'], one));
  }

  #schemaProblems(pointer: string[], text: string): string[] {
    const escaped = pointer.map((part) =>
      encodeURIComponent(part.replaceAll('~', '~0').replaceAll('/', '~1')),
    );
    const validate = this.#ajv.getSchema(`api#/${escaped.join('/')}`);
    if (!validate) return [`no schema at ${pointer.join(' ')}`];
    if (validate(JSON.parse(text))) return [];
    return (validate.errors ?? []).map((error) => `${error.instancePath || '/'} ${error.message}`);
  }
}

/** Only tests are this strict: clients are told to ignore members they do not know. */
function closed(description: ApiDescription): ApiDescription {
  const copy = structuredClone(description);
  for (const schema of Object.values(copy.components.schemas)) close(schema);
  return copy;
}

function close(schema: object): void {
  if ('properties' in schema && !('additionalProperties' in schema)) {
    Object.assign(schema, { unevaluatedProperties: false });
  }
  for (const inner of Object.values(schema)) if (typeof inner === 'object' && inner !== null) close(inner);
}

/** `{path}` spans slashes, other parameters do not. */
function matches(template: string, pathname: string): boolean {
  const pattern = template
    .replaceAll('.', '\\.')
    .replace('{path}', '.+')
    .replaceAll(/\{[a-z_]+\}/g, '[^/]+');
  return new RegExp(`^${pattern}$`).test(pathname);
}
