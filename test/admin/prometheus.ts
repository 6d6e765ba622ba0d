import { spawn } from 'node:child_process';
import { copyFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Test } from 'tap';
import { freePort } from '../support/freePort.ts';
import { until } from '../support/until.ts';

interface QueryAnswer {
  status: string;
  error?: string;
  data?: { result: unknown[] };
}

/** A real Prometheus that scrapes one daemon every second, with the alert rules of config/. It ends with the test. */
export class Prometheus {
  readonly url: string;

  /** Use {@link startPrometheus}. */
  constructor(url: string) {
    this.url = url;
  }

  /** How many series an expression has now. Throws with its words where it cannot be evaluated. */
  async count(expression: string): Promise<number> {
    const query = new URLSearchParams({ query: expression });
    const answer = await this.#get<QueryAnswer>(`/api/v1/query?${query}`);
    if (answer.data === undefined) throw new Error(`${expression}: ${answer.error}`);
    return answer.data.result.length;
  }

  /** What became of each rule when it was last evaluated, by its name. */
  async rules(): Promise<{ name: string; health: string }[]> {
    type Groups = { data: { groups: { rules: { name: string; health: string }[] }[] } };
    const { data } = await this.#get<Groups>('/api/v1/rules');
    return data.groups.flatMap(({ rules }) => rules.map(({ name, health }) => ({ name, health })));
  }

  async #get<T>(path: string): Promise<T> {
    return (await (await fetch(`${this.url}${path}`)).json()) as T;
  }
}

/** `port` is where the administration of the daemon listens, `apiKey` one with the scope admin:read. */
export async function startPrometheus(t: Test, port: number, apiKey: string): Promise<Prometheus> {
  const dir = t.testdir();
  copyFileSync('config/prometheus-alerts.yml', join(dir, 'prometheus-alerts.yml'));
  const labels = { environment: 'sandbox' };
  const config = {
    global: { scrape_interval: '1s', evaluation_interval: '1s' },
    rule_files: ['prometheus-alerts.yml'],
    scrape_configs: [
      {
        job_name: 'pdfseald',
        authorization: { credentials_file: 'api.key' },
        static_configs: [{ targets: [`127.0.0.1:${port}`], labels }],
      },
    ],
  };
  writeFileSync(join(dir, 'api.key'), apiKey);
  writeFileSync(join(dir, 'prometheus.json'), JSON.stringify(config));
  const listen = `127.0.0.1:${await freePort()}`;
  const child = spawn(
    'prometheus',
    [
      `--config.file=${dir}/prometheus.json`,
      `--storage.tsdb.path=${dir}/data`,
      `--web.listen-address=${listen}`,
    ],
    { stdio: 'ignore' },
  );
  const ended = new Promise((resolve) => child.once('close', resolve));
  t.teardown(async () => {
    child.kill('SIGKILL');
    await ended;
  });
  const prometheus = new Prometheus(`http://${listen}`);
  await until('Prometheus has scraped a few times', async () => {
    if (child.exitCode !== null) throw new Error(`prometheus ended with ${child.exitCode}`);
    return (await prometheus.count('count_over_time(up[1m]) > 3 and up == 1').catch(() => 0)) === 1;
  });
  return prometheus;
}
