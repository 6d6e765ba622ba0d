import t from 'tap';
import { ERROR_CODES, ERROR_KINDS, ERROR_TYPES } from '../../src/base/errorKinds.ts';
import { encodeEnvelope } from '../../src/http/errorResponses.ts';
import { openTestApp } from '../support/app.ts';
import type { Envelope } from '../support/client.ts';

/** Decisions, section 4; 408 and 431 are the transport's. */
const TYPE_OF_STATUS: Record<number, string> = {
  400: 'invalid_request_error',
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found_error',
  405: 'not_found_error',
  408: 'invalid_request_error',
  409: 'conflict_error',
  413: 'invalid_request_error',
  415: 'invalid_request_error',
  416: 'invalid_request_error',
  429: 'rate_limit_error',
  431: 'invalid_request_error',
  500: 'internal_error',
  503: 'unavailable_error',
};

t.test('every code has the type of its status', async (t) => {
  for (const code of ERROR_CODES) {
    const envelope = JSON.parse(encodeEnvelope('req_1', code, 'why')) as Envelope;
    const type = TYPE_OF_STATUS[ERROR_KINDS[code].status];
    t.strictSame(envelope, {
      request_id: 'req_1',
      error: { type, code, message: 'why', doc_url: `/v1/errors/${code}` },
    });
  }
  t.strictSame(new Set(ERROR_TYPES), new Set(Object.values(TYPE_OF_STATUS)));
});

t.test('every doc_url leads to a page that needs no key and runs nothing', async (t) => {
  const { client } = await openTestApp(t);
  const anyone = client.as(undefined);
  const index = await anyone.get('/v1/errors');
  for (const code of ERROR_CODES) {
    const page = await anyone.get(`/v1/errors/${code}`);
    t.equal(page.status, 200, code);
    t.equal(page.headers.get('Content-Type'), 'text/html; charset=utf-8');
    t.match(page.headers.get('Content-Security-Policy'), "default-src 'none'");
    t.match(page.text, `<h1>${code}</h1>`);
    t.match(page.text, String(ERROR_KINDS[code].status));
    t.match(index.text, `href="/v1/errors/${code}"`);
  }
  for (const name of ['nonsense', '__proto__', 'constructor', '%3Cscript%3E', '%ff']) {
    const answer = await anyone.get(`/v1/errors/${name}`);
    t.equal(answer.status, 404, name);
    t.equal(answer.json<Envelope>().error.code, 'not_found', name);
  }
});
