import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { basename } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

const { PDFSEAL_URL, PDFSEAL_API_KEY } = process.env;

/** Answers the JSON body; sends again what may succeed later. */
async function api(path, options = {}) {
  for (let attempt = 0; ; attempt += 1) {
    let waitSeconds = Math.min(2 ** attempt, 60);
    try {
      const response = await fetch(PDFSEAL_URL + path, {
        ...options,
        headers: { ...options.headers, Authorization: `Bearer ${PDFSEAL_API_KEY}` },
      });
      const body = await response.json();
      if (response.ok) return body;
      if (![429, 502, 503, 504].includes(response.status) || attempt === 10)
        throw Object.assign(new Error(body.error.message), { isFinal: true });
      waitSeconds = Number(response.headers.get('Retry-After') ?? waitSeconds);
    } catch (error) {
      if (error.isFinal || attempt === 10) throw error; // anything else is the network, or a proxy without JSON
    }
    await sleep(waitSeconds * 1000);
  }
}

const document = process.argv[2];
const bytes = readFileSync(document);
const fields = new URLSearchParams({ visibility: 'private', customer_reference: basename(document) });
let job = await api(`/v1/jobs/seal?${fields}`, {
  method: 'POST',
  headers: {
    'Content-Type': 'application/pdf',
    'Idempotency-Key': createHash('sha256').update(bytes).digest('hex'),
  },
  body: bytes,
});
while (job.phase !== 'completed') {
  if (job.phase === 'failed') throw new Error(job.error.message);
  await sleep(1000);
  job = await api(`/v1/jobs/${job.id}`);
}
const receipt = await api(`/v1/jobs/${job.id}/receipt.json`);
const receiptFile = `${document}.receipt.json`;
writeFileSync(receiptFile, JSON.stringify(receipt));
execFileSync('pdfseal', ['verify', document, receiptFile, '--trust', 'trust.json'], { stdio: 'inherit' });
