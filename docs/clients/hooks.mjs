import { createHmac, timingSafeEqual } from 'node:crypto';
import { createServer } from 'node:http';

const key = Buffer.from(process.env.SEAL_WEBHOOK_SECRET.replace(/^whsec_/, ''), 'base64');
const handled = new Set(); // in production: a table with the webhook-id as its key, written together with your own data

function isGenuine(headers, body) {
  const { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': signatures = '' } = headers;
  if (!(Math.abs(Date.now() / 1000 - Number(timestamp)) <= 300)) return false;
  const expected = createHmac('sha256', key).update(`${id}.${timestamp}.`).update(body).digest();
  return signatures.split(' ').some((signature) => {
    const given = Buffer.from(signature.replace(/^v1,/, ''), 'base64');
    return given.length === expected.length && timingSafeEqual(given, expected);
  });
}

createServer(async (request, response) => {
  const body = Buffer.concat(await request.toArray());
  if (!isGenuine(request.headers, body)) return response.writeHead(401).end();
  const id = request.headers['webhook-id'];
  if (!handled.has(id)) {
    const { type, data } = JSON.parse(body);
    console.log(type, data.id, data.customer_reference);
    handled.add(id);
  }
  response.writeHead(204).end();
}).listen(Number(process.env.PORT ?? 8500), '127.0.0.1');
