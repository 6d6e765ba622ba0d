import type { Argument, Command, Option } from 'commander';
import { ERROR_CODES, ERROR_KINDS } from '../../src/base/errorKinds.ts';
import { MANUAL_FOLDER } from '../../src/base/package.ts';
import { EXIT_MEANINGS, EXIT_STATUSES, exitMeaningsOf } from '../../src/cli/exit.ts';
import { describeOption, explanationOf, shownOptions } from '../../src/cli/help.ts';
import { wholeProgram } from '../../src/cli/program.ts';
import { FAILURES } from '../../src/cli/report.ts';
import { DAEMON_EXIT_MEANINGS, DAEMON_OPTIONS } from '../../src/main/usage.ts';
import { WITNESS_COMMANDS, WITNESS_EXIT_MEANINGS, WITNESS_OPTIONS } from '../../src/main/witnessUsage.ts';
import { configHeading, keysAsTroff } from './configManual.ts';
import { bold, definitions, italic, literal, page, prose, subsection, verbatim } from './troff.ts';

type Sections = [title: string, body: string][];
type Definitions = [term: string, meaning: string][];

const FILES: Definitions = [
  ['/etc/pdfseal/<environment>.toml', 'Configuration of an environment; see pdfseald.toml(5).'],
  ['/var/lib/pdfseal/<environment>', 'State of an environment: store, certificates, trust file.'],
  ['/run/pdfseal/<environment>/admin.sock', 'Where its daemon is asked how it is.'],
];
const RECEIPT_FILES: Definitions = [
  ['<document>.receipt.json', 'The receipt of a document, beside it.'],
  ['trust.json', 'What verifiers need to trust a log; pdfseal-trust(1) makes it.'],
];
const ENVIRONMENT: Definitions = [
  ['PDFSEAL_CONFIG', 'Config file of the environment, where no --config is given.'],
  ['PDFSEAL_API_KEY', 'API key, where no --key-file is given.'],
  ['NO_COLOR', 'If it is set and not empty, terminals get no colours.'],
  ['PDFSEAL_STACK', 'If it is set and not empty, a fault of pdfseal itself is shown with its stack.'],
];

/** Manual pages by file name, made of what the programs take and of the commented configuration. `date`: `2026-11-20`. */
export async function manualPages(version: string, date: string): Promise<Record<string, string>> {
  const program = await wholeProgram();
  const made = (name: string, section: string, summary: string, sections: Sections) => {
    const seeAlso: [string, string] = ['SEE ALSO', seeAlsoOf(name)];
    return [
      `${name}.${section}`,
      page({ name, section, date, version, summary, sections: [...sections, seeAlso] }),
    ];
  };
  return Object.fromEntries([
    made('pdfseald', '8', 'seals PDF documents', daemonSections()),
    made(
      'pdfseal',
      '1',
      'administers pdfseald, seals documents and verifies receipts',
      programSections(program),
    ),
    made('pdfseal-run', '8', 'runs pdfseal as the daemon of an environment', runSections()),
    made('pdfseal-witness', '8', 'cosigns the checkpoints of logs', witnessSections()),
    made('pdfseald.toml', '5', 'configuration of pdfseald', configurationSections()),
    made('pdfseal-errors', '7', 'error codes of pdfseald and pdfseal', errorSections()),
    ...program.commands.map((command) =>
      made(`pdfseal-${command.name()}`, '1', command.summary(), commandSections(command)),
    ),
  ]);
}

function seeAlsoOf(name: string): string {
  const pages = ['pdfseal(1)', 'pdfseald.toml(5)', 'pdfseal-errors(7)', 'pdfseald(8)'];
  const others = pages.filter((other) => !other.startsWith(`${name}(`));
  return prose(`${others.join(', ')}, ${MANUAL_FOLDER}/index.html`);
}

function daemonSections(): Sections {
  return [
    ['SYNOPSIS', `${bold('pdfseald --config')} ${italic('FILE')} [${bold('--check-config')}]`],
    [
      'DESCRIPTION',
      prose(
        'An application posts a PDF; pdfseald hashes it while it arrives, has a hardware security module sign it into a ' +
          'tamper-evident log, and answers with a receipt that verifies offline. One daemon serves one environment; systemd runs each as pdfseald@<environment>.service.\n\n' +
          'SIGHUP has it read its configuration again, SIGTERM finishes what is under way and ends it. It logs one line of JSON for each event.',
      ),
    ],
    ['OPTIONS', definitions(DAEMON_OPTIONS)],
    ['EXIT STATUS', exitStatuses(DAEMON_EXIT_MEANINGS)],
    ['FILES', definitions(FILES)],
    [
      'EXAMPLES',
      verbatim([
        'pdfseald --check-config --config /etc/pdfseal/production.toml',
        'systemctl enable --now pdfseald@production.service',
      ]),
    ],
  ];
}

function witnessSections(): Sections {
  return [
    ['SYNOPSIS', verbatim(WITNESS_COMMANDS.map(([command]) => `pdfseal-witness ${command}`))],
    [
      'DESCRIPTION',
      prose(
        'pdfseal-witness is a witness of transparency logs (C2SP tlog-witness). A log sends it each new checkpoint. It cosigns the ' +
          'checkpoint only if the tree contains the tree that it cosigned before. So a log that shows two histories is found out.\n\n' +
          'systemd runs it as pdfseal-witness@<name>.service when a log connects to its socket.',
      ),
    ],
    ['COMMANDS', definitions(WITNESS_COMMANDS)],
    ['OPTIONS', definitions(WITNESS_OPTIONS)],
    ['EXIT STATUS', exitStatuses(WITNESS_EXIT_MEANINGS)],
    [
      'FILES',
      definitions([
        ['/etc/pdfseal-witness/<name>.key', 'Its name and its private key.'],
        ['/etc/pdfseal-witness/<name>.logs', 'The logs that it cosigns.'],
        ['/var/lib/pdfseal-witness/<name>', 'The newest checkpoint of each log that it cosigned.'],
      ]),
    ],
  ];
}

function runSections(): Sections {
  return [
    [
      'SYNOPSIS',
      `${bold('pdfseal-run')} ${italic('environment')} ${italic('command')} [${italic('options')}]`,
    ],
    [
      'DESCRIPTION',
      prose(
        'pdfseal-run runs a command of pdfseal as the daemon of the environment would run it: as the user pdfseal-<environment>, with the ' +
          'PINs below /etc/pdfseal/<environment>.pins as credentials, and with "--config /etc/pdfseal/<environment>.toml". The daemon need not ' +
          'run. The first use makes the user and the folders of the environment.\n\n' +
          'Only root can run it. The audit trail names the user who called sudo(8).',
      ),
    ],
    [
      'OPTIONS',
      definitions([
        ['<environment>', 'The name of a file in /etc/pdfseal, without .toml.'],
        ['<command>', 'A command of pdfseal(1) that takes --config, and its options, without --config.'],
      ]),
    ],
    [
      'EXIT STATUS',
      definitions([
        [
          '1',
          'systemd could not run the command, or a signal ended it; journalctl --namespace=+pdfseald -e says why.',
        ],
        ['64', 'The environment or the command is missing or wrong, or the caller is not root.'],
        ['other', 'That of pdfseal(1).'],
      ]),
    ],
    [
      'FILES',
      definitions([
        ...FILES,
        [
          '/etc/pdfseal/<environment>.pins',
          'A folder with a file for each PIN; <name> is the credential pin_<name>.',
        ],
      ]),
    ],
    ['EXAMPLES', verbatim(['pdfseal-run production init', 'pdfseal-run production doctor'])],
  ];
}

function programSections(program: Command): Sections {
  return [
    ['SYNOPSIS', `${bold('pdfseal')} ${italic('command')} [${italic('options')}]`],
    [
      'DESCRIPTION',
      `${prose(program.description())}\n${definitions(program.commands.map((one) => [`pdfseal-${one.name()}(1)`, one.summary()]))}`,
    ],
    ['OPTIONS', definitions(program.options.map(presentOption))],
    [
      'JSON',
      prose(
        'Every command takes --json. Standard output then holds nothing but results, one JSON object on each line, with the names the API has. ' +
          'Each line of standard error is an object too: {"note": ...}, or, as the last one of a command that failed, {"error": {"code": ..., "message": ..., "remedy": ...}}; ' +
          'pdfseal-errors(7) lists the codes. The exit status is the same with and without.',
      ),
    ],
    ['EXIT STATUS', exitStatuses(EXIT_STATUSES.map((status) => [status, EXIT_MEANINGS[status]]))],
    ['ENVIRONMENT', definitions(ENVIRONMENT)],
    ['FILES', definitions([...FILES, ...RECEIPT_FILES])],
    [
      'EXAMPLES',
      verbatim([
        'pdfseal status --config /etc/pdfseal/production.toml',
        'pdfseal verify contract.pdf contract.pdf.receipt.json --trust trust.json',
      ]),
    ],
  ];
}

function commandSections(command: Command): Sections {
  const leaves = command.commands.length > 0 ? command.commands : [command];
  const perLeaf = (body: (leaf: Command) => string): string =>
    leaves.length === 1 && leaves[0] === command
      ? body(command)
      : leaves.map((leaf) => subsection(fullName(leaf), body(leaf))).join('\n');
  const own = leaves[0] === command ? [] : [prose(command.description())];
  const usesConfig = leaves.some(({ options }) => options.some(({ long }) => long === '--config'));
  return [
    ['SYNOPSIS', leaves.map(synopsisOf).join('\n.PP\n')],
    ['DESCRIPTION', [...own, perLeaf(descriptionOf)].join('\n')],
    [
      'OPTIONS',
      perLeaf((leaf) =>
        definitions([
          ...leaf.registeredArguments.map(presentArgument),
          ...shownOptions(leaf).map(presentOption),
        ]),
      ),
    ],
    ['EXIT STATUS', exitStatusOf(leaves)],
    ['FILES', definitions(usesConfig ? FILES : RECEIPT_FILES)],
    ['EXAMPLES', verbatim(leaves.flatMap((leaf) => explanationOf(leaf)?.examples ?? []))],
  ];
}

function fullName(command: Command): string {
  return command.parent === null ? command.name() : `${fullName(command.parent)} ${command.name()}`;
}

function synopsisOf(leaf: Command): string {
  const options = shownOptions(leaf).toSorted((a, b) => Number(b.mandatory) - Number(a.mandatory));
  return [
    bold(fullName(leaf)),
    ...options.map((option) => (option.mandatory ? marked(option.flags) : `[${marked(option.flags)}]`)),
    ...leaf.registeredArguments.map((one) => {
      const name = `${italic(one.name())}${one.variadic ? literal('...') : ''}`;
      return one.required ? name : `[${name}]`;
    }),
  ].join('\n');
}

/** `--config <file>`: what is typed in bold, what stands for something in italics. */
function marked(flags: string): string {
  return flags
    .split(' ')
    .map((word) =>
      /^[<[]/.test(word) ? italic(word.replaceAll(/[<>[\]]/g, '').replace('...', ' ...')) : bold(word),
    )
    .join(' ');
}

function descriptionOf(leaf: Command): string {
  const description = leaf.description() || capitalized(leaf.summary());
  const notes = explanationOf(leaf)?.notes;
  return prose(notes === undefined ? description : `${description}\n\n${notes}`);
}

function capitalized(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
}

function presentOption(option: Option): [string, string] {
  return [option.flags, describeOption(option)];
}

function presentArgument(argument: Argument): [string, string] {
  return [argument.required ? `<${argument.name()}>` : `[${argument.name()}]`, argument.description];
}

/** What all commands of a page share is said once, what one of them says otherwise below its name. */
function exitStatusOf(leaves: readonly Command[]): string {
  const ofLeaf = (leaf: Command | undefined) =>
    exitStatuses(exitMeaningsOf((leaf && explanationOf(leaf)?.exit) ?? {}));
  const own = leaves.filter((leaf) => explanationOf(leaf)?.exit !== undefined);
  if (leaves.length === 1) return ofLeaf(leaves[0]);
  return [ofLeaf(undefined), ...own.map((leaf) => subsection(fullName(leaf), ofLeaf(leaf)))].join('\n');
}

function exitStatuses(meanings: readonly (readonly [status: number, meaning: string])[]): string {
  return definitions(meanings.map(([status, meaning]) => [String(status), meaning]));
}

function errorSections(): Sections {
  const statuses = [...new Set(ERROR_CODES.map((code) => ERROR_KINDS[code].status))].toSorted(
    (a, b) => a - b,
  );
  const ofStatus = (status: number) => ERROR_CODES.filter((code) => ERROR_KINDS[code].status === status);
  return [
    [
      'DESCRIPTION',
      prose(
        'Every failure has a stable code. Answers of the API carry it as error.code, with a message that names the field and what to do; ' +
          'the daemon serves the page of each at /v1/errors/<code>. pdfseal prints it with --json.',
      ),
    ],
    [
      'CODES OF THE API',
      statuses
        .map((status) =>
          subsection(
            `HTTP status ${status}`,
            definitions(
              ofStatus(status).map((code) => [
                code,
                `${ERROR_KINDS[code].title}. ${ERROR_KINDS[code].remedy}`,
              ]),
            ),
          ),
        )
        .join('\n'),
    ],
    [
      'CODES OF PDFSEAL',
      `${prose('Besides those of the API that a service or its administration answered, and what an HSM said (such as pin_refused):')}\n${definitions(Object.entries(FAILURES))}`,
    ],
  ];
}

function configurationSections(): Sections {
  return [
    ['SYNOPSIS', italic('/etc/pdfseal/<environment>.toml')],
    [
      'DESCRIPTION',
      prose(
        `${configHeading()}\n\nEach key is shown with its default; "pdfseal config show" prints all of them as they are in effect.`,
      ),
    ],
    ['KEYS', keysAsTroff()],
    [
      'FILES',
      definitions([
        ...FILES,
        ['/usr/share/doc/pdfseald/examples/config/production.toml', 'All of this, to be copied.'],
      ]),
    ],
    ['EXAMPLES', verbatim(['pdfseald --check-config --config /etc/pdfseal/production.toml'])],
  ];
}
