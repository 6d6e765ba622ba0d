import type { TestConsole } from './testConsole.ts';

/** The page of Find, and the jobs that it lists, in order. */
export async function askFind(test: TestConsole, query: Readonly<Record<string, string>>) {
  const { cookie } = test.signedIn('auditor');
  const answer = await test.get(`/find?${new URLSearchParams(query)}`, { cookie });
  const rows = answer.text.split('id="results"')[1] ?? '';
  const jobs = Array.from(rows.matchAll(/<td[^>]*><a href="\/find\/(job_[0-9a-f]{32})"/g), ([, id]) => id);
  const [, before] = /[?&;]before=(job_[0-9a-f]{32})"/.exec(rows) ?? [];
  return { ...answer, jobs, before };
}
