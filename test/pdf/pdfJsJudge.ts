/** What pdf.js says of the document of each line of input: a line of JSON, as `View` of foreignJudges.ts. */
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { getDocument } from 'pdfjs-dist/legacy/build/pdf.mjs';
import type { View } from './foreignJudges.ts';

for await (const path of createInterface({ input: process.stdin })) {
  process.stdout.write(`${JSON.stringify(await look(path))}\n`);
}

async function look(path: string): Promise<View> {
  const data = new Uint8Array(readFileSync(path));
  const loading = getDocument({ data, verbosity: 0, stopAtErrors: true });
  try {
    const document = await loading.promise;
    const attachments: Map<string, { filename: string }> | null = await document.getAttachments();
    const files = Array.from(attachments?.values() ?? [], ({ filename }) => filename);
    const texts: string[] = [];
    for (let page = 1; page <= Math.min(document.numPages, 20); page += 1) {
      const content = await (await document.getPage(page)).getTextContent();
      texts.push(content.items.map((item) => ('str' in item ? item.str : '')).join(' '));
    }
    return { complaints: 0, said: '', shows: JSON.stringify([document.numPages, texts]), files };
  } catch (error) {
    return { complaints: 1, said: String(error) };
  } finally {
    await loading.destroy();
  }
}
