// Run in the machine: verify.mjs PORT KEY FOLDER — fetches the receipt of every job in FOLDER/jobs and verifies it with the library of the
// package, in one process, since there are many. Prints how many there were; ends with 1 at the first that is not good.
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';

const [port, key, folder] = process.argv.slice(2);
const { verifyReceiptText } = await import('/usr/lib/pdfseald/dist/prove/verify/verify.js');
const trust = readFileSync(`${folder}/trust.json`, 'utf8');
const jobs = readFileSync(`${folder}/jobs`, 'utf8').trim().split('\n');
for (const job of jobs) {
  const document = readFileSync(`${folder}/${job}.pdf`);
  const digest = (algorithm) => createHash(algorithm).update(document).digest('hex');
  const headers = { authorization: `Bearer ${key}` };
  const answer = await fetch(`http://127.0.0.1:${port}/v1/jobs/${job}/receipt.json`, { headers });
  const verdict = verifyReceiptText(await answer.text(), trust, {
    sha256: digest('sha256'),
    sha512: digest('sha512'),
    bytes: document.length,
  });
  if (verdict.outcome === 'good') continue;
  console.error(job, answer.status, verdict);
  process.exit(1);
}
console.log(jobs.length);
