import type { Middleware } from 'koa';
import { ERROR_CODES, ERROR_KINDS, typeOf } from '../base/errorKinds.ts';
import { type ErrorCode, ServiceError } from '../base/errors.ts';
import { MANUAL_FOLDER } from '../base/package.ts';

/** `GET /v1/errors/:code`: the target of `doc_url`. The daemon serves these pages itself, so that they are available offline. */
export const serveErrorPage: Middleware = (ctx) => {
  const code = ERROR_CODES.find((known) => known === ctx.params.code);
  if (!code) throw new ServiceError('not_found', 'There is no error code with this name. See /v1/errors.');
  answerPage(ctx, code, errorPage(code));
};

/** `GET /v1/errors`: the list of all codes. */
export const serveErrorIndex: Middleware = (ctx) => {
  const rows = ERROR_CODES.map(
    (code) =>
      `<li><a href="/v1/errors/${code}">${code}</a> (${ERROR_KINDS[code].status}): ${escapeHtml(ERROR_KINDS[code].title)}.</li>`,
  );
  answerPage(ctx, 'Errors', `<ul>\n${rows.join('\n')}\n</ul>`);
};

function errorPage(code: ErrorCode): string {
  const { status, title, remedy } = ERROR_KINDS[code];
  return `<p><strong>${escapeHtml(title)}.</strong></p>
<p>${escapeHtml(remedy)}</p>
<p>HTTP status ${status}, type <code>${typeOf(code)}</code>. <a href="/v1/errors">All errors</a></p>
<p>On the machine of the service, <code>${MANUAL_FOLDER}/api.html</code> is the manual of the API.</p>`;
}

function answerPage(ctx: Parameters<Middleware>[0], title: string, content: string): void {
  ctx.set(
    'Content-Security-Policy',
    "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  );
  ctx.set('Cache-Control', 'public, max-age=3600');
  ctx.type = 'text/html; charset=utf-8';
  ctx.body = `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>${title} · pdfseald</title></head>
<body>
<h1>${title}</h1>
${content}
</body>
</html>
`;
}

function escapeHtml(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}
