import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { request } from 'node:https';
import { json } from 'node:stream/consumers';

const [ca, cert, key] = ['ca.pem', 'client.pem', 'client.key'].map((file) => readFileSync(file));
const sent = request(`${process.env.PDFSEAL_URL}/v1/jobs?limit=1`, { ca, cert, key, timeout: 60_000 }).end();
sent.on('timeout', () => sent.destroy(new Error('no answer within a minute')));
const [answer] = await once(sent, 'response');
const body = await json(answer);
if (answer.statusCode !== 200) throw new Error(body.error.message);
console.log(body.jobs);
