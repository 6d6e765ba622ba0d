/** The pages of the manual in Markdown. A table that the program itself has is put in here, and written in no page. */
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Metrics } from '../../src/admin/metrics.ts';
import { requestsOfAdministration } from '../../src/admin/openapi.ts';
import { AUTHORITY_ALGORITHMS } from '../../src/asn1/signatureAlgorithm.ts';
import { ERROR_KINDS } from '../../src/base/errorKinds.ts';
import { EXIT_MEANINGS } from '../../src/cli/exit.ts';
import type { AcceptanceReport } from '../../src/cli/hsm/acceptanceReport.ts';
import type { Operation } from '../../src/http/openapiParts.ts';
import { OPERATIONS } from '../../src/http/operations.ts';
import { WEBHOOK_OPERATIONS } from '../../src/http/webhookOperations.ts';
import { PIN_NOT_JUDGED } from '../../src/kms/refusedPins.ts';
import { RETURN_VALUES } from '../../src/kms/returnValues.ts';
import { SIGNER_REMEDIES } from '../../src/kms/signerFailure.ts';
import { SIGNATURE_ALGORITHMS } from '../../src/log/verifierKey.ts';

/** The reports of the modules that were tried. */
export const MODULES_FOLDER = 'docs/hsm/modules';
const ROOT = fileURLToPath(new URL('../..', import.meta.url));

export interface ManualSource {
  /** Relative to the root of the checkout: `docs/hsm/softhsm.md`. */
  path: string;
  markdown: string;
}

/** README.md and the pages below docs. */
export function manualSources(): ManualSource[] {
  const below = readdirSync(join(ROOT, 'docs'), { recursive: true, encoding: 'utf8' });
  const paths = below.filter((path) => path.endsWith('.md')).map((path) => `docs/${path}`);
  return ['README.md', ...paths.toSorted()].map((path) => ({
    path,
    markdown: completed(read(path), dirname(path)),
  }));
}

/**
 * The text of a page in `folder`, with a table, the text of an alert or a program in place of each line that is a link entitled "made". In a
 * checkout, the link leads to the source of it.
 */
export function completed(markdown: string, folder = 'docs'): string {
  return markdown.replaceAll(/^\[([^\]]+)\]\((\S+) "made"\)$/gm, (_line, name: string, target: string) => {
    const text = MADE[name]?.() ?? alert(name) ?? program(join(folder, target));
    if (text === undefined) throw new Error(`the manual asks for "${name}", which nothing makes`);
    return text;
  });
}

const MADE: Readonly<Record<string, () => string>> = {
  'Error codes': () =>
    table(
      ['Code', 'Status', 'What it means'],
      Object.entries(ERROR_KINDS).map(([code, { status, title }]) => [`\`${code}\``, `${status}`, title]),
    ),
  'Exit statuses': () => table(['Status', 'Meaning'], Object.entries(EXIT_MEANINGS)),
  Metrics: () =>
    table(
      ['Metric', 'Labels', 'Meaning'],
      new Metrics()
        .families()
        .map(({ name, help, labelNames }) => [
          `\`${name}\``,
          labelNames.map((label) => `\`${label}\``).join(', '),
          help,
        ]),
    ),
  Requests: () => {
    const others = Object.entries(OPERATIONS).filter(([id]) => !(id in WEBHOOK_OPERATIONS));
    return table(['Request', 'What it does', 'Scope of the key'], rowsOf(Object.fromEntries(others), '/v1'));
  },
  'Requests on webhooks': () =>
    table(['Request', 'What it does', 'Scope of the key'], rowsOf(WEBHOOK_OPERATIONS, '/v1')),
  'Codes of the signers': () =>
    table(
      ['Code', 'What to do'],
      Object.entries(SIGNER_REMEDIES).map(([code, remedy]) => [`\`${code}\``, remedy]),
    ),
  'Return values of PKCS#11': () =>
    table(
      ['Code', 'Meaning', 'What to do'],
      Object.entries(RETURN_VALUES).map(([code, { means, remedy }]) => [`\`${code}\``, means, remedy]),
    ),
  'Modules that were tried': () =>
    table(
      ['Module', 'Library', 'Log keys', 'Time-stamping keys', 'Signatures a second', 'Outcome', 'Tried'],
      triedModules().map(rowOfModule),
    ),
  'Log-ins that do not count': () =>
    table(
      ['Error', 'Why it says nothing about the PIN'],
      Object.entries(PIN_NOT_JUDGED).map(([code, reason]) => [`\`${code}\``, reason]),
    ),
  Acts: () =>
    read('test/journeys/acts.md')
      .split('\n')
      .filter((line) => line.startsWith('|'))
      .join('\n'),
  'Requests to the administration': () =>
    table(['Request', 'What it does', 'Scope of the key'], rowsOf(requestsOfAdministration(), '')),
};

/** A report of `pdfseal hsm acceptance`, and the name of the module in `test/support/modules.ts`. */
type TriedModule = AcceptanceReport & { name: string };

function triedModules(): TriedModule[] {
  const files = readdirSync(join(ROOT, MODULES_FOLDER)).toSorted();
  return files.map((file) => JSON.parse(read(join(MODULES_FOLDER, file))) as TriedModule);
}

function rowOfModule({ name, module, algorithms, outcome, date, remark }: TriedModule): string[] {
  const working = algorithms.filter((one) => one.outcome === 'works');
  const namesIn = (known: readonly string[]) =>
    working.map(({ algorithm }) => algorithm).filter((one) => known.includes(one));
  const [first] = working;
  const rates = first?.rates.flatMap(({ sessions, per_second: rate }) =>
    rate === undefined ? [] : [`${Math.round(rate)} in ${sessions}`],
  );
  return [
    remark === undefined ? name : `${name} (${remark})`,
    module.version ?? '',
    namesIn(SIGNATURE_ALGORITHMS).join(', ') || 'none',
    namesIn(AUTHORITY_ALGORITHMS).join(', ') || 'none',
    first === undefined ? '' : `${first.algorithm}: ${[rates?.at(0), rates?.at(-1)].join(', ')} sessions`,
    outcome,
    date.slice(0, 10),
  ];
}

const ACCESS: Partial<Record<Operation['access'], string>> = {
  log: 'any key; no key with `log.public`',
  any_key: 'any',
  anyone: 'no key',
};

function rowsOf(operations: Readonly<Record<string, Operation>>, prefix: string): string[][] {
  return Object.values(operations).map(({ method, path, summary, access }) => [
    `\`${method.toUpperCase()} ${prefix}${path}\``,
    summary,
    ACCESS[access] ?? `\`${access}\``,
  ]);
}

function table(head: string[], rows: string[][]): string {
  const line = (cells: string[]) => `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
  return [head, head.map(() => '---'), ...rows].map(line).join('\n');
}

/** The text of an alert of config/prometheus-alerts.yml, for the environment `production`. */
function alert(name: string): string | undefined {
  const block = read('config/prometheus-alerts.yml')
    .split('- alert: ')
    .find((one) => one.startsWith(`${name}\n`));
  if (block === undefined) return undefined;
  const value = (key: string) =>
    new RegExp(`^ *${key}: "?(.*?)"?$`, 'm')
      .exec(block)?.[1]
      ?.replaceAll('{{ $labels.environment }}', 'production')
      .replaceAll(/\{\{[^}]*\}\}/g, '…') ?? '';
  const lasting = value('for') === '' ? '' : `, for ${value('for')}`;
  return `\`${name}\`${lasting}: ${value('summary')}.\n\n${value('description')}`;
}

const LANGUAGES: Readonly<Record<string, string>> = {
  '.sh': 'bash',
  '.mjs': 'js',
  '.py': 'python',
  '.java': 'java',
  '.json': 'json',
};

/** A program or a sample of the manual, as a block of code. */
function program(path: string): string | undefined {
  const language = LANGUAGES[extname(path)];
  return language === undefined ? undefined : `\`\`\`${language}\n${read(path)}\`\`\``;
}

function read(path: string): string {
  return readFileSync(join(ROOT, path), 'utf8');
}
