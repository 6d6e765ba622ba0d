import { ApiCheck, type ApiDescription } from './openapi.ts';

export interface Answer {
  status: number;
  headers: Headers;
  text: string;
  bytes: Buffer;
  json<T = Record<string, unknown>>(): T;
}

/** The error envelope, as far as tests look. */
export interface Envelope {
  request_id: string;
  error: { type: string; code: string; message: string; doc_url: string };
}

export interface JobBody {
  id: string;
  phase: string;
  environment: string;
  trace_id: string;
  receipt_url?: string;
  capabilities: string[];
  created_at: string;
  error?: Envelope['error'];
}

export interface RequestOptions {
  headers?: Record<string, string>;
  body?: NonNullable<RequestInit['body']>;
  signal?: AbortSignal;
}

/** A client that holds every answer to the document the daemon serves. */
export class Client {
  readonly baseUrl: string;
  readonly apiKey: string | undefined;
  readonly check: ApiCheck;

  constructor(baseUrl: string, check: ApiCheck, apiKey?: string) {
    this.baseUrl = baseUrl;
    this.check = check;
    this.apiKey = apiKey;
  }

  /** `baseUrl` is without `/v1`. */
  static async connect(baseUrl: string, apiKey?: string): Promise<Client> {
    const response = await fetch(`${baseUrl}/v1/openapi.json`);
    const check = new ApiCheck((await response.json()) as ApiDescription);
    return new Client(baseUrl, check, apiKey);
  }

  as(apiKey: string | undefined): Client {
    return new Client(this.baseUrl, this.check, apiKey);
  }

  get(path: string, headers: Record<string, string> = {}): Promise<Answer> {
    return this.request('GET', path, { headers });
  }

  /** Posts a document with these form fields. */
  seal(
    document: Uint8Array<ArrayBuffer>,
    fields: Record<string, string> = {},
    headers: Record<string, string> = {},
  ): Promise<Answer> {
    const form = new FormData();
    for (const [name, value] of Object.entries({ visibility: 'private', ...fields }))
      form.append(name, value);
    form.append('file', new Blob([document], { type: 'application/pdf' }), 'document.pdf');
    return this.request('POST', '/v1/jobs/seal', { headers, body: form });
  }

  async request(method: string, path: string, options: RequestOptions = {}): Promise<Answer> {
    const headers = new Headers(options.headers);
    if (this.apiKey !== undefined && !headers.has('Authorization')) {
      headers.set('Authorization', `Bearer ${this.apiKey}`);
    }
    const { body, signal } = options;
    const response = await fetch(this.baseUrl + path, {
      method,
      headers,
      redirect: 'manual',
      ...(body !== undefined && { body, duplex: 'half' }),
      ...(signal && { signal }),
    });
    const bytes = Buffer.from(await response.arrayBuffer());
    const text = bytes.toString();
    this.check.check({ method, path, status: response.status, headers: response.headers, text });
    return { status: response.status, headers: response.headers, text, bytes, json: () => JSON.parse(text) };
  }
}
